"""The Inspect page: where both models look for a question, and which tokens each method recomputes.

One click reads the passages in full; after that the sliders only redraw what is held. 'Apply' asks the question.
Both end by drawing what was found with the settings of that moment, which may have been changed while they ran.
"""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from backend.interface.backend import MAX_CONCURRENT_REQUESTS, Backend
from backend.interface.errors import user_message
from engine.method import MethodInfo
from engine.request import Answer, Request
from ui.cancellation import SessionTasks
from ui.components.document_picker import QuestionInputs
from ui.components.inputs import shown
from ui.events import ALWAYS, MODEL, QUIET, Update, session_of
from ui.figures.agreement import agreement, distance
from ui.figures.attention_map import attention_map
from ui.pages.inspect import view as inspected
from ui.pages.inspect.components import ALL, Parts, draw
from ui.pages.inspect.session import Held
from ui.throttle import coalesce

_BLANK = "Type a question first, then press Enter."


class Inspect:
    """Looks into one session's question at a time; what was found lies in the session's State."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._methods = {method.name: method for method in backend.methods()}
        self.stops = SessionTasks()

    def build(self, tab: gr.Tab) -> None:
        """Draw and connect the page inside its open tab."""
        self._held = gr.State(None)  # nothing listens to its changes: Gradio would hash all of it
        self._parts: Parts = draw(list(self._methods.values()), self._backend)
        self._wire()

    @property
    def asks(self) -> QuestionInputs:
        """What is asked, for a page that sends a question here."""
        return QuestionInputs(self._parts.question, self._parts.passages, self._parts.where)

    def stop(self, request: gr.Request) -> None:
        """Stop what this session has asked for, now."""
        self.stops.stop(session_of(request))

    def begin(self, question: str, request: gr.Request) -> Update:
        """Answer the click at once, before the model is free; while this session looks, nothing else begins."""
        session = session_of(request)
        if not question.strip() and not self.stops.busy(session):
            return {self._parts.progress: inspected.trouble(_BLANK)}
        if not question.strip() or not self.stops.start(session):
            return gr.skip()
        return {self._parts.progress: inspected.waiting("Waiting for the model"), **self._running(True)}

    def look(
        self, question: str, passages: float, nominal: float, where: list[str], request: gr.Request
    ) -> Iterator[Update]:
        """Inspect the question that has begun, saying what is done; then hold what was found, for `drill` to draw."""
        parts, session = self._parts, session_of(request)
        if (stop := self.stops.take(session)) is None:  # a click that began nothing
            yield gr.skip()
            return
        try:
            if not question.strip():
                yield {parts.progress: inspected.trouble(_BLANK)}  # a generator without updates would empty all
                return
            chosen = tuple(where or ())
            wanted = Request(question.strip(), ratio=nominal / 100, passages=int(passages), documents=chosen)
            for step in self._backend.inspection.inspect(wanted, stop):
                if step.found is None:
                    yield {parts.progress: inspected.waiting(step.said)}
                    continue
                held = Held(step.found, int(passages), documents=chosen)
                choices = [("All", ALL), *((str(rank), rank) for rank in range(1, len(step.found.excerpts) + 1))]
                seen = {
                    self._held: held,
                    parts.progress: "",
                    parts.empty: gr.update(visible=False),
                    parts.found: gr.update(visible=True),
                    parts.only: gr.update(choices=choices, value=ALL),
                    parts.answer: "",
                    parts.kl: distance(step.found.kl_layers.tolist(), step.found.kl_auxiliary),
                    **self._running(False),
                }
                self.stops.finish(session, stop)
                yield seen
        except Exception as error:  # noqa: BLE001  the page's border: every error becomes a sentence, bugs are logged
            said = inspected.note("Stopped.") if stop.is_set() else inspected.trouble(user_message(error))
            self.stops.finish(session, stop)
            yield {parts.progress: said, **self._running(False)}
        finally:
            self.stops.finish(session, stop)

    def choose(self, held: Held | None, method: str, nominal: float, only: int) -> Update:
        """Show another method: what it says of itself, its slider if it has one, and what it recomputes."""
        how, parts = self._methods[method], self._parts
        said = {parts.method: gr.update(info=how.description), parts.ratio: gr.update(visible=shown(how.has_ratio))}
        return {**said, **self.redraw(held, method, nominal, only)}

    def redraw(self, held: Held | None, method: str, nominal: float, only: int) -> Update:
        """Draw what depends on method and ratio, from what is held; no model is asked."""
        if held is None:
            return {self._parts.summary: ""}
        how, parts, at = self._methods[method], self._parts, round(nominal)
        return {
            parts.summary: inspected.summary(held, how, at),
            parts.text: inspected.passages(held, how, at, only),
            parts.ranks: inspected.ranks(held, how, at, only),
            parts.agreement: self._agreement(held, how, at),
        }

    def drill(self, held: Held | None, method: str, nominal: float, only: int) -> Update:
        """Draw one passage, or all, in every figure that shows tokens."""
        if held is None:
            return {self._parts.summary: ""}
        found = held.found
        part = found.parts[only - 1] if only else slice(0, found.tokens)
        lengths = [found.passages[only - 1]] if only else list(found.passages)
        heat = attention_map(found.auxiliary[part], found.primary[:, part], lengths, first=only or 1)
        return {self._parts.map: heat, **self.redraw(held, method, nominal, only)}

    def apply(self, held: Held | None, method: str, nominal: float, request: gr.Request) -> Iterator[Update]:
        """Ask the inspected question with these settings; then hold what its answer rests on, for `redraw` to mark."""
        parts, session, answer = self._parts, session_of(request), None
        how = self._methods[method]
        if (stop := self.stops.take(session)) is None:  # a click that began nothing
            yield gr.skip()
            return
        try:
            if held is None:
                yield {parts.answer: inspected.trouble(_BLANK)}
                return
            wanted = Request(held.found.question, method, round(nominal) / 100, held.passages, documents=held.documents)
            for answer in coalesce(self._backend.ask(wanted, stop), _milestone):
                yield {parts.answer: inspected.answer(answer, how)}
            self.stops.finish(session, stop)
            if answer is not None:
                yield {self._held: held.after(answer, round(nominal)), **self._running(False)}
        except Exception as error:  # noqa: BLE001  the page's border: every error becomes a sentence, bugs are logged
            self.stops.finish(session, stop)
            yield {parts.answer: inspected.trouble(user_message(error)), **self._running(False)}
        finally:
            self.stops.finish(session, stop)

    def applying(self, request: gr.Request) -> Update:
        """Answer the click on Apply at once; while this session looks, nothing else begins."""
        if not self.stops.start(session_of(request)):
            return gr.skip()
        return {self._parts.answer: inspected.waiting("Waiting for the model"), **self._running(True)}

    def _wire(self) -> None:
        parts = self._parts
        buttons = [parts.inspect, parts.stop, parts.apply, parts.halt]
        chosen = [self._held, parts.method, parts.ratio, parts.only]
        drawn = [parts.summary, parts.text, parts.ranks, parts.agreement]
        slow: dict[str, Any] = {
            "concurrency_id": MODEL,
            "concurrency_limit": MAX_CONCURRENT_REQUESTS,
            **ALWAYS,
            **QUIET,
        }
        instant: dict[str, Any] = {"queue": False, "trigger_mode": "always_last", **QUIET}
        clicked = gr.on(
            [parts.inspect.click, parts.question.submit],
            self.begin,
            parts.question,
            [parts.progress, *buttons],
            queue=False,
            **QUIET,
        )
        everything = [parts.progress, parts.empty, parts.found, parts.only, parts.answer, parts.kl]
        wanted = [parts.question, parts.passages, parts.ratio, parts.where.documents]
        looked = clicked.then(self.look, wanted, [self._held, *everything, *buttons], **slow)
        looked.then(self.drill, chosen, [parts.map, *drawn], **instant)
        parts.ratio.change(self.redraw, chosen, drawn, **instant)
        parts.method.change(self.choose, chosen, [parts.method, parts.ratio, *drawn], **instant)
        parts.only.input(self.drill, chosen, [parts.map, *drawn], **instant)
        clicked = parts.apply.click(self.applying, None, [parts.answer, *buttons], queue=False, **QUIET)
        asked = [self._held, parts.method, parts.ratio]
        applied = clicked.then(self.apply, asked, [self._held, parts.answer, *buttons], **slow)
        applied.then(self.redraw, chosen, drawn, **instant)
        for button in (parts.stop, parts.halt):
            button.click(self.stop, None, None, queue=False, **QUIET)

    def _agreement(self, held: Held, how: MethodInfo, at: int) -> Any:
        """Return the figure; a method without a ratio is a point at what it recomputes."""
        point, taken = None, held.taken(how.name, at)
        if not how.has_ratio and taken is not None:
            point, at = held.found.overlap.get(how.name), round(100 * float(taken.mean()))
        labels = {each.name: each.label for each in self._methods.values()}
        return agreement(held.found.alike, labels, how.name, at, point)

    def _running(self, running: bool) -> Update:
        parts = self._parts
        idle, busy = gr.Button(visible=not running), gr.Button(visible=running)
        return {parts.inspect: idle, parts.apply: idle, parts.stop: busy, parts.halt: busy}


def _milestone(answer: Answer) -> object:
    """What is worth redrawing more than the text for."""
    return answer.state, answer.trace.ttft_ms is None
