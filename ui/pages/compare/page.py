"""The Compare page: one question through any methods and ratios; what each costs, and what it changes."""

import tempfile
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from backend.interface.backend import MAX_CONCURRENT_REQUESTS, Backend
from backend.interface.errors import user_message
from engine.analysis.comparison import CompareRequest, Comparison
from ui.cancellation import SessionTasks
from ui.components.document_picker import DocumentPicker, QuestionInputs
from ui.components.inputs import go_and_stop, passages_slider, question_box
from ui.components.sample_questions import SampleQuestions
from ui.events import ALWAYS, MODEL, QUIET, Update, session_of
from ui.figures.pareto import frontier
from ui.pages.compare import table as standings
from ui.pages.compare.export import as_csv, as_json

RATIOS = (0, 5, 10, 15, 20, 30, 50, 100)  # percent
_USUAL = ("cacheclip", "cacheclip-trained", "cacheblend", "direct")
_REPEATS = {"Once": 1, "3 times": 3, "5 times": 5}
_BLANK = "Type a question first, then press Run."
_NONE = "Choose at least one method, and one share to recompute."


class Compare:
    """Compares for one session at a time; nothing of a session stays here but its stop event.

    samples  questions that an empty page offers, each with the name of the document that answers it
    """

    def __init__(self, backend: Backend, samples: Mapping[str, str]) -> None:
        self._backend, self._samples = backend, dict(list(samples.items())[:2])
        self._methods = [method for method in backend.methods() if method.name != "full"]
        self.stops = SessionTasks()

    @property
    def asks(self) -> QuestionInputs:
        """What is asked, for a page that sends a question here."""
        return QuestionInputs(self._question, self._passages, self._where)

    def build(self, tab: gr.Tab) -> None:
        """Draw and connect the page inside its open tab."""
        with gr.Column(elem_id="compare-page", min_width=0):
            with gr.Column(elem_id="compare-box", min_width=0):
                with gr.Row(elem_id="compare-row", equal_height=False):
                    self._question = question_box(
                        "Question to compare methods on", "One question for all methods…", "compare-question"
                    )
                    self._run, self._stop = go_and_stop("Run", "compare-run", "compare-stop")
                self._settings = self._draw_settings()
            with gr.Column(elem_id="compare-welcome") as self._welcome:
                gr.HTML(standings.hint(), js_on_load=None)
                self._offers = SampleQuestions(self._backend, self._samples)
            self._progress = gr.HTML(elem_id="compare-progress", js_on_load=None)
            self._table = gr.HTML(elem_id="standings", js_on_load=None)
            with gr.Column(elem_id="frontier-block", visible=False, min_width=0) as self._plotted:
                gr.HTML(standings.reading(), js_on_load=None)
                self._figure = gr.Plot(show_label=False, container=False, buttons=[], elem_id="frontier")
            self._cards = gr.HTML(elem_id="answers", js_on_load=None)
            with gr.Row(elem_id="compare-downloads", visible=False) as self._downloads:
                self._csv = gr.DownloadButton("Download CSV", size="sm", elem_id="download-csv")
                self._json = gr.DownloadButton("Download JSON", size="sm", elem_id="download-json")
        self._connect(self._offers.buttons)

    def follow(self, shelf: gr.HTML) -> None:
        """Keep up with the list of documents."""
        self._where.follow(shelf)
        self._offers.follow(shelf)

    def begin(self, question: str, request: gr.Request) -> Update:
        """Answer the click at once, before the model is free; while this session compares, nothing else begins."""
        session = session_of(request)
        if not question.strip() and not self.stops.busy(session):
            return {self._progress: standings.trouble(_BLANK)}
        if not question.strip() or not self.stops.start(session):
            return gr.skip()
        return {self._progress: standings.begun(), self._welcome: gr.Column(visible=False), **self._running(True)}

    def run(
        self,
        question: str,
        methods: list[str],
        ratios: list[int],
        passages: float,
        repeats: str,
        where: list[str],
        request: gr.Request,
    ) -> Iterator[Update]:
        """Stream the comparison that has begun. However it ends, it is told to stop, and what is finished stays."""
        session, comparison = session_of(request), None
        if (stop := self.stops.take(session)) is None:  # a click that began nothing
            yield gr.skip()
            return
        reached: Hashable = None
        try:
            if not question.strip() or not methods or not ratios:
                said = _NONE if question.strip() else _BLANK
                yield {self._progress: standings.trouble(said), **self._running(False)}
                return
            chosen = tuple(method.name for method in self._methods if method.name in methods)
            shares = tuple(sorted(ratio / 100 for ratio in ratios))
            wanted = CompareRequest(
                question.strip(), chosen, shares, int(passages), _REPEATS[repeats], documents=tuple(where or ())
            )
            yield self._cleared()
            for comparison in self._backend.comparison.compare(wanted, stop):
                news, reached = (found := _found(comparison)) != reached, found
                yield self._shown(comparison, news)
            self.stops.finish(session, stop)
            if comparison is None:
                yield self._running(False)
                return
            yield from self._ended(comparison, self._shown(comparison, news=True))
        except Exception as error:  # noqa: BLE001  the page's border: every error becomes a sentence, bugs are logged
            self.stops.finish(session, stop)
            yield from self._ended(comparison, {self._progress: standings.trouble(user_message(error))})
        finally:
            self.stops.finish(session, stop)

    def stop(self, request: gr.Request) -> None:
        """Stop what this session compares, now."""
        self.stops.stop(session_of(request))

    def _draw_settings(self) -> list[Any]:
        known = [method.name for method in self._methods]
        with gr.Column(elem_id="compare-settings", min_width=0):
            methods = gr.CheckboxGroup(
                [(method.label, method.name) for method in self._methods],
                value=[name for name in _USUAL if name in known],
                label="Methods",
                info="Full prefill always runs first: it is what the others are measured against.",
                elem_id="compare-methods",
            )
            ratios = gr.CheckboxGroup(
                [(f"{ratio} %", ratio) for ratio in RATIOS],
                value=[20],
                label="Recompute",
                info="Shares of the passages to compute again, for each method that has a choice.",
                elem_id="compare-ratios",
            )
            with gr.Row(elem_id="compare-numbers", equal_height=False):
                self._passages = passages_slider("compare-passages")
                repeats = gr.Radio(
                    list(_REPEATS),
                    value="Once",
                    label="Time each",
                    info="Methods take turns; the median is shown.",
                    elem_id="compare-repeats",
                )
            self._where = DocumentPicker(self._backend, "compare-where")
        return [methods, ratios, self._passages, repeats, self._where.documents]

    def _connect(self, sample_buttons: dict[str, gr.Button]) -> None:
        outputs = [self._progress, self._welcome, self._run, self._stop]
        first: dict[str, Any] = {"fn": self.begin, "inputs": self._question, "outputs": outputs, "queue": False}
        self._then_run(gr.on([self._run.click, self._question.submit], **first, **QUIET))
        for text, button in sample_buttons.items():
            filled = button.click(lambda text=text: text, None, self._question, queue=False, **QUIET)
            self._then_run(filled.then(**first, **QUIET))
        self._stop.click(self.stop, None, None, queue=False, **QUIET)

    def _then_run(self, asked: Any) -> None:
        outputs = [self._progress, self._table, self._plotted, self._figure, self._cards, self._downloads]
        outputs += [self._csv, self._json, self._run, self._stop]
        limit: dict[str, Any] = {"concurrency_id": MODEL, "concurrency_limit": MAX_CONCURRENT_REQUESTS, **ALWAYS}
        asked.then(self.run, [self._question, *self._settings], outputs, **limit, **QUIET)

    def _cleared(self) -> Update:
        hidden: Update = {self._plotted: gr.Column(visible=False), self._downloads: gr.Row(visible=False)}
        return {self._table: "", self._cards: "", **hidden, **self._running(True)}

    def _shown(self, comparison: Comparison, news: bool) -> Update:
        """Return the view of a snapshot; table and answers only where there is something new."""
        update: Update = {self._progress: standings.progress(comparison)}
        if news:
            update |= {self._table: standings.table(comparison), self._cards: standings.cards(comparison)}
        return update

    def _ended(self, comparison: Comparison | None, update: Update) -> Iterator[Update]:
        """Yield the last update, with what is finished plotted and ready for download.

        Not before: a browser on the same machine takes a core for a second or two to draw the plot, and what is timed
        meanwhile would look slow.
        """
        update |= self._running(False)
        if comparison is None or not comparison.outcomes:
            yield update
            return
        with tempfile.TemporaryDirectory(prefix="kvscope-") as folder:
            rows = as_csv(comparison, Path(folder) / "kvscope-comparison.csv")
            whole = as_json(comparison, Path(folder) / "kvscope-comparison.json")
            files = {self._csv: gr.DownloadButton(value=str(rows)), self._json: gr.DownloadButton(value=str(whole))}
            drawn = {self._plotted: gr.Column(visible=True), self._figure: frontier(comparison.outcomes)}
            yield {**update, **files, **drawn, self._downloads: gr.Row(visible=True)}

    def _running(self, running: bool) -> Update:
        return {self._run: gr.Button(visible=not running), self._stop: gr.Button(visible=running)}


def _found(comparison: Comparison) -> Hashable:
    """What is worth redrawing more than the progress for."""
    return comparison.finished, tuple((outcome.key, len(outcome.ttfts_ms)) for outcome in comparison.outcomes)
