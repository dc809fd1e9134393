"""Finetune a reader: a LoRA adapter that answers shortly from several passages, also when their KV was reused.

A part of the contexts is read in one, as full prefill reads them; the others as reuse does, each passage blind to the
others, half of those with some windows computed again. So a model learns to answer from chunk KV, as in Block-Attention
(arXiv:2409.15355), TurboRAG (arXiv:2410.07590) and KVLink (arXiv:2502.16002).
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from engine.errors import UnsupportedModel
from engine.finetune.adapter import FILES, Adapter, AdapterConfig
from engine.finetune.cloze import with_questions
from engine.finetune.judging import judge
from engine.finetune.lessons import Lessons, Mix, held_out
from engine.finetune.material import BadMaterial, Material
from engine.finetune.training import TrainingConfig, train
from engine.model.decoder import Decoder
from engine.prompt import Prompt

LEAST = 24  # questions, to learn anything and to judge it
BESIDE = 256  # tokens of prefix, question and answer, beside a lesson's passages
REPORT = "report.json"

Progress = Callable[[str, int, int, float], None]  # what is being done, lessons done, of how many, mean loss


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
    lessons, held = _lessons(Prompt(decoder.tokenizer), materials, config)
    out.mkdir(parents=True, exist_ok=True)
    adapter = Adapter(decoder, config.adapter)
    before = _before(out, decoder, adapter, held, config, progress)

    def said(lesson: int, loss: float) -> None:
        progress("Training", lesson, config.training.lessons, loss)

    seconds = train(decoder, adapter, lessons, config.training, out, said)
    after = _judged("Judging", decoder, adapter, held, config, progress)
    report = {
        "model": decoder.name,
        "config": asdict(config),
        "materials": {m.name: {"paragraphs": len(m.paragraphs), "questions": m.questions} for m in materials},
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


def ship(out: Path, target: Path) -> bool:
    """Copy a finished adapter and its report to `target` if it is better than what lies there; return whether it was.

    Better: a larger share of exact answers in the mean over the ways of reading. Raises BadMaterial if the two were
    judged by different questions, so that nobody can say.
    """
    new = json.loads((out / REPORT).read_text())
    if (target / REPORT).exists():
        old = json.loads((target / REPORT).read_text())
        if _judged_by(old) != _judged_by(new):
            raise BadMaterial(f"The adapter in {target} was judged by other questions; delete it to replace it.")
        if _right(old) >= _right(new):
            return False
    target.mkdir(parents=True, exist_ok=True)
    for name in (*FILES, REPORT):
        shutil.copy(out / name, target / name)
    return True


def _lessons(prompt: Prompt, materials: Sequence[Material], config: ReaderConfig) -> tuple[Lessons, Lessons]:
    fillers = [paragraph for m in materials if not m.questions for paragraph in m.paragraphs]
    taught = [m for m in materials if m.questions] or [with_questions(m, config.seed) for m in materials]
    kept, held = held_out(taught, config.held)
    if min(sum(m.questions for m in part) for part in (kept, held)) < (LEAST if config.judged else 1):
        raise BadMaterial(
            f"There are too few questions: {sum(m.questions for m in kept)} to learn from and "
            f"{sum(m.questions for m in held)} to judge by; {LEAST} of each are needed. Give more files."
        )
    usual = replace(config.mix, records=0.0)
    return (
        Lessons(prompt, kept, fillers, config.mix, config.seed),
        Lessons(prompt, [m for m in held if m.questions], fillers, usual, config.seed),
    )


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


def _judged_by(report: dict[str, Any]) -> list[Any]:
    config = report["config"]
    return [report["materials"], config["seed"], config["judged"], config["held"], config["mix"]]


def _right(report: dict[str, Any]) -> float:
    return sum(one["exact"] for one in report["after"].values())
