"""Where an answer is shown: the components, and how a snapshot fills them."""

import json
from dataclasses import dataclass, fields
from pathlib import Path

import gradio as gr
from gradio.components import Component

from engine.method import MethodInfo
from engine.request import Answer
from ui.events import Update
from ui.figures.waterfall import waterfall
from ui.pages.ask.answer import reply
from ui.pages.ask.chats.chat import Chat
from ui.pages.ask.metrics import blank, history, numbers
from ui.pages.ask.passages import passages
from ui.pages.ask.thread import thread


@dataclass(frozen=True, slots=True)
class Results:
    """The parts of the page that an answer fills."""

    thread: gr.HTML
    reply: gr.HTML
    passages: gr.HTML
    numbers: gr.HTML
    figure: gr.Plot
    download: gr.DownloadButton
    history: gr.HTML

    def components(self) -> list[Component]:
        """Return all of them, as an event's outputs."""
        return [getattr(self, field.name) for field in fields(self)]

    def start(self, chat: Chat) -> Update:
        """Make room for a new answer below the chat so far."""
        return {
            self.thread: thread(chat.shown),
            self.passages: "",
            self.numbers: blank(),
            self.figure: gr.Plot(visible=False),
            self.download: gr.DownloadButton(visible="hidden"),
        }

    def grow(self, answer: Answer, method: MethodInfo, milestone: bool) -> Update:
        """Show more text; at a milestone also what else is known by then.

        The waterfall waits for the end: drawing it takes longer than writing several tokens.
        """
        update: Update = {self.reply: reply(answer)}
        if milestone:
            update |= {self.passages: passages(answer), self.numbers: numbers(answer, method)}
        return update

    def open(self, chat: Chat) -> Update:
        """Show a chat as it was kept: its turns and the table of their numbers."""
        return {**self.start(chat), self.reply: "", self.history: history(chat.turns)}

    def finish(self, answer: Answer, method: MethodInfo, chat: Chat, folder: Path) -> Update:
        """Show the whole answer; its trace, ready for download, is written into `folder`."""
        trace = folder / "kvscope-trace.json"
        trace.write_text(json.dumps(answer.as_dict(), indent=2, ensure_ascii=False), encoding="utf-8")
        return {
            **self.grow(answer, method, milestone=True),
            **self._drawn(answer, chat.full_ttft_ms(chat.turns[-1])),
            self.download: gr.DownloadButton(value=str(trace), visible=True),
            self.history: history(chat.turns),
        }

    def _drawn(self, answer: Answer, full_ms: float | None) -> Update:
        drawn = waterfall(list(answer.trace.stages), answer.trace.ttft_ms, full_ms)
        return {self.figure: gr.Plot(drawn, visible=bool(answer.trace.stages))}
