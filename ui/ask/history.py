"""A session's chat and the browser that keeps it: restore, keep, open another, rename, export, delete."""

import re
from collections.abc import Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from ui.ask.chat import Chat
from ui.ask.chatbar import Listed, chatbar
from ui.ask.results import Results
from ui.events import QUIET, Update

_LOAD = "() => [kvscopeChats.load()]"
_CLEAR = "(sent, box) => [sent?.answered === box ? '' : box]"  # what was typed meanwhile stays
_TAKE = "(sent) => [kvscopeChats.take(sent), null]"
_SEND = "(sent) => { kvscopeChats.take(sent); return [null]; }"


class History:
    """The bar over the thread, and what a chat shows when it is opened.

    chat       the session's chat, a State
    replacing  whether the chat's last turn gives way to the next answer, a State; never that of another chat
    carrier    JSON that goes between the server and the script which keeps the chats
    results    where a chat is shown
    empty      what only an empty chat shows
    """

    def __init__(
        self,
        chat: gr.State,
        replacing: gr.State,
        carrier: gr.JSON,
        bar: gr.HTML,
        results: Results,
        empty: Sequence[Component | gr.Column],
    ) -> None:
        self._chat, self._replacing, self._carrier, self._bar = chat, replacing, carrier, bar
        self._results, self._empty = results, empty
        bar.click(self.act, chat, [*self.components(), *results.components()], queue=False, **QUIET).then(
            None, carrier, carrier, js=_SEND, queue=False, **QUIET
        )

    def components(self) -> list[Any]:
        """Return what `keep` and `talking` fill."""
        return [self._chat, self._replacing, self._carrier, self._bar, *self._empty]

    def wire(self, page: gr.Blocks) -> None:
        """Show what this tab showed before it was refreshed."""
        outputs = [*self.components(), *self._results.components()]
        page.load(self.restore, self._carrier, outputs, js=_LOAD, queue=False, **QUIET)

    def then_keep(self, answered: Any, box: gr.Textbox) -> None:
        """Let the browser clear the box and keep the chat once an answer has ended, and show its name in the bar."""
        inputs = [self._carrier, self._chat]
        cleared = answered.then(None, [self._carrier, box], box, js=_CLEAR, queue=False, **QUIET)
        cleared.then(self.listed, inputs, [self._bar, self._carrier], js=_TAKE, queue=False, **QUIET)

    def restore(self, told: Any) -> Update:
        """Show the chat that the browser kept for this tab, if it is one."""
        return self._open(*_told(told))

    def act(self, chat: Chat, event: gr.EventData) -> Update:
        """Follow a button of the bar."""
        told = event._data
        act = told.get("act")
        if act in ("markdown", "json"):
            return {self._carrier: {"file": _file(chat, act)}}
        opened, listed = _told(told)
        update = self._open(opened, listed)
        return {**update, self._carrier: {"chat": opened.as_dict()}}

    def listed(self, told: Any, chat: Chat) -> Update:
        """Show the bar as it is now."""
        return {self._bar: chatbar(chat, _told(told)[1]), self._carrier: None}

    def keep(self, chat: Chat, answered: str | None = None) -> Update:
        """Return what makes the session and the browser keep a chat.

        answered  the question that is done with; the box is cleared if it still holds it
        """
        return {self._chat: chat, self._carrier: {"chat": chat.as_dict(), "answered": answered}}

    def talking(self, talking: bool = True) -> Update:
        """Hide what only an empty chat shows, or show it."""
        return {
            part: gr.Column(visible=not talking) if isinstance(part, gr.Column) else gr.HTML(visible=not talking)
            for part in self._empty
        }

    def _open(self, chat: Chat, listed: list[Listed]) -> Update:
        shown = {self._chat: chat, self._replacing: False, self._bar: chatbar(chat, listed)}
        shown |= self._results.open(chat)
        return {**shown, **self.talking(bool(chat.turns))}


def _told(told: Any) -> tuple[Chat, list[Listed]]:
    """Return what the browser told: a chat, a new one if there is none, and the list of all."""
    known = told if isinstance(told, dict) else {}
    return Chat.of(known.get("chat")), Listed.all(known.get("listing"))


def _file(chat: Chat, kind: str) -> dict[str, str]:
    name = re.sub(r"[^\w -]+", "", chat.name).strip()[:60] or "chat"
    if kind == "json":
        return {"name": f"{name}.json", "kind": "application/json", "text": chat.as_json()}
    return {"name": f"{name}.md", "kind": "text/markdown", "text": chat.as_markdown()}
