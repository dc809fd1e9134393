"""The first screen: full prefill and CacheClip side by side, on the same question over the sample documents.

A recorded run (`scripts/record_demonstration.py`) is shown at once, also while models load; "Run it live here"
replaces it by a run on this machine.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from pydantic import TypeAdapter

from assets import ASSETS
from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.analysis.comparison import CompareRequest, Comparison
from engine.method import default_method, local_methods
from ui.components.differences import has_same_words
from ui.events import INSTANT, RUN_MODEL, SessionTasks, Update, session_of
from ui.format import count, duration, percent
from ui.html import Markup, error_box, progress_line, tag

RECORDING = ASSETS / "demonstration.json"
RATIO = 0.2
PASSAGES = 16  # all passages of the sample documents
_FULL = ("Read everything again", "full prefill of every passage")
_REUSE = "stored KV, a part of it recomputed"
_POLL_S = 0.2  # between two looks at what loads
_STOPPED = tag("p", "Stopped.", class_="kv-state", role="status")
_MIN_GAIN = 1.2  # below it, the headline claims none
_NO_SAMPLES = "The sample documents were deleted or renamed. Compare runs any question over your own documents."


@dataclass(frozen=True)
class Lane:
    """One method's run; without a TTFT it has not ended."""

    ttft_ms: float | None = None
    answer: str = ""
    recomputed_tokens: int = 0
    is_running: bool = False


@dataclass(frozen=True)
class Demonstration:
    """Full prefill and CacheClip on the same question.

    lanes   full prefill, then the other method
    method  the label of that one
    source  where and when they ran, as a sentence
    marked  a passage as pieces of text, each with whether it was recomputed; empty after a live run
    """

    question: str
    context_tokens: int
    lanes: tuple[Lane, Lane]
    method: str
    source: str
    document: str = ""
    marked: tuple[tuple[str, bool], ...] = ()

    @property
    def is_finished(self) -> bool:
        return all(lane.ttft_ms is not None for lane in self.lanes)

    @property
    def gain(self) -> float:
        """TTFT of full prefill relative to the other method's."""
        full, reuse = (lane.ttft_ms or 0.0 for lane in self.lanes)
        return full / reuse

    @property
    def is_same(self) -> bool:
        return has_same_words(*(lane.answer for lane in self.lanes))


def read_recording() -> Demonstration:
    """Return the bundled recording."""
    return TypeAdapter(Demonstration).validate_python(json.loads(RECORDING.read_text(encoding="utf-8")))


def from_comparison(before: Demonstration, comparison: Comparison) -> Demonstration:
    """Return a live run of the question of `before`, so far."""
    lanes = [Lane(each.ttft_ms, each.answer, each.recomputed_tokens) for each in comparison.outcomes]
    lanes += [Lane(is_running=comparison.state == "running"), Lane()]
    source = f"One run each on this machine, just now: {comparison.model}."
    tokens = comparison.context_tokens or before.context_tokens
    return replace(before, context_tokens=tokens, lanes=(lanes[0], lanes[1]), source=source)


def headline(shown: Demonstration) -> str:
    """Return what the two runs show."""
    if not shown.is_finished:
        return "Running both on this machine"
    if shown.gain < _MIN_GAIN:
        return "Not faster in this run"
    answer = "Same answer" if shown.is_same else "A different answer"
    return f"{answer}, {shown.gain:.1f}\u00d7 sooner"


def render(shown: Demonstration, progress: Markup | None = None) -> Markup:
    """Return headline, question, both lanes and the passage with its recomputed text."""
    longest = max((lane.ttft_ms or 0.0 for lane in shown.lanes), default=0.0)
    about = (
        f"One question over {count(shown.context_tokens, 'token')} of documents. Full prefill computes all of them for "
        "every question. CacheClip computed their keys and values (KV) once, when the documents were added, and "
        f"recomputes {percent(RATIO)} for the question."
    )
    titled = zip((_FULL, (shown.method, _REUSE)), shown.lanes, strict=True)
    play = tag("button", "Play", type="button", class_="kv-play", data_play=True)
    badge = tag("p", "Same words in both answers", class_="kv-badge") if shown.is_finished and shown.is_same else None
    return tag(
        "section",
        tag("div", tag("h2", headline(shown)), play if shown.is_finished else None, class_="kv-demo-head"),
        tag("p", about, class_="kv-muted"),
        tag("p", shown.question, class_="kv-demo-question", translate="no"),
        tag("div", *(_render_lane(*each, longest, shown) for each in titled), class_="kv-demo-lanes"),
        badge,
        _render_passage(shown) if shown.marked else None,
        progress,
        tag("p", shown.source, class_="kv-demo-source"),
        class_="kv-demo",
        aria_label="Full prefill and CacheClip side by side",
    )


def _render_lane(title: tuple[str, str], lane: Lane, longest_ms: float, shown: Demonstration) -> Markup:
    name, note = title
    width = 100 * lane.ttft_ms / longest_ms if lane.ttft_ms and longest_ms else 0
    time, what = duration(lane.ttft_ms), "to the first token"
    if lane.ttft_ms is None:  # the clock of a running lane includes its whole answer
        time, what = ("0.00\u00a0s", "elapsed") if lane.is_running else ("waiting", "")
    tokens = f"{lane.recomputed_tokens:,} of {count(shown.context_tokens, 'token')} computed"
    return tag(
        "article",
        tag("h3", name, tag("small", note)),
        tag("div", tag("i", style=f"width:{width:.1f}%"), class_="kv-demo-lane-bar", aria_hidden="true"),
        tag("p", tag("strong", time, class_="kv-clock"), tag("small", f" {what}"), class_="kv-demo-lane-time"),
        tag("p", lane.answer, class_="kv-demo-lane-answer", dir="auto", translate="no"),
        tag("p", tokens, class_="kv-muted") if lane.ttft_ms is not None else None,
        class_="kv-demo-lane",
        data_ttft=lane.ttft_ms,
        data_running=lane.is_running,
    )


def _render_passage(shown: Demonstration) -> Markup:
    text = (tag("mark", piece) if is_recomputed else piece for piece, is_recomputed in shown.marked)
    caption = f"What was recomputed for this question, in the passage of {shown.document}"
    passage = tag("p", *text, class_="kv-passage", translate="no", tabindex=0, role="region", aria_label=caption)
    return tag("details", tag("summary", caption), passage, class_="kv-demo-passage", open=True)


class DemonstrationPanel:
    """The component with its buttons. Sessions share this object; `tasks` is the only per-session state."""

    def __init__(self, backend: Backend, samples: tuple[str, ...]) -> None:
        """Create the components inside the open Blocks; `samples` are the names of the sample documents."""
        self._backend = backend
        self._samples = samples
        self._recording = read_recording()
        self.tasks = SessionTasks()
        self._html = gr.HTML(render(self._recording), elem_id="demo", js_on_load="kvscopeDemo.connect(element);")
        with gr.Row(elem_id="demo-buttons"):
            self._live = gr.Button("Run it live here", size="sm", elem_id="demo-live", visible=bool(samples))
            self._stop = gr.Button("Stop", size="sm", elem_id="demo-stop", visible=False)
            gr.HTML(
                tag("button", "Add your documents", type="button", class_="kv-add-documents", data_add=True),
                js_on_load="kvscopeDemo.connect(element);",
            )
        self._live.click(self.run, None, [self._html, self._live, self._stop], **RUN_MODEL)
        self._stop.click(self.tasks.stop, None, None, **INSTANT)

    def run(self, request: gr.Request) -> Iterator[Update]:
        """Run both methods on this machine and stream what has ended; the recording comes back if it fails."""
        session = session_of(request)
        if (cancel := self.tasks.start(session)) is None:
            yield gr.skip()
            return
        shown = self._recording
        running: Update = {self._live: gr.Button(visible=False), self._stop: gr.Button(visible=True)}
        ended: Update = {self._live: gr.Button(visible=True), self._stop: gr.Button(visible=False)}
        try:
            method = default_method(local_methods(self._backend.methods())).label
            waiting = replace(shown, lanes=(Lane(), Lane()), method=method, source="", document="", marked=())
            yield {self._html: render(waiting, progress_line("Waiting for the model")), **running}
            while (status := self._backend.status()).adding_samples or not (status.ready or status.failed):
                yield {self._html: render(waiting, progress_line(f"First: {status.message}"))}
                if cancel.wait(_POLL_S):
                    break
            if status.failed:
                yield {self._html: render(shown, error_box(status.message)), **ended}
                return
            documents = tuple(each.id for each in self._backend.documents() if each.name in self._samples)
            if cancel.is_set() or len(documents) < len(self._samples):
                message = _STOPPED if cancel.is_set() else error_box(_NO_SAMPLES)
                yield {self._html: render(shown, message), **ended}
                return
            compared = demonstration_request(self._backend, shown.question, documents, repeats=1)
            for comparison in self._backend.compare(compared, cancel):
                shown = from_comparison(waiting, comparison)
                progress = None if comparison.is_finished else progress_line(_describe(comparison))
                if comparison.state == "stopped" and not shown.is_finished:
                    shown, progress = self._recording, _STOPPED
                yield {self._html: render(shown, progress)}
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            yield {self._html: render(self._recording, error_box(user_message(error)))}
        finally:
            self.tasks.finish(session, cancel)
        yield ended


def demonstration_request(backend: Backend, question: str, documents: tuple[str, ...], repeats: int) -> CompareRequest:
    """Return the comparison that is shown: full prefill and the default method, over documents given by their ids."""
    method = default_method(local_methods(backend.methods())).name
    return CompareRequest(question, (method,), (RATIO,), passages=PASSAGES, repeats=repeats, documents=documents)


def _describe(comparison: Comparison) -> str:
    if comparison.state == "running":
        return comparison.current_label
    return {"searching": "Searching", "warming": "Loading the KV of the passages"}.get(comparison.state, "Running")


def as_json(recorded: Demonstration) -> dict[str, Any]:
    """Return the content of the file that `read_recording` reads."""
    return json.loads(TypeAdapter(Demonstration).dump_json(recorded))
