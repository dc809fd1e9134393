"""Events of the chat bar: restore, save, open, rename, export and delete chats, which the browser stores."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from gradio.components import Component

from ui.events import QUIET, Update, session_of
from ui.pages.ask.chats.chat import Chat
from ui.pages.ask.chats.chat_bar import ChatSummary, render_busy_bar, render_chat_bar
from ui.pages.ask.results import Results

_LOAD_JS = "() => [kvscopeChats.load()]"
_CLEAR_BOX_JS = "(sent, box) => [sent?.answered === box ? '' : box]"  # keeps text typed in the meantime
_SAVE_JS = "(sent) => [kvscopeChats.handle(sent), null]"
_MAX_TITLE_CHARS = 120


@dataclass(frozen=True, slots=True)
class ChatHistory:
    """The chat bar, and the components that change with the chat.

    chat           State: the session's chat
    replaces_last  State: whether the next answer replaces the chat's last turn; reset when another chat is opened
    carrier        JSON exchanged with the browser script that stores the chats
    welcome        components that only an empty chat shows
    is_busy        whether a session's question is running; its chat cannot be changed meanwhile
    """

    chat: gr.State
    replaces_last: gr.State
    carrier: gr.JSON
    bar: gr.HTML
    results: Results
    welcome: Sequence[Component | gr.Column]
    is_busy: Callable[[str], bool]

    def components(self) -> list[Any]:
        """Return the outputs of all methods that return an Update, except those in `results`."""
        return [self.chat, self.replaces_last, self.carrier, self.bar, *self.welcome]

    def connect(self, page: gr.Blocks) -> None:
        """Connect the bar's buttons; restore this tab's chat when the page is loaded."""
        outputs = [*self.components(), *self.results.components()]
        page.load(self.restore, self.carrier, outputs, js=_LOAD_JS, queue=False, **QUIET)
        self._then_store(self.bar.click(self.handle_action, self.chat, outputs, queue=False, **QUIET))

    def then_save(self, event: Any, box: gr.Textbox) -> None:
        """After `event`, clear the question box, store the chat in the browser and update the bar."""
        self._then_store(event.then(None, [self.carrier, box], box, js=_CLEAR_BOX_JS, queue=False, **QUIET))

    def restore(self, data: Any) -> Update:
        """Show the chat that the browser stored for this tab; a new one if there is none."""
        stored = _as_dict(data)
        chat = Chat.from_saved(stored.get("chat"))
        bar = render_chat_bar(chat, ChatSummary.parse_all(stored.get("listing")))
        return {**self._open(chat), self.bar: bar}

    def handle_action(self, chat: Chat, event: gr.EventData, request: gr.Request) -> Update:
        """Handle a click on a button of the bar, unless the session is busy."""
        if self.is_busy(session_of(request)):
            return gr.skip()
        data = _as_dict(event._data)
        action = data.get("act")
        if action in ("markdown", "json"):
            return {self.carrier: {"file": _export(chat, action)}}
        if action == "rename":
            return self.save(replace(chat, title=str(data.get("title") or "")[:_MAX_TITLE_CHARS]))
        opened = Chat.from_saved(data.get("chat"))
        deleted = {"deleted": chat.id} if action == "delete" else {}
        return {**self._open(opened), self.carrier: {"here": opened.id, **deleted}}

    def refresh_bar(self, data: Any, chat: Chat, request: gr.Request) -> Update:
        """Show the bar with the browser's current list; a chat changed in another tab continues as a copy."""
        if self.is_busy(session_of(request)):
            return {self.carrier: None}
        stored = _as_dict(data)
        chat_id = str(stored.get("id") or chat.id)
        update: Update = {self.carrier: None}
        if chat_id != chat.id:
            chat = replace(chat, id=chat_id)
            update[self.chat] = chat
        summaries = ChatSummary.parse_all(stored.get("listing"))
        return update | {self.bar: render_chat_bar(chat, summaries, str(stored.get("problem")))}

    def save(self, chat: Chat, answered: str | None = None) -> Update:
        """Keep the chat in the session and send it to the browser.

        answered  the completed question; the question box is cleared if it still holds it
        """
        return {self.chat: chat, self.carrier: {"chat": chat.as_dict(), "answered": answered}}

    def show_welcome(self, visible: bool) -> Update:
        """Show or hide the components of an empty chat."""
        return {
            part: gr.Column(visible=visible) if isinstance(part, gr.Column) else gr.HTML(visible=visible)
            for part in self.welcome
        }

    def show_busy(self, chat: Chat) -> Update:
        """Disable the bar while an answer is generated; `refresh_bar` enables it again."""
        return {self.bar: render_busy_bar(chat)}

    def _then_store(self, event: Any) -> None:
        """After `event`, let the browser store what it was sent, and update the bar with its reply."""
        inputs = [self.carrier, self.chat]
        event.then(self.refresh_bar, inputs, [self.chat, self.bar, self.carrier], js=_SAVE_JS, queue=False, **QUIET)

    def _open(self, chat: Chat) -> Update:
        view = {self.chat: chat, self.replaces_last: False, **self.results.show_chat(chat)}
        return {**view, **self.show_welcome(not chat.turns)}


def _as_dict(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _export(chat: Chat, kind: str) -> dict[str, str]:
    name = re.sub(r"[^\w -]+", "", chat.name).strip()[:60] or "chat"
    if kind == "json":
        return {"name": f"{name}.json", "kind": "application/json", "text": chat.as_json()}
    return {"name": f"{name}.md", "kind": "text/markdown", "text": chat.as_markdown()}
