"""Measure how faithful reuse is on the loaded model: built-in questions at a grid of recompute ratios.

The questions are about the sample documents (assets/calibration.json), eight passages each, best first as in the app.
Every question runs as in the Lab's comparison: full prefill first, then the method at each ratio, all with chunk KV in
memory and without grounded decoding. The results of a question are stored as soon as it is finished, so an interrupted
calibration continues where it stopped.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event

from assets import ASSETS
from engine.analysis.agreement import ANSWER_KL_TOKENS
from engine.analysis.comparison import CompareRequest, Outcome
from engine.analysis.comparison_runner import compare
from engine.builder import Models, build_engine
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.fidelity import CALIBRATED_PASSAGES, RATIOS, FidelityCurve, FidelitySample, fidelity_curve
from engine.prompt.text_finder import TextFinder
from engine.scheduler.scheduler import Scheduler
from store.atomic import write_atomic

QUESTIONS_FILE = ASSETS / "calibration.json"
ANSWER_TOKENS = ANSWER_KL_TOKENS  # no more are compared
CACHE_BYTES = 2**29  # for the KV of the built-in passages; dropped afterwards
log = logging.getLogger(__name__)


@dataclass
class Calibration:
    """The samples measured so far for one method on one model; kept in a file unless `path` is None."""

    method: str
    path: Path | None = None

    def __post_init__(self) -> None:
        questions = json.loads(QUESTIONS_FILE.read_text(encoding="utf-8"))
        self.passages: list[str] = questions["passages"]
        self.questions: list[str] = questions["questions"]
        self.samples: dict[str, list[FidelitySample]] = {}  # by question, for each of RATIOS
        if self.path is not None:
            with suppress(OSError, ValueError, KeyError, TypeError):
                self.samples = self._read(self.path)

    @property
    def remaining(self) -> list[str]:
        """The questions that have not been measured."""
        return [question for question in self.questions if question not in self.samples]

    def curve(self) -> FidelityCurve | None:
        """Return the fidelity by ratio; None while too few questions have been measured."""
        return fidelity_curve(self.method, list(self.samples.values()))

    def add(self, question: str, samples: list[FidelitySample]) -> None:
        """Keep the samples of a question and store them; log a warning if the disk cannot be written."""
        self.samples[question] = samples
        if self.path is None:
            return
        rows = {text: [asdict(sample) for sample in each] for text, each in self.samples.items()}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.path, (json.dumps({"method": self.method, "questions": rows}, indent=1) + "\n").encode())
        except OSError as error:
            log.warning("the fidelity calibration could not be saved: %s", error)

    def _read(self, path: Path) -> dict[str, list[FidelitySample]]:
        """Return the stored samples of present questions at the present ratios; nothing of another method."""
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["method"] != self.method:
            return {}
        rows = {text: stored["questions"].get(text, []) for text in self.questions}
        samples = {text: [FidelitySample(**row) for row in each] for text, each in rows.items()}
        return {text: each for text, each in samples.items() if tuple(sample.ratio for sample in each) == RATIOS}


def calibration_engine(models: Models, passages: Sequence[str], scheduler: Scheduler | None = None) -> Engine:
    """Return an engine over the built-in passages with a cache of its own; it takes turns with `scheduler`'s engine."""
    tiers = CacheHierarchy(CacheHierarchyConfig(host_bytes=CACHE_BYTES, disk_bytes=0), None, models.primary.device)
    models = replace(models, grounding=None)
    return build_engine(models, lambda tokenizer: TextFinder(passages), tiers, scheduler=scheduler)


def calibrate(engine: Engine, calibration: Calibration, cancel: Event) -> Iterator[Calibration]:
    """Measure the remaining questions, yielding after each; ends early, without error, once `cancel` is set."""
    for question in calibration.remaining:
        request = CompareRequest(
            question, (calibration.method,), RATIOS, passages=CALIBRATED_PASSAGES, max_new_tokens=ANSWER_TOKENS
        )
        *_, comparison = compare(engine, request, cancel)
        if comparison.state != "done":
            return
        calibration.add(question, [_sample(outcome) for outcome in comparison.outcomes[1:]])
        yield calibration


def _sample(outcome: Outcome) -> FidelitySample:
    assert outcome.ratio is not None
    return FidelitySample(outcome.ratio, outcome.answer_kl, outcome.answer_top1, outcome.ttft_ms, outcome.full_ms)
