"""The current answer, the earlier turns of the chat, and the table of their metrics: components and their HTML."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import gradio as gr

from engine.fidelity import RATIOS
from engine.method import MethodInfo
from engine.request import Answer, RatioPreview, Source
from engine.text import CITATION_MARK
from ui.events import Update
from ui.figures.answer_metrics import render_metrics, render_state
from ui.figures.runs import Run, runs_figure
from ui.format import SHORT_TOKENS, count, duration, nats, percent, rate, short
from ui.html import Markup, button, error_box, icon, join, progress_line, tag
from ui.pages.ask.chat import Chat, Turn, TurnSource
from ui.pages.ask.evidence import render_evidence
from ui.pages.ask.passages import render_passages
from ui.pages.ask.verification import render_verification
from ui.pages.ask.waterfall import render_waterfall

_NO_METRICS = "Ask a question to see where the time goes and how much is reused or recomputed."
NO_METRICS = tag("p", _NO_METRICS, class_="kv-muted kv-empty")
_BUTTONS = {
    "copy": ("Copy", "Copy the answer"),
    "retry": ("Retry", "Ask again with the current settings"),
    "edit": ("Edit", "Edit the question and replace this answer"),
    "upload": ("Save", "Add this answer to the documents, with its sources"),
    "expand": ("Inspect", "Show attention and token selection for this question"),
    "apply": ("Compare", "Compare methods on this question"),
}
_RATINGS = ("good", "bad")
_THUMB = "M7 11v9H4v-9z M7 11l4-7c1.5 0 2.4 1 2.1 2.4L12.5 10h5.3c1.3 0 2.1 1 1.8 2.2l-1.6 6.3c-.3 1-1 1.5-2 1.5H7"
_PREVIEW = (
    "Nothing was computed: the tokens come from the stored scores of this answer. The time to first token (TTFT) is "
    "its own, with recomputing scaled by the measured cost of prefill. The KL divergence from full prefill is what the "
    "model's calibration (Settings) has at this ratio, a mean over its questions."
)
_MAX_CONTEXT_CHARS = 600  # text before a citation that is sent with a click, to find the quoted sentence
_MAX_HISTORY_ROWS = 10
_MIN_GAIN = 1.5  # full prefill's TTFT relative to an answer's; below it, the line says why
_HISTORY_COLUMNS = {
    "Question": None,
    "Target": "Nominal recompute ratio; a dash if the method has none",
    "Actual": "Actual recompute ratio",
    "TTFT": "Time to first token",
    "Tokens/s": "Decode speed",
}


class Results(NamedTuple):
    """The components that an answer fills, and the two that only an empty chat shows: tagline and welcome.

    `answer` is the complete answer whose passages are shown, for previews; None while another is generated, and for a
    chat that the browser stored.
    """

    answer: gr.State
    preview: gr.HTML

    thread: gr.HTML
    reply: gr.HTML
    feedback: gr.HTML
    rating_id: gr.State  # of the answer
    passages: gr.HTML
    metrics: gr.HTML
    waterfall: gr.HTML
    runs: gr.Plot
    download: gr.DownloadButton
    history: gr.HTML
    tagline: gr.HTML
    welcome: gr.Column

    def clear(self, chat: Chat, show_welcome: bool = False) -> Update:
        """Show the earlier turns, and nothing yet of a new answer."""
        return {
            self.answer: None,
            self.preview: "",
            self.thread: render_turns(chat.visible_turns),
            self.feedback: "",
            self.rating_id: "",
            self.passages: "",
            self.metrics: NO_METRICS,
            self.waterfall: "",
            self.runs: gr.Plot(visible=False),
            self.download: gr.DownloadButton(visible="hidden"),
            self.tagline: gr.HTML(visible=show_welcome),
            self.welcome: gr.Column(visible=show_welcome),
        }

    def update(self, answer: Answer, method: MethodInfo, milestone: bool, timing: Markup | None = None) -> Update:
        """Show the text so far; at a milestone also passages and metrics. `timing` is a line below the answer."""
        update: Update = {self.reply: render_answer(answer, timing)}
        if milestone:
            update |= {self.passages: render_passages(answer), self.metrics: render_metrics(answer, method)}
        return update

    def show_chat(self, chat: Chat) -> Update:
        """Show a saved chat: its turns and the table of their metrics."""
        cleared = self.clear(chat, show_welcome=not chat.turns)
        return {**cleared, self.reply: "", self.history: render_history(chat.turns)}

    def finish(self, answer: Answer, method: MethodInfo, chat: Chat, folder: Path) -> Update:
        """Show the complete answer with its figures; its downloadable trace is written into `folder`."""
        trace = folder / "kvscope-trace.json"
        trace.write_text(json.dumps(answer.as_dict(), indent=2, ensure_ascii=False), encoding="utf-8")
        full_ms = chat.full_ttft_ms(chat.turns[-1])
        previews = [(ratio, answer.preview(ratio)) for ratio in (*RATIOS, 1.0)] if answer.preview else []
        same = [
            Run(turn.summary, turn.ttft_ms, turn.expected_kl)
            for turn in chat.runs_of(chat.turns[-1])
            if turn.ttft_ms is not None and turn.expected_kl is not None
        ]
        runs = runs_figure(same, previews)
        return {
            **self.update(answer, method, milestone=True, timing=render_timing(answer, full_ms)),
            self.answer: replace(answer, trace=answer.trace.snapshot()),
            self.waterfall: render_waterfall(answer.trace.stages, answer.trace.ttft_ms, full_ms),
            self.runs: gr.Plot(runs, visible=runs is not None),
            self.download: gr.DownloadButton(value=str(trace), visible=True),
            self.history: render_history(chat.turns),
        }


def render_preview(preview: RatioPreview | None, ratio: float, answer: Answer, method: MethodInfo) -> Markup:
    """Return the line about an answer's question at another ratio, with a button that asks again."""
    if preview is None:
        text = f"{method.label} selects tokens while the model runs, so there is no preview."
    else:
        tokens = f"{preview.recomputed_tokens:,} of {count(answer.context_tokens, 'token')} recomputed"
        if preview.is_exact and not preview.recomputed_tokens:
            tokens = "nothing to recompute, because the cached KV is exact"
        text = f"Preview at {percent(ratio)}: {tokens}"
        if not answer.trace.waited_for("recompute"):
            text += ", after the answer is shown"
        elif preview.ttft_ms is not None:
            text += f", predicted TTFT {duration(preview.ttft_ms)}"
        if preview.expected_kl is not None:
            text += f", expected KL {nats(preview.expected_kl)} nats"
        text += "."
    again = button("retry", None, "Ask again", title=f"Ask this question again at {percent(ratio)}")
    return tag("p", tag("span", text, title=_PREVIEW if preview else None), again, role="status")


def render_timing(answer: Answer, full_ms: float | None) -> Markup | None:
    """Return the TTFT next to full prefill's: measured in this chat (`full_ms`), or estimated; None if unknown.

    For an engine of a cluster, whose costs are not known here, return its name and the TTFT.
    """
    ttft_ms = answer.trace.ttft_ms
    if answer.engine and ttft_ms is not None:
        text = f"Answered by the engine {answer.engine}; first token after {duration(ttft_ms)}."
        return tag("p", text, class_="kv-turn-metrics")
    if ttft_ms is None or answer.draft or not answer.trace.waited_for("recompute"):
        return None
    source = "measured in this chat"
    if full_ms is None:
        preview = answer.preview(1.0) if answer.preview else None
        full_ms, source = preview.ttft_ms if preview else None, "estimated for this machine"
    if full_ms is None:
        return None
    text = f"First token after {duration(ttft_ms)}; full prefill: {duration(full_ms)} ({source})."
    if full_ms < _MIN_GAIN * ttft_ms and answer.context_tokens < SHORT_TOKENS:
        text += " The prompt is short, so there is little to save."
    return tag("p", text, class_="kv-turn-metrics")


def render_answer(answer: Answer, timing: Markup | None = None) -> Markup:
    """Return the question and the answer so far."""
    has_ended = answer.state in ("done", "stopped")
    is_empty = answer.state == "done" and not answer.text
    notes = tag("ul", *(tag("li", note) for note in answer.notes), class_="kv-notes", aria_label="Notes")
    text = _text_or_draft(answer)
    is_complete = answer.state == "done" and bool(answer.text)
    is_useless = {"copy": not text, "upload": not is_complete}
    buttons = [
        button(act, None, label, title=tooltip) for act, (label, tooltip) in _BUTTONS.items() if not is_useless.get(act)
    ]
    if is_complete:
        buttons += [button("like", rating, icon(_THUMB), title=f"{rating.capitalize()} answer") for rating in _RATINGS]
    return _article(
        answer.request.question,
        render_state(answer),
        tag("p", "The model returned an empty answer.", class_="kv-muted") if is_empty else None,
        text,
        render_verification(answer) if has_ended else None,
        render_evidence(answer, answer.sources) if has_ended else None,
        timing,
        notes if answer.notes else None,
        tag("div", *buttons, class_="kv-acts") if has_ended else None,
        aria_busy="false" if has_ended else "true",
    )


def render_waiting(question: str, message: str = "Waiting for the model") -> Markup:
    """Return the view between the click and the first snapshot of the answer."""
    return _article(question, progress_line(message), class_="kv-reply kv-waiting", aria_busy="true")


def render_error(question: str, message: str, answer: Answer | None = None) -> Markup:
    """Return an error message below the text that was generated before it."""
    text = _text_or_draft(replace(answer, sources=())) if answer else None  # no passages are shown to open
    return _article(question, text, error_box(message))


def render_turns(turns: Iterable[Turn]) -> Markup:
    """Return earlier turns with their answers, sources and metrics, oldest first."""
    articles = []
    for turn in turns:
        text = _text(turn.text, turn.passages, turn.highlight) or tag("p", turn.why_empty, class_="kv-muted")
        metrics = tag("p", turn.metrics_line, class_="kv-turn-metrics")
        evidence = render_evidence(turn, turn.passages)
        articles.append(_article(turn.question, text, evidence, metrics, class_="kv-turn"))
    return join(*articles)


def link_citations(text: str, sources: Iterable[Source | TurnSource], highlight: str = "") -> Markup:
    """Return the text with each [n] of a source as a button that opens its passage, and `highlight` in bold."""
    chunks = {source.rank: source.chunk for source in sources}
    parts: list[object] = []
    context = ""
    for index, part in enumerate(CITATION_MARK.split(text)):
        if index % 2 == 0:
            before, found, after = part.partition(highlight) if highlight else (part, "", "")
            parts += [before, found and tag("strong", found), after]
            context = part.strip()[-_MAX_CONTEXT_CHARS:] or context  # two marks can follow one sentence
        elif (rank := int(part)) in chunks:
            attributes = {"data_rank": rank, "data_context": context, "aria_label": f"Source {rank}"}
            parts.append(button("select", chunks[rank], str(rank), class_="kv-cite", **attributes))
        else:
            parts.append(f"[{part}]")
    return join(*parts)


def render_history(turns: Sequence[Turn]) -> Markup:
    """Return a table of the chat's last ten answers, newest first."""
    if not turns:
        return Markup("")
    head = tag("tr", *(tag("th", name, scope="col", title=hint) for name, hint in _HISTORY_COLUMNS.items()))
    caption = tag("caption", f"This chat · {count(len(turns), 'answer')}")
    body = tag("tbody", *(_history_row(turn) for turn in reversed(turns[-_MAX_HISTORY_ROWS:])))
    return tag("table", caption, tag("thead", head), body, class_="kv-history")


def _article(question: str, *parts: Markup | None, class_: str = "kv-reply", aria_busy: str | None = None) -> Markup:
    heading = tag("h2", question, class_="kv-question", dir="auto", translate="no")
    return tag("article", heading, *parts, class_=class_, aria_busy=aria_busy)


def _text(
    text: str, sources: Iterable[Source | TurnSource] = (), highlight: str = "", class_: str = "kv-text"
) -> Markup | None:
    if not text:
        return None
    return tag("div", link_citations(text, sources, highlight), class_=class_, dir="auto", translate="no")


def _text_or_draft(answer: Answer) -> Markup | None:
    """Return the answer's text, or in its place a draft that was not verified."""
    if answer.draft and answer.draft_status == "unverified":
        return _text(answer.draft.text, answer.sources, answer.draft.highlight, "kv-text kv-draft")
    return _text(answer.text, answer.sources, answer.highlight)


def _history_row(turn: Turn) -> Markup:
    question = tag("bdi", short(turn.question), class_="kv-clip", title=turn.question)
    method = tag("span", turn.summary, class_="kv-method")
    ratios = (percent(turn.nominal), percent(turn.realised, 1))
    cells = (*ratios, duration(turn.ttft_ms), rate(turn.tokens_per_second))
    return tag("tr", tag("th", question, method, scope="row"), *(tag("td", cell) for cell in cells))
