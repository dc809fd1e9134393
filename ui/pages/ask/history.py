"""The bar above the thread: restore, save, open, rename, export and delete chats, which the browser stores."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import gradio as gr
from pydantic import TypeAdapter, ValidationError

from ui.components.document_picker import DocumentPicker
from ui.events import INSTANT, Listeners, Update, session_of
from ui.format import count, day
from ui.html import Markup, button, join, tag
from ui.pages.ask.chat import MAX_TURNS, Chat
from ui.pages.ask.results import Results
from ui.pages.ask.word_export import chat_as_docx

LOAD_JS = "(chats, ...others) => [JSON.stringify(kvscopeChats.load()), ...others]"  # for the event of `page_loaded`
_SAVE_JS = "(sent) => [JSON.stringify(kvscopeChats.handle(JSON.parse(sent || null))), null]"
_MAX_TITLE_CHARS = 120
_SEARCH = "Search in chats"  # the browser does it: only it has them
_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_PROBLEMS = {
    "full": "This browser's storage is full: this chat is not saved. Export it, or delete old chats in another tab; "
    "the next answer then saves the whole chat.",
    "off": "This browser's storage is switched off: this chat is not saved. Export it to keep it.",
    "copied": "Another tab has changed this chat. This version was saved as a copy.",
    "gone": "The documents of this chat are no longer in the library: its next question searches all documents.",
}
_CHAT_FULL = (
    f"This chat has {MAX_TURNS} questions, the maximum: the next one replaces the oldest. "
    "Export it, or start a new chat."
)


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """A chat in the list: `at` is the Unix time of the last turn, `turns` their number."""

    id: str
    title: str
    at: float
    turns: int
    pinned: bool = False
    archived: bool = False


_SUMMARY_ADAPTER = TypeAdapter(ChatSummary)


@dataclass(frozen=True, slots=True)
class ChatHistory:
    """The events of the bar."""

    chat: gr.State
    replaces_last: gr.State  # whether the next answer replaces the chat's last turn; reset when a chat is opened
    carrier: gr.Textbox  # JSON, exchanged with the browser script that stores the chats
    bar: gr.HTML
    results: Results
    picker: DocumentPicker  # has the scope of the last question of an opened chat
    is_busy: Callable[[str], bool]  # whether a session's question is running; its chat cannot be changed meanwhile

    def connect(self, page_loaded: Listeners) -> None:
        """Connect the bar's buttons; restore this tab's chat when the page is loaded, by the first listener."""
        documents = self.picker.documents
        outputs = [self.chat, self.replaces_last, self.carrier, self.bar, documents, *self.results]
        page_loaded.add(self.restore, [self.carrier], outputs)
        self.then_store(self.bar.click(self.handle_action, self.chat, outputs, **INSTANT))

    def then_store(self, event: Any) -> None:
        """After `event`, let the browser store what it was sent, and update the bar with its reply."""
        inputs = [self.carrier, self.chat]
        event.then(self.refresh_bar, inputs, [self.chat, self.bar, self.carrier], js=_SAVE_JS, **INSTANT)

    def restore(self, sent: str | None) -> Update:
        """Show the chat that the browser stored for this tab; a new one if there is none."""
        stored = _read(sent)
        chat = Chat.from_saved(stored.get("chat"))
        bar = render_chat_bar(chat, parse_summaries(stored.get("listing")), self._problem(chat))
        return {**self._open(chat), self.bar: bar}

    def handle_action(self, chat: Chat, event: gr.EventData, request: gr.Request) -> Update:
        """Handle a click on a button of the bar, unless the session is busy."""
        if self.is_busy(session_of(request)):
            return gr.skip()
        data = _as_dict(event._data)
        action = data.get("act")
        if action in ("markdown", "word", "json"):
            return {self.carrier: json.dumps({"file": _export(chat, action)})}
        if action == "rename":
            return self.save(replace(chat, title=str(data.get("title") or "")[:_MAX_TITLE_CHARS]))
        if action == "pin":
            return self.save(replace(chat, pinned=not chat.pinned, archived=False))
        if action == "archive":
            return self.save(replace(chat, archived=not chat.archived, pinned=False))
        opened = Chat.from_saved(data.get("chat"))
        deleted = {"deleted": chat.id} if action == "delete" else {}
        return {**self._open(opened), self.carrier: json.dumps({"here": opened.id, **deleted})}

    def refresh_bar(self, sent: str | None, chat: Chat, request: gr.Request) -> Update:
        """Show the bar with the browser's current list; a chat changed in another tab continues as a copy."""
        update: Update = {self.carrier: None}
        if self.is_busy(session_of(request)):
            return update
        stored = _read(sent)
        chat_id = str(stored.get("id") or chat.id)
        if chat_id != chat.id:
            update[self.chat] = chat = replace(chat, id=chat_id)
        summaries = parse_summaries(stored.get("listing"))
        problem = str(stored.get("problem") or self._problem(chat))
        return {**update, self.bar: render_chat_bar(chat, summaries, problem)}

    def save(self, chat: Chat, answered: str | None = None) -> Update:
        """Send the chat to the browser too; the question box is cleared if it still holds the question `answered`."""
        return {self.chat: chat, self.carrier: json.dumps({"chat": asdict(chat), "answered": answered})}

    def _problem(self, chat: Chat) -> str:
        """Return 'gone' if nothing is left of what the chat's last question searched in; else empty."""
        scope = chat.visible_turns[-1].scope if chat.visible_turns else ()
        return "gone" if scope and not self.picker.only_existing(scope) else ""

    def _open(self, chat: Chat) -> Update:
        update: Update = {self.chat: chat, self.replaces_last: False, **self.results.show_chat(chat)}
        if chat.visible_turns:
            update[self.picker.documents] = self.picker.select(list(chat.visible_turns[-1].scope))
        return update


def parse_summaries(rows: Any) -> list[ChatSummary]:
    """Return the valid entries of the list that the browser sent."""
    summaries = []
    for row in rows if isinstance(rows, list) else []:
        with suppress(ValidationError):
            summaries.append(_SUMMARY_ADAPTER.validate_python(row))
    return summaries


def render_chat_bar(chat: Chat, chats: Iterable[ChatSummary] | None, problem: str = "") -> Markup:
    """Return the bar with the browser's `chats`; None disables it, while an answer is generated in this chat.

    Renaming and the confirmation of deleting happen in the browser. `problem` is a key of `_PROBLEMS` or none.
    """
    name_input = tag(
        "input", type="text", name_="title", value=chat.name, maxlength=_MAX_TITLE_CHARS, aria_label="Name of this chat"
    )
    actions = (
        button("new", None, "New chat", title="Start a new chat; this one stays in the list"),
        button("rename", None, "Rename"),
        button("pin", None, "Unpin" if chat.pinned else "Pin", title="Pinned chats are first in the list"),
        button(
            "archive", None, "Unarchive" if chat.archived else "Archive", title="Archived chats are last in the list"
        ),
        button("markdown", None, "Export", title="Download this chat as Markdown"),
        button("word", None, "Word", title="Download this chat as a Word document"),
        button("json", None, "JSON", title="Download this chat as JSON"),
        button("delete", chat.id, "Delete", title="Delete this chat from this browser"),
    )
    summary = tag("summary", _name(chat.name, bool(chat.title or chat.turns)), title="All chats in this browser")
    bar = tag(
        "nav",
        tag("details", summary, None if chats is None else _chat_list(chats, chat.id), class_="kv-chats"),
        tag("form", name_input, tag("button", "Save", type="submit"), data_id=chat.id, hidden=True),
        tag("div", *(actions if chat.turns else ()), class_="kv-chat-acts"),
        aria_label="Chats",
        class_="kv-chatbar",
        inert=chats is None,
    )
    is_full = chats is not None and len(chat.visible_turns) >= MAX_TURNS
    warning = _PROBLEMS.get(problem) or (_CHAT_FULL if is_full else None)
    return join(bar, tag("p", warning, class_="kv-warning", role="alert") if warning else None)


def _chat_list(chats: Iterable[ChatSummary], current_id: str) -> Markup:
    items: dict[bool, list[Markup]] = {False: [], True: []}  # by whether it is archived
    for chat in chats:
        items[chat.archived].append(_chat_item(chat, chat.id == current_id))
    if not any(items.values()):
        return tag("p", "Chats are saved in this browser only. There are none yet.", class_="kv-muted")
    search = tag("input", type="search", placeholder=_SEARCH, aria_label=_SEARCH)
    current, archived = (tag("ul", *each, class_="kv-chat-list") for each in items.values())
    fold = tag("details", tag("summary", f"Archived ({len(items[True])})"), archived) if items[True] else None
    return tag("div", search, tag("p", class_="kv-muted", role="status"), current, fold)


def _chat_item(chat: ChatSummary, is_current: bool) -> Markup:
    name = _name(chat.title or "Untitled", bool(chat.title))
    pinned = "pinned, " if chat.pinned else ""
    details = tag("small", tag("span", f"{pinned}{count(chat.turns, 'question')}"), ", ", tag("span", day(chat.at)))
    return tag("li", button("open", chat.id, name, details, aria_current="true" if is_current else None))


def _name(name: str, is_given: bool) -> Markup:
    """Return the name of a chat: `is_given` says whether it is the user's, which is never translated."""
    return tag("bdi" if is_given else "span", name, class_="kv-clip")


def _export(chat: Chat, kind: str) -> dict[str, str]:
    name = re.sub(r"[^\w -]+", "", chat.name).strip()[:60] or "chat"
    if kind == "word":
        return {"name": f"{name}.docx", "kind": _DOCX, "base64": b64encode(chat_as_docx(chat)).decode()}
    if kind == "json":
        return {"name": f"{name}.json", "kind": "application/json", "text": chat.as_json()}
    return {"name": f"{name}.md", "kind": "text/markdown", "text": chat.as_markdown()}


def _read(sent: str | None) -> dict[str, Any]:
    """Return what the browser's script has sent."""
    with suppress(ValueError):
        return _as_dict(json.loads(sent or "null"))
    return {}


def _as_dict(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}
