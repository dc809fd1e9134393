"""The Lab's comparison: run one question through several methods and ratios; compare speed, KL and answers."""

import tempfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.analysis.comparison import CompareRequest, Comparison, Outcome
from engine.method import default_method, local_methods
from ui.components.document_picker import QuestionInputs
from ui.components.inputs import RunButtons
from ui.components.sample_questions import SampleQuestions
from ui.events import INSTANT, RUN_MODEL, Listeners, SessionTasks, Update, session_of
from ui.figures.pareto import pareto_figure
from ui.html import error_box, join, tag
from ui.pages.lab.compare import table
from ui.pages.lab.compare.export import write_csv, write_json

PERCENTS = (0, 5, 10, 15, 20, 30, 50, 100)  # recompute ratios
_REPEATS = {"Once": 1, "3 times": 3, "5 times": 5}
FAILING_QUESTION = {"What is the maintenance code of the boat on the Bay Route?": "harbour-handbook.md"}
FAILING_METHODS = ("cacheclip-trained", "direct")
_FAILING_INTRO = (
    "Where direct reuse fails: with the bundled model, full prefill and CacheClip trained name the code of the right "
    "boat. Direct reuse, which reads each passage in isolation, names the code of the reserve boat:"
)
_NO_QUESTION = error_box("Type a question first, then press Compare.")
_NO_METHOD = error_box("Choose at least one method and one recompute ratio.")
_INTRO = (
    "Run one question through several methods and compare their time to first token, how far each answer is from full "
    "prefill's, and which words differ."
)
_PLOT = (
    "Dotted steps connect the methods that no other beats in both. A grey line leads to the ideal speedup "
    "(FLOP bound): the time to first token if computing the method's tokens were the only cost."
)


class Compare:
    """Runs at most one comparison per session. Sessions share this object; `tasks` is the only per-session state."""

    def __init__(self, backend: Backend, samples: Mapping[str, str]) -> None:
        self._backend = backend
        self._samples = dict(islice(samples.items(), 2))
        methods = [method for method in local_methods(backend.methods()) if method.name != "full"]
        self._methods = {method.name: method.label for method in methods}
        self._usual = {default_method(methods).name, "direct"} & self._methods.keys()
        self._more = self._methods.keys() - self._usual
        self.tasks = SessionTasks()

    def build(self, question_inputs: QuestionInputs, buttons: RunButtons) -> None:
        """Create the part inside the open Blocks; the page has its question and its buttons."""
        self._question_inputs, self._buttons = question_inputs, buttons
        with gr.Column(elem_id="compare-page", min_width=0):
            inputs = self._build_settings()
            with gr.Column(elem_id="compare-welcome") as self._welcome:
                gr.HTML(tag("p", _INTRO, class_="kv-tagline"), js_on_load=None)
                self._sample_questions = SampleQuestions(self._backend, self._samples)
                failing = FAILING_QUESTION if self._samples else {}
                self._failing_question = SampleQuestions(self._backend, failing, _FAILING_INTRO, "")
            self._progress = gr.HTML(elem_id="compare-progress", js_on_load=None)
            self._table = gr.HTML(elem_id="comparison", js_on_load=None)
            with gr.Column(elem_id="pareto-block", visible=False, min_width=0) as self._plot_column:
                heading = tag("h3", "Speed against fidelity: lower left is best")
                gr.HTML(join(heading, tag("p", _PLOT, class_="kv-muted")), js_on_load=None)
                self._figure = gr.Plot(show_label=False, container=False, buttons=[], elem_id="pareto")
            self._answers = gr.HTML(elem_id="answers", js_on_load=None)
            with gr.Row(elem_id="compare-downloads", visible=False) as self._downloads:
                self._csv = gr.DownloadButton("Download CSV", size="sm", elem_id="download-csv")
                self._json = gr.DownloadButton("Download JSON", size="sm", elem_id="download-json")
        outputs = [self._progress, self._welcome, self._table, self._answers, self._plot_column, self._figure]
        outputs += [self._downloads, self._csv, self._json, *self._buttons]
        run: dict[str, Any] = {"fn": self.run, "inputs": inputs, "outputs": outputs, **RUN_MODEL}
        buttons.run.click(**run)
        for text, button in self._sample_questions.buttons.items():
            filled = button.click(lambda text=text: text, None, question_inputs.question, **INSTANT)
            filled.then(**run)
        for button in self._failing_question.buttons.values():
            button.click(self._fill_failing_question, None, inputs, **INSTANT).then(**run)
        buttons.stop.click(self.tasks.stop, None, None, **INSTANT)

    def follow(self, documents_changed: Listeners) -> None:
        """Update the example questions whenever the documents change."""
        self._sample_questions.follow(documents_changed)
        self._failing_question.follow(documents_changed)

    def run(
        self,
        question: str,
        methods: list[str],
        more_methods: list[str],
        ratios: list[int],
        passages: float,
        repeats: str,
        documents: list[str],
        request: gr.Request,
    ) -> Iterator[Update]:
        """Stream a comparison, unless one is running. It is cancelled however this ends; its outcomes stay visible."""
        session = session_of(request)
        if (cancel := self.tasks.start(session)) is None:
            yield gr.skip()  # a generator without any update would clear every output
            return
        comparison: Comparison | None = None
        shown: tuple[Outcome, ...] = ()
        update: Update = {}
        try:
            methods = [*methods, *more_methods]
            if not question.strip() or not methods or not ratios:
                yield {self._progress: _NO_METHOD if question.strip() else _NO_QUESTION}
                return
            yield {
                self._progress: table.render_step("Waiting for the model"),
                self._welcome: gr.Column(visible=False),
                self._table: "",
                self._answers: "",
                self._plot_column: gr.Column(visible=False),
                self._downloads: gr.Row(visible=False),
                **self._buttons.show(running=True),
            }
            compare_request = CompareRequest(
                question.strip(),
                methods=tuple(name for name in self._methods if name in methods),
                ratios=tuple(sorted(ratio / 100 for ratio in ratios)),
                passages=int(passages),
                repeats=_REPEATS[repeats],
                documents=tuple(documents or ()),
            )
            for comparison in self._backend.compare(compare_request, cancel):
                update = {self._progress: table.render_progress(comparison)}
                if comparison.outcomes != shown:
                    shown = comparison.outcomes
                    update[self._table] = table.render_table(comparison)
                    update[self._answers] = table.render_answers(comparison)
                yield update
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            update = {self._progress: error_box(user_message(error))}
        finally:
            self.tasks.finish(session, cancel)
        yield from self._finished(comparison, update)

    def _build_settings(self) -> list[Any]:
        with gr.Column(elem_id="compare-settings", min_width=0):
            choices = [(label, name) for name, label in self._methods.items()]
            methods = gr.CheckboxGroup(
                [choice for choice in choices if choice[1] in self._usual],
                value=[name for name in self._methods if name in self._usual],
                label="Methods",
                info="Full prefill always runs first, as the reference.",
                elem_id="compare-methods",
            )
            ratios = gr.CheckboxGroup(
                [(f"{ratio} %", ratio) for ratio in PERCENTS],
                value=[20],
                label="Recompute %",
                info="Shares of the passages' tokens to recompute, for each method with a ratio.",
                elem_id="compare-ratios",
            )
            with gr.Accordion("More methods and rounds", open=False, elem_id="compare-more", elem_classes="kv-more"):
                more_methods = gr.CheckboxGroup(
                    [choice for choice in choices if choice[1] in self._more],
                    label="More methods",
                    elem_id="compare-more-methods",
                )
                repeats = gr.Radio(
                    list(_REPEATS),
                    value="3 times",
                    label="Time each method",
                    info="Methods take turns; the median is shown.",
                    elem_id="compare-repeats",
                )
        inputs = self._question_inputs
        documents = inputs.picker.documents
        return [inputs.question, methods, more_methods, ratios, inputs.passages, repeats, documents]

    def _fill_failing_question(self) -> tuple[str, list[str], list[str], list[int], int, str, gr.Dropdown]:
        """Return the values of all inputs for the question that direct reuse answers wrongly.

        The document's choice comes along: a document that was just added may not be among the choices yet.
        """
        ((question, name),) = FAILING_QUESTION.items()
        documents = [document.id for document in self._backend.documents() if document.name == name]
        usual, more = ([name for name in FAILING_METHODS if name in group] for group in (self._usual, self._more))
        return question, usual, more, [20], 3, "Once", self._question_inputs.picker.select(documents)

    def _finished(self, comparison: Comparison | None, update: Update) -> Iterator[Update]:
        """Yield the last update, with the finished outcomes plotted and ready for download.

        Plotting waits for the end: a browser on the same machine needs a core for a second or two to draw the plot,
        which would slow down the measurements.
        """
        update = update | self._buttons.show(running=False)
        if comparison is None or not comparison.outcomes:
            yield update
            return
        with tempfile.TemporaryDirectory(prefix="kvscope-") as folder:
            csv_path = write_csv(comparison, Path(folder) / "kvscope-comparison.csv")
            json_path = write_json(comparison, Path(folder) / "kvscope-comparison.json")
            yield update | {
                self._csv: gr.DownloadButton(value=str(csv_path)),
                self._json: gr.DownloadButton(value=str(json_path)),
                self._downloads: gr.Row(visible=True),
                self._plot_column: gr.Column(visible=True),
                self._figure: pareto_figure(comparison.outcomes),
            }
