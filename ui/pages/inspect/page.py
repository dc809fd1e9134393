"""The Inspect page: attention of both models for a question, and the tokens each method recomputes.

Inspecting costs one full prefill; afterwards, sliders only redraw stored results. 'Ask with these settings' answers the
question. After each of the two, a separate step redraws with the settings of that moment, which the user may have
changed meanwhile.
"""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from backend.interface.backend import MAX_CONCURRENT_REQUESTS, Backend
from backend.interface.errors import user_message
from engine.analysis.inspection import Inspection
from engine.method import MethodInfo
from engine.request import Answer, Request
from ui.cancellation import SessionTasks
from ui.components.document_picker import QuestionInputs
from ui.components.inputs import visibility
from ui.events import ALLOW_MULTIPLE, MODEL_QUEUE, QUIET, Update, session_of
from ui.figures.agreement import agreement_figure, layer_kl_figure
from ui.figures.attention_map import attention_figure
from ui.html import error_box, progress_line
from ui.pages.inspect import components, view
from ui.pages.inspect.components import ALL_PASSAGES, InspectComponents
from ui.pages.inspect.session import InspectionSession
from ui.throttle import coalesce

_NO_QUESTION = error_box("Type a question first, then press Enter.")


class Inspect:
    """Runs at most one inspection or answer per session; results are kept in the session's State."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._methods = {method.name: method for method in backend.methods()}
        self.tasks = SessionTasks()

    def build(self, tab: gr.Tab) -> None:
        """Create the page's components inside its open tab and connect their events."""
        self.session = gr.State(None)  # must have no change listener, or Gradio hashes all of it
        self.components: InspectComponents = components.build(list(self._methods.values()), self._backend)
        self._connect()

    @property
    def question_inputs(self) -> QuestionInputs:
        """The inputs that another page fills when it sends a question here."""
        return QuestionInputs(self.components.question, self.components.passages, self.components.documents)

    def stop(self, request: gr.Request) -> None:
        """Cancel the session's running inspection or answer."""
        self.tasks.stop(session_of(request))

    def begin_inspection(self, question: str, request: gr.Request) -> Update:
        """Acknowledge the click before the model is free; does nothing while the session is busy."""
        session_id = session_of(request)
        if not question.strip() and not self.tasks.is_busy(session_id):
            return {self.components.progress: _NO_QUESTION}
        if not question.strip() or not self.tasks.start(session_id):
            return gr.skip()
        return {self.components.progress: progress_line("Waiting for the model"), **self._buttons(running=True)}

    def run_inspection(
        self, question: str, passages: float, target: float, documents: list[str], request: gr.Request
    ) -> Iterator[Update]:
        """Inspect the question that has begun; stores the result for `show_passage` to draw."""
        ui = self.components
        session_id = session_of(request)
        cancel = self.tasks.claim(session_id)
        if cancel is None:  # the click started nothing
            yield gr.skip()  # a generator without any update would clear every output
            return
        try:
            if not question.strip():
                yield {ui.progress: _NO_QUESTION}
                return
            inspect_request = Request(
                question.strip(),
                recompute_ratio=target / 100,
                passages=int(passages),
                documents=tuple(documents or ()),
            )
            for step in self._backend.inspection.inspect(inspect_request, cancel):
                if step.inspection is None:
                    yield {ui.progress: progress_line(step.message)}
                else:
                    self.tasks.finish(session_id, cancel)
                    yield self._finished(inspect_request, step.inspection)
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            message = view.render_note("Stopped.") if cancel.is_set() else error_box(user_message(error))
            self.tasks.finish(session_id, cancel)
            yield {ui.progress: message, **self._buttons(running=False)}
        finally:
            self.tasks.finish(session_id, cancel)

    def change_method(self, session: InspectionSession | None, method: str, target: float, rank: int) -> Update:
        """Show another method: its description, its ratio slider if it has one, and the tokens it recomputes."""
        info = self._methods[method]
        return {
            self.components.method: gr.update(info=info.description),
            self.components.ratio: gr.update(visible=visibility(info.has_ratio)),
            **self.redraw(session, method, target, rank),
        }

    def redraw(self, session: InspectionSession | None, method: str, target: float, rank: int) -> Update:
        """Draw everything that depends on method and ratio, from stored results."""
        if session is None:
            return {self.components.summary: ""}
        info = self._methods[method]
        percent = round(target)
        return {
            self.components.summary: view.render_summary(session, info, percent),
            self.components.text: view.render_passages(session, info, percent, rank),
            self.components.rank_scatter: view.render_rank_scatter(session, info, percent, rank),
            self.components.agreement: self._agreement(session, info, percent),
        }

    def show_passage(self, session: InspectionSession | None, method: str, target: float, rank: int) -> Update:
        """Draw the passage of `rank`, or all for 0, in every figure that shows tokens."""
        if session is None:
            return {self.components.summary: ""}
        inspection = session.inspection
        part = inspection.passage_slices[rank - 1] if rank else slice(0, inspection.num_tokens)
        lengths = [inspection.passage_lengths[rank - 1]] if rank else list(inspection.passage_lengths)
        figure = attention_figure(inspection.auxiliary[part], inspection.primary[:, part], lengths, first=rank or 1)
        return {self.components.attention_map: figure, **self.redraw(session, method, target, rank)}

    def begin_answer(self, request: gr.Request) -> Update:
        """Acknowledge the click before the model is free; does nothing while the session is busy."""
        if not self.tasks.start(session_of(request)):
            return gr.skip()
        return {self.components.answer: progress_line("Waiting for the model"), **self._buttons(running=True)}

    def answer(
        self, session: InspectionSession | None, method: str, target: float, request: gr.Request
    ) -> Iterator[Update]:
        """Answer the inspected question with these settings; stores its quotes for `redraw` to mark."""
        ui = self.components
        session_id = session_of(request)
        cancel = self.tasks.claim(session_id)
        if cancel is None:  # the click started nothing
            yield gr.skip()
            return
        answer: Answer | None = None
        percent = round(target)
        try:
            if session is None:
                yield {ui.answer: _NO_QUESTION}
                return
            ask_request = Request(
                session.inspection.question, method, percent / 100, session.num_passages, documents=session.documents
            )
            for answer in coalesce(self._backend.ask(ask_request, cancel), _milestone):
                yield {ui.answer: view.render_answer(answer, self._methods[method])}
            self.tasks.finish(session_id, cancel)
            if answer is not None:
                yield {self.session: session.with_answer(answer, percent), **self._buttons(running=False)}
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            self.tasks.finish(session_id, cancel)
            yield {ui.answer: error_box(user_message(error)), **self._buttons(running=False)}
        finally:
            self.tasks.finish(session_id, cancel)

    def _finished(self, request: Request, inspection: Inspection) -> Update:
        ui = self.components
        ranks = range(1, len(inspection.passages) + 1)
        choices = [("All", ALL_PASSAGES), *((str(rank), rank) for rank in ranks)]
        return {
            self.session: InspectionSession(inspection, request.passages, documents=request.documents),
            ui.progress: "",
            ui.intro: gr.update(visible=False),
            ui.results: gr.update(visible=True),
            ui.passage_choice: gr.update(choices=choices, value=ALL_PASSAGES),
            ui.answer: "",
            ui.kl: layer_kl_figure(inspection.kl_layers.tolist(), inspection.kl_auxiliary),
            **self._buttons(running=False),
        }

    def _agreement(self, session: InspectionSession, method: MethodInfo, percent: int) -> Any:
        """Return the agreement figure; a method without a ratio is one point, at the ratio it recomputes."""
        point = None
        mask = session.recompute_mask(method.name, percent)
        if not method.has_ratio and mask is not None:
            point = session.inspection.oracle_overlap.get(method.name)
            percent = round(100 * float(mask.mean()))
        labels = {each.name: each.label for each in self._methods.values()}
        return agreement_figure(session.inspection.agreement, labels, method.name, percent, point)

    def _buttons(self, running: bool) -> Update:
        ui = self.components
        run = gr.Button(visible=not running)
        stop = gr.Button(visible=running)
        return {ui.inspect: run, ui.ask: run, ui.stop: stop, ui.stop_answer: stop}

    def _connect(self) -> None:
        ui = self.components
        buttons = [ui.inspect, ui.stop, ui.ask, ui.stop_answer]
        choices = [self.session, ui.method, ui.ratio, ui.passage_choice]
        redrawn = [ui.summary, ui.text, ui.rank_scatter, ui.agreement]
        model: dict[str, Any] = {
            "concurrency_id": MODEL_QUEUE,
            "concurrency_limit": MAX_CONCURRENT_REQUESTS,
            **ALLOW_MULTIPLE,
            **QUIET,
        }
        instant: dict[str, Any] = {"queue": False, "trigger_mode": "always_last", **QUIET}
        inputs = [ui.question, ui.passages, ui.ratio, ui.documents.documents]
        shown = [self.session, ui.progress, ui.intro, ui.results, ui.passage_choice, ui.answer, ui.kl]
        submit = [ui.inspect.click, ui.question.submit]
        begun = gr.on(submit, self.begin_inspection, ui.question, [ui.progress, *buttons], queue=False, **QUIET)
        inspected = begun.then(self.run_inspection, inputs, [*shown, *buttons], **model)
        inspected.then(self.show_passage, choices, [ui.attention_map, *redrawn], **instant)
        ui.ratio.change(self.redraw, choices, redrawn, **instant)
        ui.method.change(self.change_method, choices, [ui.method, ui.ratio, *redrawn], **instant)
        ui.passage_choice.input(self.show_passage, choices, [ui.attention_map, *redrawn], **instant)
        begun = ui.ask.click(self.begin_answer, None, [ui.answer, *buttons], queue=False, **QUIET)
        ask_inputs = [self.session, ui.method, ui.ratio]
        answered = begun.then(self.answer, ask_inputs, [self.session, ui.answer, *buttons], **model)
        answered.then(self.redraw, choices, redrawn, **instant)
        for button in (ui.stop, ui.stop_answer):
            button.click(self.stop, None, None, queue=False, **QUIET)


def _milestone(answer: Answer) -> object:
    """Return what changes when more than the text must be redrawn."""
    return answer.state, answer.trace.ttft_ms is None
