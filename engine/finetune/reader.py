"""Finetune a reader: a LoRA adapter that answers shortly from several passages, also when their KV was reused.

A part of the contexts is read in one, as full prefill reads them; the others as reuse does, each passage blind to the
others, half of those with some windows computed again. So a model learns to answer from chunk KV, as in Block-Attention
(arXiv:2409.15355), TurboRAG (arXiv:2410.07590) and KVLink (arXiv:2502.16002).
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.errors import UnsupportedModel
from engine.finetune.adapter import Adapter, AdapterConfig
from engine.finetune.judging import judge
from engine.finetune.lessons import Lessons, Mix, taught_and_held
from engine.finetune.material import Material, described
from engine.finetune.shipping import REPORT
from engine.finetune.training import Progress, TrainingConfig, train
from engine.model.decoder import Decoder
from engine.prompt import Prompt

BESIDE = 256  # tokens of prefix, question and answer, beside a lesson's passages


@dataclass(frozen=True)
class ReaderConfig:
    """How a reader is made.

    judged  lessons of held-out paragraphs that are judged before and after
    held    share of each file's paragraphs that is held out, its last ones
    """

    adapter: AdapterConfig = field(default_factory=AdapterConfig)
    mix: Mix = field(default_factory=Mix)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    seed: int = 0
    judged: int = 40
    held: float = 0.05


def finetune(
    decoder: Decoder, materials: Sequence[Material], out: Path, config: ReaderConfig, progress: Progress
) -> dict[str, Any]:
    """Train, judge, and write adapter and report into `out`; return the report.

    Goes on from the last checkpoint in `out`. The report says, for each way of reading held-out lessons, what loss and
    which share of exact answers there was before and after.

    Raises BadMaterial if there is too little, UnsupportedModel if lessons or adapter do not fit the model, and
    BadCheckpoint or NotWritten.
    """
    torch.manual_seed(config.seed)
    torch.set_flush_denormal(True)  # tiny gradients would make a CPU several times slower
    _check(decoder, config)
    lessons, held = taught_and_held(Prompt(decoder.tokenizer), materials, config.mix, config.seed, config.held)
    out.mkdir(parents=True, exist_ok=True)
    adapter = Adapter(decoder, config.adapter)
    data = json.loads(json.dumps([described(materials), config.seed, config.judged, config.held, asdict(config.mix)]))
    before = _before(out, decoder, adapter, held, config, progress)
    seconds = train(decoder, adapter, lessons, config.training, out, data, progress)
    after = _judged("Judging", decoder, adapter, held, config, progress)
    report = {
        "model": decoder.name,
        "config": asdict(config),
        "judged_by": data,
        "training_minutes": round(seconds / 60, 1),
        "before": before,
        "after": after,
    }
    adapter.save(out)
    (out / REPORT).write_text(json.dumps(report, indent=1) + "\n")
    return report


def _check(decoder: Decoder, config: ReaderConfig) -> None:
    room, wanted = decoder.spec.max_positions, config.mix.tokens + BESIDE
    if wanted > room:
        raise UnsupportedModel(f"{decoder.name} reads {room} tokens, but a lesson may have {wanted}; lower --tokens.")


def _before(
    out: Path, decoder: Decoder, adapter: Adapter, held: Lessons, config: ReaderConfig, progress: Progress
) -> dict[str, Any]:
    """Judge the model as it comes, once: a run that goes on finds it written down."""
    path = out / "before.json"
    if not path.exists():
        path.write_text(json.dumps(_judged("Judging the model as it comes", decoder, adapter, held, config, progress)))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _judged(
    said: str, decoder: Decoder, adapter: Adapter, held: Lessons, config: ReaderConfig, progress: Progress
) -> dict[str, Any]:
    with adapter.computing():
        found = judge(decoder, held, config.judged, lambda done: progress(said, done, config.judged, 0.0))
    return {name: asdict(one) for name, one in found.items()}


def merit(report: dict[str, Any]) -> float:
    """Return the share of exact answers after training, summed over the ways of reading."""
    return sum(one["exact"] for one in report["after"].values())
