"""Fit a selector: which heads of the auxiliary's first layers point at the tokens whose recomputing helps most.

Its score is a mixture of heads, times a factor for how far into its chunk a token stands; expectation maximisation fits
both to the cross-entropy with what helps most (engine.finetune.targets). Then the layers themselves can be taught to
ask better (engine.finetune.asking), and the mixture is fitted anew to what they learned.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from engine.finetune.adapter import Adapter, AdapterConfig
from engine.finetune.asking import loss_of
from engine.finetune.lessons import Lessons, Mix, judged_by, taught_and_held
from engine.finetune.material import BadMaterial, Material
from engine.finetune.shipping import REPORT
from engine.finetune.targets import Sample, agreement, samples
from engine.finetune.training import Progress, TrainingConfig, train
from engine.model.decoder import Decoder
from engine.model.first_layers import first_layers
from engine.prompt import Prompt
from engine.reuse.selector import OFFSETS, Selector, offset_of

ROUNDS = 60


@dataclass(frozen=True)
class SelectorConfig:
    """How a selector is made.

    layers    that scoring runs the question through
    lessons   passages read together, some questions each; `judged` of held-out paragraphs
    held      share of each file's paragraphs that is held out, its last ones
    teaching  of the layers themselves; None leaves them as they are
    """

    layers: int = 15
    lessons: int = 60
    judged: int = 20
    seed: int = 0
    held: float = 0.05
    mix: Mix = field(default_factory=lambda: Mix(questions=5, absent=0.0))
    teaching: TrainingConfig | None = None
    adapter: AdapterConfig = field(default_factory=AdapterConfig)


def fit(data: Sequence[Sample], layers: int, progress: Callable[[int], None] = lambda done: None) -> Selector:
    """Return the selector of the first `layers` that is likeliest to point where the targets are."""
    heads = data[0].attention.shape[1]
    weights, factors = torch.full((layers * heads,), 1 / (layers * heads)), torch.ones(OFFSETS)
    for number in range(ROUNDS):
        credit, said, wanted = torch.zeros_like(weights), torch.zeros(OFFSETS), torch.zeros(OFFSETS)
        for sample in data:
            behind = slice(sample.lengths[0], None)
            where = offset_of(sample.lengths)[behind]
            paid = sample.attention[:layers, :, behind].flatten(0, 1).float() * factors[where]
            paid /= paid.sum(-1, keepdim=True).clamp(min=1e-9)
            mixed, target = (weights @ paid).clamp(min=1e-9), sample.target[behind]
            credit += weights * (paid @ (target / mixed))
            said.index_add_(0, where, mixed)
            wanted.index_add_(0, where, target)
        weights = credit / credit.sum()
        factors = (factors * (wanted / said.clamp(min=1e-9)).clamp(0.2, 5.0).sqrt()).clamp(1e-3, 1e3)
        progress(number + 1)
    return Selector(weights.view(layers, heads), factors / factors[-1])


def finetune_selector(
    decoder: Decoder, materials: Sequence[Material], out: Path, config: SelectorConfig, progress: Progress
) -> dict[str, Any]:
    """Fit a selector for this model, judge it on held-out questions, and write it and its report into `out`.

    The report says which share of the target the windows chosen at 20 % hold, for the selector and for what it is
    compared with. Teaching goes on from the last checkpoint in `out`. Raises BadMaterial if there is too little, and
    BadCheckpoint or NotWritten.
    """
    if not 1 <= config.layers <= decoder.spec.layers:
        raise ValueError(f"layers must lie between 1 and {decoder.spec.layers}, got {config.layers}")
    torch.manual_seed(config.seed)
    prompt = Prompt(decoder.tokenizer)
    taught, held = taught_and_held(prompt, materials, config.mix, config.seed, config.held)
    by = judged_by(materials, config.mix, config.held, config.judged)
    out.mkdir(parents=True, exist_ok=True)
    learned = _collect(decoder, taught, config.lessons, "Reading", progress)
    judged = _collect(decoder, held, config.judged, "Reading what it is judged by", progress)
    selector = _fitted(learned, config.layers, progress)
    agreed = _agreement(judged, selector, config)
    if config.teaching is not None:
        agreed["selector, untaught"] = agreed["selector"]
        selector = _taught(decoder, selector, taught, config, config.teaching, out, by, progress)
        heard = _collect(decoder, held, config.judged, "Reading what it is judged by", progress, selector.asking)
        agreed["selector"] = agreement(heard, lambda one: selector.score(one.attention.float(), one.lengths))
    selector.save(out)
    report = {
        "model": decoder.name,
        "config": asdict(config),
        "judged_by": by,
        "questions": {"learned": len(learned), "judged": len(judged)},
        "agreement": agreed,
    }
    (out / REPORT).write_text(json.dumps(report, indent=1) + "\n")
    return report


def _taught(
    decoder: Decoder,
    selector: Selector,
    lessons: Lessons,
    config: SelectorConfig,
    teaching: TrainingConfig,
    out: Path,
    data: dict[str, Any],
    progress: Progress,
) -> Selector:
    """Teach the selector's layers to ask, write their adapter, and fit the selector anew to what they hear."""
    asking = first_layers(decoder, selector.layers)
    adapter = Adapter(asking, config.adapter)
    made = json.loads(json.dumps([data, config.seed, selector.layers]))
    train(adapter, loss_of(decoder, asking, selector, lessons), teaching, out, made, progress)
    adapter.save(out)
    asking = first_layers(decoder, selector.layers, out)
    learned = _collect(decoder, lessons, config.lessons, "Reading again", progress, asking)
    return replace(_fitted(learned, selector.layers, progress), asking=asking)


def _fitted(learned: Sequence[Sample], layers: int, progress: Progress) -> Selector:
    return fit(learned, layers, lambda done: progress("Fitting", done, ROUNDS, 0.0))


def _agreement(judged: Sequence[Sample], selector: Selector, config: SelectorConfig) -> dict[str, float]:
    draw = torch.Generator().manual_seed(config.seed)
    return {
        "target": agreement(judged, lambda one: one.target),
        "selector": agreement(judged, lambda one: selector.score(one.attention[: config.layers].float(), one.lengths)),
        "joint": agreement(judged, lambda one: one.attention.float().mean((0, 1))),
        "last layer": agreement(judged, lambda one: one.attention[-1].float().mean(0)),
        "random": agreement(judged, lambda one: torch.rand(len(one.target), generator=draw)),
    }


def _collect(
    decoder: Decoder, lessons: Lessons, count: int, said: str, progress: Progress, asking: Decoder | None = None
) -> list[Sample]:
    found = []
    for number in range(count):
        lesson = lessons[number]
        if len(lesson.passages) > 1:
            found += samples(decoder, lesson, asking)
        progress(said, number + 1, count, 0.0)
    if not found:
        raise BadMaterial("No lesson has two passages. Give more files, or larger ones.")
    return found


def merit(report: dict[str, Any]) -> float:
    """Return the share of the target that the selector's windows hold."""
    share: float = report["agreement"]["selector"]
    return share
