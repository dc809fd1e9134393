"""A session's chat and the browser that keeps it: restore, keep, open another, rename, export, delete."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr
from gradio.components import Component

from ui.events import QUIET, Update, session_of
from ui.pages.ask.chats.chat import Chat
from ui.pages.ask.chats.chat_bar import Listed, busybar, chatbar
from ui.pages.ask.results import Results

_LOAD = "() => [kvscopeChats.load()]"
_CLEAR = "(sent, box) => [sent?.answered === box ? '' : box]"  # what was typed meanwhile stays
_TAKE = "(sent) => [kvscopeChats.take(sent), null]"
_NAME = 120  # most characters of a title


class History:
    """The bar over the thread, and what a chat shows when it is opened.

    chat       the session's chat, a State
    replacing  whether the chat's last turn gives way to the next answer, a State; never that of another chat
    carrier    JSON that goes between the server and the script which keeps the chats
    results    where a chat is shown
    empty      what only an empty chat shows
    busy       whether a session is being answered; its chat then stays as it is until the answer ends
    """

    def __init__(
        self,
        chat: gr.State,
        replacing: gr.State,
        carrier: gr.JSON,
        bar: gr.HTML,
        results: Results,
        empty: Sequence[Component | gr.Column],
        busy: Callable[[str], bool],
    ) -> None:
        self._chat, self._replacing, self._carrier, self._bar = chat, replacing, carrier, bar
        self._results, self._empty, self._busy = results, empty, busy
        acted = bar.click(self.act, chat, [*self.components(), *results.components()], queue=False, **QUIET)
        self._then_tell(acted)

    def components(self) -> list[Any]:
        """Return what `keep`, `talking` and `held` fill."""
        return [self._chat, self._replacing, self._carrier, self._bar, *self._empty]

    def wire(self, page: gr.Blocks) -> None:
        """Show what this tab showed before it was refreshed."""
        outputs = [*self.components(), *self._results.components()]
        page.load(self.restore, self._carrier, outputs, js=_LOAD, queue=False, **QUIET)

    def then_keep(self, answered: Any, box: gr.Textbox) -> None:
        """Let the browser clear the box and keep the chat once an answer has ended, and show its name in the bar."""
        cleared = answered.then(None, [self._carrier, box], box, js=_CLEAR, queue=False, **QUIET)
        self._then_tell(cleared)

    def restore(self, told: Any) -> Update:
        """Show the chat that the browser kept for this tab, if it is one."""
        known = _known(told)
        chat = Chat.of(known.get("chat"))
        return {**self._open(chat), self._bar: chatbar(chat, Listed.all(known.get("listing")))}

    def act(self, chat: Chat, event: gr.EventData, request: gr.Request) -> Update:
        """Follow a button of the bar, unless an answer is being written into this chat."""
        if self._busy(session_of(request)):
            return gr.skip()
        told = _known(event._data)
        act = told.get("act")
        if act in ("markdown", "json"):
            return {self._carrier: {"file": _file(chat, act)}}
        if act == "rename":
            return self.keep(replace(chat, title=str(told.get("title") or "")[:_NAME]))
        opened = Chat.of(told.get("chat"))
        forget = {"forget": chat.id} if act == "delete" else {}
        return {**self._open(opened), self._carrier: {"here": opened.id, **forget}}

    def listed(self, told: Any, chat: Chat, request: gr.Request) -> Update:
        """Show the bar as it is now. A chat that another tab has changed has become a copy, with an id of its own."""
        if self._busy(session_of(request)):
            return {self._carrier: None}
        known = _known(told)
        called = str(known.get("id") or chat.id)
        kept = chat if called == chat.id else replace(chat, id=called)
        bar = chatbar(kept, Listed.all(known.get("listing")), str(known.get("trouble")))
        moved = {} if kept is chat else {self._chat: kept}
        return {**moved, self._bar: bar, self._carrier: None}

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

    def held(self, chat: Chat) -> Update:
        """Show the bar as it stands while an answer is written; `listed` shows it in use again."""
        return {self._bar: busybar(chat)}

    def _then_tell(self, done: Any) -> None:
        """Let the browser take what it is sent, and show what it says then."""
        inputs, outputs = [self._carrier, self._chat], [self._chat, self._bar, self._carrier]
        done.then(self.listed, inputs, outputs, js=_TAKE, queue=False, **QUIET)

    def _open(self, chat: Chat) -> Update:
        shown = {self._chat: chat, self._replacing: False, **self._results.open(chat)}
        return {**shown, **self.talking(bool(chat.turns))}


def _known(told: Any) -> dict[str, Any]:
    """Return what the browser told; nothing if it told something else."""
    return told if isinstance(told, dict) else {}


def _file(chat: Chat, kind: str) -> dict[str, str]:
    name = re.sub(r"[^\w -]+", "", chat.name).strip()[:60] or "chat"
    if kind == "json":
        return {"name": f"{name}.json", "kind": "application/json", "text": chat.as_json()}
    return {"name": f"{name}.md", "kind": "text/markdown", "text": chat.as_markdown()}
