"""The Lab's inspection: attention of both models for a question, and the tokens each method recomputes.

Inspecting costs one full prefill; afterwards, sliders only redraw stored results. After inspecting or asking, a
separate step redraws with the settings of that moment, which the user may have changed meanwhile.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gradio as gr
import numpy as np

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.analysis.inspection import InspectedPassage, Inspection
from engine.generation.citations import quoted_spans
from engine.method import default_method, local_methods
from engine.request import Answer, Request, Source
from ui.components import inputs
from ui.components.document_picker import QuestionInputs
from ui.events import INSTANT, QUIET, RUN_MODEL, SessionTasks, Update, coalesce, session_of
from ui.figures.inspection import agreement_figure, attention_figure, layer_kl_figure
from ui.html import Markup, error_box, progress_line, tag
from ui.pages.lab.inspect import view

_ALL_PASSAGES = ("All", 0)  # a choice and its value
_INTRO = (
    "See which tokens the models attend to for a question, and which tokens each method recomputes at every ratio. "
    "Type a question above and press Inspect: after one full prefill of the passages, the slider responds instantly."
)
_WAITING = progress_line("Waiting for the model")
_NO_QUESTION = error_box("Type a question first, then press Inspect.")


@dataclass(frozen=True, eq=False)
class InspectionSession:
    """An inspection, kept on the server so that a slider runs no model, and what answers to its question have shown."""

    inspection: Inspection
    request: Request
    quotes: tuple[tuple[int, int, int], ...] = ()  # passage rank, start and end of characters that the answer quotes
    # [T] bool by method and percent: tokens recomputed by methods that select during the forward pass
    observed: Mapping[tuple[str, int], np.ndarray] = field(default_factory=dict)

    def recompute_mask(self, method: str, percent: int) -> np.ndarray | None:
        """Return which tokens the method recomputes, [T] bool; None if this is only known after an answer."""
        if method in self.inspection.selections:
            return self.inspection.selections[method].mask_at(percent)
        return self.observed.get((method, percent))

    def with_answer(self, answer: Answer, percent: int) -> "InspectionSession":
        """Return the session with the answer's quotes and selection; unchanged if it read other passages or none."""
        texts = [passage.text for passage in self.inspection.passages]
        if answer.trace.ttft_ms is None or [source.text for source in answer.sources] != texts:
            return self
        mask = np.concatenate([*map(_observed_mask, answer.sources, self.inspection.passages)])
        observed = {**self.observed, (answer.request.method, percent): mask}
        return replace(self, quotes=tuple(quoted_spans(answer.text, texts)), observed=observed)


class Inspect:
    """Runs at most one inspection or answer per session; results are kept in the session's State."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._methods = {method.name: method for method in local_methods(backend.methods())}
        self.tasks = SessionTasks()

    def build(self, question_inputs: QuestionInputs, buttons: inputs.RunButtons) -> None:
        """Create the part inside the open Blocks; the page has its question and its buttons."""
        self._question_inputs, self.inspect_buttons = question_inputs, buttons
        self.session = gr.State(None)  # must have no change listener, or Gradio hashes all of it
        with gr.Column(elem_id="inspect-page", min_width=0):
            self.progress = gr.HTML(elem_id="inspect-progress", js_on_load=None)
            self.intro = gr.HTML(tag("p", _INTRO, class_="kv-intro"), elem_id="inspect-empty", js_on_load=None)
            with gr.Column(elem_id="inspect-results", min_width=0, visible=False) as self.results:
                self._build_results()
        self._connect()

    def run_inspection(
        self, question: str, passages: float, target: float, documents: list[str], request: gr.Request
    ) -> Iterator[Update]:
        """Inspect a question, unless the session is busy; stores the result for `show_passage` to draw."""
        session_id = session_of(request)
        if (cancel := self.tasks.start(session_id)) is None:
            yield gr.skip()  # a generator without any update would clear every output
            return
        update: Update = {}
        try:
            if not question.strip():
                yield {self.progress: _NO_QUESTION}
                return
            yield {self.progress: _WAITING, self.answer_html: "", **self._buttons(running=True)}
            inspect_request = Request(
                question.strip(),
                recompute_ratio=target / 100,
                passages=int(passages),
                documents=tuple(documents or ()),
            )
            for step in self._backend.inspect(inspect_request, cancel):
                if step.inspection is None:
                    yield {self.progress: progress_line(step.message)}
                else:
                    update = self._results(inspect_request, step.inspection)
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            stopped = tag("p", "Stopped.", class_="kv-muted", role="status")
            update = {self.progress: stopped if cancel.is_set() else error_box(user_message(error))}
        finally:
            self.tasks.finish(session_id, cancel)
        yield update | self._buttons(running=False)

    def change_method(self, session: InspectionSession | None, method: str, target: float, rank: int) -> Update:
        """Show another method: its description, its ratio slider if it has one, and the tokens it recomputes."""
        info = self._methods[method]
        return {
            self.method: gr.update(info=info.description),
            self.ratio: gr.update(visible=inputs.visibility(info.has_ratio)),
            **self.redraw(session, method, target, rank),
        }

    def redraw(self, session: InspectionSession | None, method: str, target: float, rank: int) -> Update:
        """Draw everything that depends on method and ratio, from stored results."""
        if session is None:
            return {self.summary: ""}
        info = self._methods[method]
        percent = round(target)
        inspection = session.inspection
        mask = session.recompute_mask(method, percent)
        summary = view.render_summary(inspection, info, percent, mask)
        point = None
        if not info.has_ratio and mask is not None:  # one point instead of a curve, at the ratio it recomputes
            point = inspection.oracle_overlap.get(method)
            percent = round(100 * float(mask.mean()))
        labels = {each.name: each.label for each in self._methods.values()}
        recomputed = np.zeros(inspection.num_tokens, dtype=bool) if mask is None else mask
        return {
            self.summary: summary,
            self.text: view.render_passages(inspection, session.quotes, recomputed, rank),
            self.rank_scatter: view.render_rank_scatter(inspection, recomputed, rank),
            self.agreement: agreement_figure(inspection.agreement, labels, method, percent, point),
        }

    def show_passage(self, session: InspectionSession | None, method: str, target: float, rank: int) -> Update:
        """Draw the passage of `rank`, or all for 0, in every figure that shows tokens."""
        if session is None:
            return {self.summary: ""}
        inspection = session.inspection
        part = inspection.passage_slices[rank - 1] if rank else slice(0, inspection.num_tokens)
        lengths = [inspection.passage_lengths[rank - 1]] if rank else list(inspection.passage_lengths)
        figure = attention_figure(inspection.auxiliary[part], inspection.primary[:, part], lengths, first=rank or 1)
        return {self.attention_map: figure, **self.redraw(session, method, target, rank)}

    def answer(
        self, session: InspectionSession | None, method: str, target: float, request: gr.Request
    ) -> Iterator[Update]:
        """Answer the inspected question, unless the session is busy; stores its quotes for `redraw` to mark."""
        session_id = session_of(request)
        if (cancel := self.tasks.start(session_id)) is None:
            yield gr.skip()
            return
        update: Update = {}
        percent = round(target)
        try:
            if session is None:  # the server was restarted
                yield {self.answer_html: _NO_QUESTION}
                return
            yield {self.answer_html: _WAITING, **self._buttons(running=True)}
            question = session.inspection.question
            ask_request = replace(session.request, question=question, method=method, recompute_ratio=percent / 100)
            answer: Answer | None = None
            answers = self._backend.ask(ask_request, cancel)
            for answer in coalesce(answers, lambda each: (each.state, each.trace.ttft_ms is None)):
                yield {self.answer_html: view.render_answer(answer, self._methods[method])}
            if answer is not None:
                update = {self.session: session.with_answer(answer, percent)}
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            update = {self.answer_html: error_box(user_message(error))}
        finally:
            self.tasks.finish(session_id, cancel)
        yield update | self._buttons(running=False)

    def _build_results(self) -> None:
        with gr.Column(elem_id="inspect-choice", min_width=0):
            methods = list(self._methods.values())
            self.method = inputs.method_choice(methods, "inspect-method")
            info = "Updates instantly from stored scores; no model runs."
            self.ratio = inputs.ratio_slider("inspect-ratio", info, default_method(methods).has_ratio)
            self.summary = gr.HTML(elem_id="inspect-summary", js_on_load=None)
            with gr.Row(elem_id="inspect-apply-row"):
                label = "Ask with these settings"
                self.answer_buttons = inputs.run_buttons(label, "inspect-apply", "inspect-answer-stop")
            self.answer_html = gr.HTML(elem_id="inspect-answer", js_on_load=None)
        with gr.Column(elem_id="inspect-text", min_width=0):
            gr.HTML(view.render_legend(), js_on_load=None, elem_id="inspect-legend")
            self.passage_choice = gr.Radio([_ALL_PASSAGES], value=0, label="Passage", elem_id="inspect-passage")
            self.text = gr.HTML(elem_id="inspect-passages", js_on_load=None)
        with gr.Column(elem_id="inspect-figures", min_width=0):
            self.attention_map = _plot_panel(view.ATTENTION_MAP, "inspect-map", wide=True)
            self.kl = _plot_panel(view.LAYER_KL, "inspect-kl", wide=True)
            self.agreement = _plot_panel(view.AGREEMENT, "inspect-agreement")
            with gr.Column(elem_classes="kv-panel", min_width=0):
                gr.HTML(view.RANKS, js_on_load=None)
                self.rank_scatter = gr.HTML(elem_id="inspect-ranks", js_on_load=None)

    def _results(self, request: Request, inspection: Inspection) -> Update:
        ranks = [(str(rank), rank) for rank in range(1, len(inspection.passages) + 1)]
        return {
            self.session: InspectionSession(inspection, request),
            self.progress: "",
            self.intro: gr.update(visible=False),
            self.results: gr.update(visible=True),
            self.passage_choice: gr.update(choices=[_ALL_PASSAGES, *ranks], value=0),
            self.answer_html: "",
            self.kl: layer_kl_figure(inspection.kl_layers.tolist(), inspection.kl_auxiliary),
        }

    def _buttons(self, running: bool) -> Update:
        return self.inspect_buttons.show(running) | self.answer_buttons.show(running)

    def _connect(self) -> None:
        question = self._question_inputs
        buttons = [*self.inspect_buttons, *self.answer_buttons]
        choices = [self.session, self.method, self.ratio, self.passage_choice]
        redrawn = [self.summary, self.text, self.rank_scatter, self.agreement]
        instant: dict[str, Any] = {"queue": False, "trigger_mode": "always_last", **QUIET}
        settings = [question.question, question.passages, self.ratio, question.picker.documents]
        shown = [self.session, self.progress, self.intro, self.results, self.passage_choice, self.answer_html, self.kl]
        inspected = self.inspect_buttons.run.click(self.run_inspection, settings, [*shown, *buttons], **RUN_MODEL)
        inspected.then(self.show_passage, choices, [self.attention_map, *redrawn], **instant)
        self.ratio.change(self.redraw, choices, redrawn, **instant)
        self.method.change(self.change_method, choices, [self.method, self.ratio, *redrawn], **instant)
        self.passage_choice.input(self.show_passage, choices, [self.attention_map, *redrawn], **instant)
        ask_inputs = [self.session, self.method, self.ratio]
        ask_outputs = [self.session, self.answer_html, *buttons]
        answered = self.answer_buttons.run.click(self.answer, ask_inputs, ask_outputs, **RUN_MODEL)
        answered.then(self.redraw, choices, redrawn, **instant)
        for button in (self.inspect_buttons.stop, self.answer_buttons.stop):
            button.click(self.tasks.stop, None, None, **INSTANT)


def _observed_mask(source: Source, passage: InspectedPassage) -> np.ndarray:
    """Return which tokens of a passage start in a recomputed span of its source, [tokens] bool."""
    lengths = [len(span.text) for span in source.text_spans]
    by_character = np.repeat([span.recomputed for span in source.text_spans], lengths)
    return np.concatenate((by_character, [False])).astype(bool)[passage.spans[:, 0]]  # a token can start at the end


def _plot_panel(caption: Markup, elem_id: str, wide: bool = False) -> gr.Plot:
    with gr.Column(elem_classes=f"kv-panel{' kv-wide' if wide else ''}", min_width=0):
        gr.HTML(caption, js_on_load=None)
        return gr.Plot(show_label=False, container=False, buttons=[], elem_id=elem_id, elem_classes="kv-plot")
