"""The components that show an answer, the earlier turns of the chat, and the table of their metrics."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import gradio as gr
from gradio.components import Component

from engine.method import MethodInfo
from engine.request import Answer
from ui.events import Update
from ui.figures.answer_metrics import decode_speed, render_metrics
from ui.figures.waterfall import waterfall_figure
from ui.format import UNKNOWN, count, duration, percent, short
from ui.html import Markup, join, tag
from ui.pages.ask.answer import link_citations, render_answer, render_question
from ui.pages.ask.chats.chat import Chat
from ui.pages.ask.chats.turn import Turn
from ui.pages.ask.passages import render_passages

NO_METRICS = tag(
    "p",
    "Ask a question to see where the time goes and how much is reused or recomputed.",
    class_="kv-muted kv-empty",
)
_MAX_HISTORY_ROWS = 10
_HISTORY_COLUMNS = {
    "Question": None,
    "Target": "Nominal recompute ratio; a dash if the method has none",
    "Actual": "Actual recompute ratio",
    "TTFT": "Time to first token",
    "Tokens/s": "Decode speed",
}


@dataclass(frozen=True, slots=True)
class Results:
    """The components that an answer fills."""

    thread: gr.HTML
    reply: gr.HTML
    passages: gr.HTML
    metrics: gr.HTML
    figure: gr.Plot
    download: gr.DownloadButton
    history: gr.HTML

    def components(self) -> list[Component]:
        """Return all of them, as an event's outputs."""
        return [getattr(self, field.name) for field in fields(self)]

    def clear(self, chat: Chat) -> Update:
        """Show the earlier turns, and nothing yet of a new answer."""
        return {
            self.thread: render_turns(chat.visible_turns),
            self.passages: "",
            self.metrics: NO_METRICS,
            self.figure: gr.Plot(visible=False),
            self.download: gr.DownloadButton(visible="hidden"),
        }

    def update(self, answer: Answer, method: MethodInfo, milestone: bool) -> Update:
        """Show the text so far; at a milestone also passages and metrics.

        The waterfall is drawn at the end only: it takes longer than generating several tokens.
        """
        update: Update = {self.reply: render_answer(answer)}
        if milestone:
            update |= {self.passages: render_passages(answer), self.metrics: render_metrics(answer, method)}
        return update

    def show_chat(self, chat: Chat) -> Update:
        """Show a saved chat: its turns and the table of their metrics."""
        return {**self.clear(chat), self.reply: "", self.history: render_history(chat.turns)}

    def finish(self, answer: Answer, method: MethodInfo, chat: Chat, folder: Path) -> Update:
        """Show the complete answer; its downloadable trace is written into `folder`."""
        trace = folder / "kvscope-trace.json"
        trace.write_text(json.dumps(answer.as_dict(), indent=2, ensure_ascii=False), encoding="utf-8")
        stages = list(answer.trace.stages)
        figure = waterfall_figure(stages, answer.trace.ttft_ms, chat.full_ttft_ms(chat.turns[-1]))
        return {
            **self.update(answer, method, milestone=True),
            self.figure: gr.Plot(figure, visible=bool(stages)),
            self.download: gr.DownloadButton(value=str(trace), visible=True),
            self.history: render_history(chat.turns),
        }


def render_turns(turns: Iterable[Turn]) -> Markup:
    """Return earlier turns with their answers, sources and metrics, oldest first."""
    return join(*(_turn(turn) for turn in turns))


def _turn(turn: Turn) -> Markup:
    chunks = {source.rank: source.chunk for source in turn.passages}
    text = tag("div", link_citations(turn.text, chunks), class_="kv-text", dir="auto") if turn.text else None
    return tag(
        "article",
        render_question(turn.question),
        text or tag("p", "No answer was generated.", class_="kv-muted"),
        tag("p", turn.metrics_line, class_="kv-turn-metrics"),
        class_="kv-turn",
    )


def render_history(turns: Sequence[Turn]) -> Markup:
    """Return a table of the chat's last ten answers, newest first."""
    if not turns:
        return Markup("")
    head = tag("tr", *(tag("th", name, scope="col", title=hint) for name, hint in _HISTORY_COLUMNS.items()))
    caption = tag("caption", f"This chat · {count(len(turns), 'answer')}")
    body = tag("tbody", *(_history_row(turn) for turn in list(turns)[: -_MAX_HISTORY_ROWS - 1 : -1]))
    return tag("table", caption, tag("thead", head), body, class_="kv-history")


def _history_row(turn: Turn) -> Markup:
    question = tag("bdi", short(turn.question), class_="kv-clip", title=turn.question)
    method = tag("span", turn.summary, class_="kv-method")
    target = UNKNOWN if turn.nominal is None else percent(turn.nominal)
    cells = (target, percent(turn.realised, 1), duration(turn.ttft_ms), decode_speed(turn.tokens_per_second))
    return tag("tr", tag("th", question, method, scope="row"), *(tag("td", cell) for cell in cells))
