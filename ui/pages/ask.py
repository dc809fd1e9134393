"""The Ask page: one question in; an answer, its passages and its numbers out."""

import tempfile
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from engine.answer import Answer
from ui import composer, reply
from ui.backend import Backend
from ui.coalesce import coalesce
from ui.composer import Composer
from ui.events import MODEL, QUIET, WAITING, Update, session_of
from ui.markup import Markup, tag
from ui.numbers import blank
from ui.results import Results
from ui.stops import Stops
from ui.trouble import sentence
from ui.turn import Turn

_REMEMBERED = 50
_PROMISE = "Questions to your own documents, answered on this machine. What was read once is not read again."
_BLANK = reply.trouble("", "Type a question first, then press Enter.")


class Ask:
    """Answers one session's question at a time; nothing of a session stays here but its stop event.

    samples  questions that an empty page offers
    """

    def __init__(self, backend: Backend, samples: Sequence[str] = ()) -> None:
        self._backend, self._offered = backend, samples
        self._methods = {method.name: method for method in backend.methods()}
        self.stops = Stops()

    def build(self, tab: gr.Tab) -> None:
        """Draw and connect the page inside its open tab."""
        self._turns = gr.State([])
        with gr.Row(elem_id="ask-page", equal_height=False):
            with gr.Column(elem_id="main", min_width=0):
                earlier = gr.HTML(elem_id="earlier", js_on_load=None)
                self._box: Composer = composer.build(self._backend.methods())
                with gr.Column(elem_id="welcome", visible=True) as self._samples:
                    gr.HTML(_welcome(bool(self._offered)), js_on_load=None)
                    buttons = {text: gr.Button(text, size="sm", elem_classes="kv-sample") for text in self._offered}
                answer = gr.HTML(elem_id="reply", js_on_load=None)
                passages = gr.HTML(elem_id="passages", js_on_load=None)
            with gr.Column(elem_id="scope", min_width=0):
                gr.HTML(tag("h2", "What it took"), js_on_load=None)
                figures = gr.HTML(blank(), elem_id="numbers", js_on_load=None)
                figure = gr.Plot(visible=False, show_label=False, container=False, buttons=[], elem_id="waterfall")
                download = gr.DownloadButton("Download trace (JSON)", size="sm", visible="hidden", elem_id="download")
                history = gr.HTML(elem_id="history", js_on_load=None)
        self._results = Results(earlier, answer, passages, figures, figure, download, history)
        self._wire(buttons)

    def _wire(self, sample_buttons: dict[str, gr.Button]) -> None:
        box = self._box
        asked = gr.on([box.ask.click, box.question.submit], **self._first_sign())
        self._then_respond(asked)
        for text, button in sample_buttons.items():
            filled = button.click(lambda text=text: text, None, box.question, queue=False, **QUIET)
            self._then_respond(filled.then(**self._first_sign()))
        box.stop.click(self.stop, None, None, queue=False, **QUIET)

    def begin(self, question: str, request: gr.Request) -> Update:
        """Answer the click at once, before the model is free."""
        self.stops.start(session_of(request))
        if not question.strip():
            return {self._results.reply: _BLANK}
        return {self._results.reply: reply.waiting(question), **self._running(True)}

    def respond(
        self,
        question: str,
        method: str,
        percent: float,
        passages: float,
        temperature: float,
        length: float,
        turns: list[Turn],
        request: gr.Request,
        *options: Any,
    ) -> Iterator[Update]:
        """Stream one answer. However this ends, the computation is told to stop.

        options  the values of all methods' own settings
        """
        session, shown, answer = session_of(request), self._results, None
        stop = self.stops.current(session)
        reached: Hashable = None
        try:
            if not question.strip():
                yield {shown.reply: _BLANK}  # a generator without any update would empty every output
                return
            how, chosen = self._methods[method], self._box.options.read(method, options)
            wanted = composer.request_of(question, method, percent, passages, temperature, length, chosen)
            yield {**shown.start(turns), **self._running(True), self._samples: gr.Column(visible=False)}
            for answer in coalesce(self._backend.ask(wanted, stop), _milestone):
                news, reached = _milestone(answer) != reached, _milestone(answer)
                yield shown.grow(answer, how, milestone=news)
            if answer is None:
                yield self._running(False)
                return
            turns = [*turns, Turn.of(answer, how)][-_REMEMBERED:]
            with tempfile.TemporaryDirectory(prefix="kvscope-") as folder:
                yield {**shown.finish(answer, how, turns, Path(folder)), self._turns: turns, **self._running(False)}
        except Exception as error:  # noqa: BLE001  the page's border: every error becomes a sentence, bugs are logged
            block = reply.trouble(question, sentence(error), answer.text if answer else "")
            yield {shown.reply: block, **self._running(False)}
        finally:
            self.stops.finish(session, stop)

    def stop(self, request: gr.Request) -> None:
        """Stop what this session has asked, now."""
        self.stops.stop(session_of(request))

    def _first_sign(self) -> dict[str, Any]:
        outputs = [self._results.reply, self._box.ask, self._box.stop]
        return {"fn": self.begin, "inputs": self._box.question, "outputs": outputs, "queue": False, **QUIET}

    def _then_respond(self, asked: Any) -> None:
        outputs = [*self._results.components(), self._turns, self._samples, self._box.ask, self._box.stop]
        inputs = [self._box.question, *self._box.settings, self._turns, *self._box.options.components()]
        asked.then(self.respond, inputs, outputs, concurrency_id=MODEL, concurrency_limit=WAITING, **QUIET)

    def _running(self, running: bool) -> Update:
        return {self._box.ask: gr.Button(visible=not running), self._box.stop: gr.Button(visible=running)}


def _milestone(answer: Answer) -> Hashable:
    """What is worth redrawing more than the text for."""
    return answer.state, len(answer.sources), answer.trace.ttft_ms is None


def _welcome(offers: bool) -> Markup:
    promise = tag("p", _PROMISE, class_="kv-promise")
    return tag("div", promise, tag("p", "Try one of these:", class_="kv-muted") if offers else None)
