"""The bar above the thread: name of the current chat, list of all chats in this browser, and the chat's actions."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ui.format import count, day
from ui.html import Markup, button, join, tag
from ui.pages.ask.chats.chat import MAX_TURNS, Chat

_STORAGE_PROBLEMS = {
    "full": "This browser's storage is full: this chat is not saved. Export it, or delete old chats in another tab; "
    "the next answer then saves the whole chat.",
    "off": "This browser's storage is switched off: this chat is not saved. Export it to keep it.",
    "copied": "Another tab has changed this chat. This version was saved as a copy.",
}
_CHAT_FULL = (
    f"This chat has {MAX_TURNS} questions, the maximum: the next one replaces the oldest. "
    "Export it, or start a new chat."
)
# Clicks on buttons inside our HTML. The chats are stored in the browser, so the script adds what the server needs.
ON_CLICK = """
element.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-act]');
    if (!button) return;
    const action = kvscopeChats.act(button, element);
    if (action) trigger('click', action);
});
element.addEventListener('submit', (event) => {
    event.preventDefault();
    trigger('click', kvscopeChats.rename(event.target));
});
"""


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """A chat in the list: id, title, Unix time of the last turn, and number of turns."""

    id: str
    title: str
    at: float
    turns: int

    @classmethod
    def parse_all(cls, rows: Any) -> list["ChatSummary"]:
        """Return the valid entries of the list that the browser sent."""
        summaries = []
        for row in rows if isinstance(rows, list) else []:
            with suppress(ValidationError):
                summaries.append(_SUMMARY_ADAPTER.validate_python(row))
        return summaries


_SUMMARY_ADAPTER = TypeAdapter(ChatSummary)


def render_chat_bar(chat: Chat, chats: Iterable[ChatSummary], problem: str = "") -> Markup:
    """Return the bar. Renaming and the confirmation of deleting happen in the browser, without the server.

    problem  why the browser could not save the chat: a key of `_STORAGE_PROBLEMS`, or anything else for none
    """
    items = [_list_item(each, each.id == chat.id) for each in chats]
    if items:
        chat_list = tag("ul", *items, class_="kv-chat-list")
    else:
        chat_list = tag("p", "Chats are saved in this browser only. There are none yet.", class_="kv-muted")
    warning = _STORAGE_PROBLEMS.get(problem) or (_CHAT_FULL if chat.is_full else None)
    return join(_bar(chat, chat_list), tag("p", warning, class_="kv-warning", role="alert") if warning else None)


def render_busy_bar(chat: Chat) -> Markup:
    """Return the bar disabled and without its list, while an answer is generated in this chat."""
    return _bar(chat, None, inert=True)


def _bar(chat: Chat, chat_list: Markup | None, inert: bool = False) -> Markup:
    name_input = tag(
        "input", type="text", name_="title", value=chat.name, maxlength=120, aria_label="Name of this chat"
    )
    actions = (
        button("new", None, "New chat", title="Start a new chat; this one stays in the list"),
        button("rename", None, "Rename"),
        button("markdown", None, "Export", title="Download this chat as Markdown"),
        button("json", None, "JSON", title="Download this chat as JSON"),
        button("delete", chat.id, "Delete", title="Delete this chat from this browser"),
    )
    return tag(
        "nav",
        tag(
            "details",
            tag("summary", tag("bdi", chat.name, class_="kv-clip"), title="All chats in this browser"),
            chat_list,
            class_="kv-chats",
        ),
        tag("form", name_input, tag("button", "Save", type="submit"), data_id=chat.id, hidden=True),
        tag("div", *(actions if chat.turns else ()), class_="kv-chat-acts"),
        aria_label="Chats",
        class_="kv-chatbar",
        inert=inert,
    )


def _list_item(chat: ChatSummary, is_current: bool) -> Markup:
    details = tag("small", f"{count(chat.turns, 'question')}, {day(chat.at)}")
    name = tag("bdi", chat.title or "Untitled", class_="kv-clip")
    return tag("li", button("open", chat.id, name, details, aria_current="true" if is_current else None))
