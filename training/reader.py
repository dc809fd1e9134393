"""Finetune a reader: a LoRA adapter that answers shortly from several passages, also when their KV was reused.

A part of the contexts is read in one, as full prefill reads them; the others as reuse does, each passage blind to the
others, half of those with some windows computed again. So a model learns to answer from chunk KV, as in Block-Attention
(arXiv:2409.15355), TurboRAG (arXiv:2410.07590) and KVLink (arXiv:2502.16002).
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.loading.lora import WEIGHTS
from engine.prompt.template import Prompt
from training.data.corpus import Corpus
from training.data.examples import DataMix, TrainingExamples, fits, judged_by, train_eval_split
from training.data.packed import answer_loss
from training.evaluate import evaluate
from training.loop import Progress, TrainingConfig, train
from training.lora import Adapter, AdapterConfig
from training.publish import REPORT


@dataclass(frozen=True)
class ReaderConfig:
    """How a reader is made.

    judged  lessons of held-out paragraphs that are judged before and after
    held    share of each file's paragraphs that is held out, its last ones
    """

    adapter: AdapterConfig = field(default_factory=AdapterConfig)
    mix: DataMix = field(default_factory=DataMix)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    seed: int = 0
    judged: int = 40
    held: float = 0.05


def train_reader(
    decoder: Decoder,
    materials: Sequence[Corpus],
    out: Path,
    config: ReaderConfig,
    progress: Progress,
    start: Path | None = None,
) -> dict[str, Any]:
    """Train, judge, and write adapter and report into `out`; return the report.

    start  a finished adapter whose weights training begins with; its report becomes a part of this one

    Goes on from the last checkpoint in `out`. The report says, for each way of reading held-out lessons, what loss and
    which share of exact answers there was before and after.

    Raises BadMaterial if there is too little, UnsupportedModel if lessons or adapter do not fit the model, and
    BadCheckpoint or NotWritten.
    """
    torch.manual_seed(config.seed)
    fits(decoder, config.mix)
    lessons, held = train_eval_split(Prompt(decoder.tokenizer), materials, config.mix, config.seed, config.held)
    out.mkdir(parents=True, exist_ok=True)
    adapter = Adapter(decoder, config.adapter)
    by = judged_by(materials, config.mix, config.held, config.judged)
    before = _before(out, by, lambda said: judged(said, decoder, adapter, held, config, progress))
    begun = _begin(adapter, start)

    def loss_of(number: int) -> Tensor:
        return answer_loss(decoder, lessons[number])

    seconds = train(adapter, loss_of, config.training, out, _data(config, by, begun), progress)
    after = judged("Judging", decoder, adapter, held, config, progress)
    report = {
        "model": decoder.name,
        "config": asdict(config),
        "judged_by": by,
        "started_from": begun,
        "training_minutes": round(seconds / 60, 1),
        "before": before,
        "after": after,
    }
    adapter.save(out)
    (out / REPORT).write_text(json.dumps(report, indent=1) + "\n")
    return report


def _begin(adapter: Adapter, start: Path | None) -> dict[str, Any] | None:
    if start is None:
        return None
    adapter.start_from(start)
    return origin(start)


def origin(folder: Path) -> dict[str, Any]:
    """Return what a finished adapter's report says of it, with its checksum."""
    report = json.loads((folder / REPORT).read_text()) if (folder / REPORT).exists() else {}
    kept = {name: report.get(name) for name in ("config", "training_minutes", "after", "started_from")}
    with (folder / WEIGHTS).open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), **kept}


def _data(config: ReaderConfig, by: dict[str, Any], begun: dict[str, Any] | None) -> Any:
    """Return what the lessons are drawn from, as JSON gives it back."""
    return json.loads(json.dumps([by, config.seed, asdict(config.mix), begun]))


def _before(out: Path, by: dict[str, Any], judged: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Judge the model as it comes, once: a run that goes on finds it written down, if it is judged by the same."""
    path = out / "before.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        held = json.loads(path.read_text())
        if held["judged_by"] == by:
            found: dict[str, Any] = held["before"]
            return found
    before = judged("Judging the model as it comes")
    path.write_text(json.dumps({"judged_by": by, "before": before}) + "\n")
    return before


def judged(
    said: str, decoder: Decoder, adapter: Adapter, held: TrainingExamples, config: ReaderConfig, progress: Progress
) -> dict[str, Any]:
    """Return what `judge` finds with the adapter, as JSON holds it."""
    with adapter.computing():
        found = evaluate(decoder, held, config.judged, lambda done: progress(said, done, config.judged, 0.0))
    return {name: asdict(one) for name, one in found.items()}


def merit(report: dict[str, Any]) -> float:
    """Return the share of exact answers after training, summed over the ways of reading."""
    return sum(one["exact"] for one in report["after"].values())
