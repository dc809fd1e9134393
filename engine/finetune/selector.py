"""Fit a selector: which heads of the auxiliary's first layers point at the tokens whose recomputing helps most.

What helps most, per context token: the attention that the question pays to it in a full prefill, times how far its
cached value lies from the full prefill's, summed over the layers. That is, to first order, how far the question's own
hidden states move when the token is left as it is. The selector's score is a mixture of heads, times a factor for how
far into its chunk a token stands; expectation maximisation fits both to the cross-entropy with that target.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.finetune.lessons import Lessons, Mix, judged_by, taught_and_held
from engine.finetune.material import BadMaterial, Material
from engine.finetune.packed import Lesson
from engine.finetune.shipping import REPORT
from engine.finetune.training import Progress
from engine.model.buffer import KVBuffer, Watched
from engine.model.decoder import Decoder
from engine.prompt import ASKED_TOKENS, Prompt
from engine.reuse.assemble import assemble
from engine.reuse.chunks import prefill_chunk
from engine.reuse.selector import FILE, OFFSETS, Selector, offset_of, shares
from engine.reuse.windows import budgeted
from engine.types import ChunkKV

ROUNDS = 60


@dataclass(frozen=True)
class SelectorConfig:
    """How a selector is made.

    layers   that scoring runs the question through
    lessons  passages read together, some questions each; `judged` of held-out paragraphs
    held     share of each file's paragraphs that is held out, its last ones
    """

    layers: int = 15
    lessons: int = 60
    judged: int = 20
    seed: int = 0
    held: float = 0.05
    mix: Mix = field(default_factory=lambda: Mix(questions=5, absent=0.0))


@dataclass(frozen=True)
class Sample:
    """One question over assembled chunks.

    attention  [L, query heads, T] in fp16, what each head pays to the context; each row sums to 1
    target     [T], sums to 1; nothing for the first chunk, which is exact
    lengths    tokens of each chunk
    """

    attention: Tensor
    target: Tensor
    lengths: tuple[int, ...]


@torch.inference_mode()
def samples(decoder: Decoder, lesson: Lesson) -> list[Sample]:
    """Return one sample for each question of a lesson of two passages or more."""
    start, context = len(lesson.prefix), torch.tensor(lesson.context)
    whole = decoder.buffer(len(context) + ASKED_TOKENS)
    decoder.prefill(context, whole, torch.arange(len(context)))
    prefix = ChunkKV(whole.keys[:, :, :start], whole.values[:, :, :start], 0)
    chunks = [prefill_chunk(decoder, prefix, ids) for ids in lesson.passages]
    joined = decoder.buffer(whole.capacity)
    assemble(joined, prefix, chunks, decoder.spec.inv_freq)
    moved = (whole.values - joined.values)[:, :, start : len(context)].float().norm(dim=-1).mean(1)  # [L, T]
    moved /= whole.values[:, :, start : len(context)].float().norm(dim=-1).mean((1, 2))[:, None]
    moved[:, : len(lesson.passages[0])] = 0.0
    lengths, found = tuple(map(len, lesson.passages)), []
    for question, _ in lesson.questions:
        asked = torch.tensor(question[-ASKED_TOKENS:])
        helps = (_watched(decoder, whole, asked, len(context)).mean(1)[:, start:] * moved).sum(0)
        paid = shares(_watched(decoder, joined, asked, len(context))[:, :, start:])
        if helps.sum() > 0:
            found.append(Sample(paid.half(), helps / helps.sum(), lengths))
    return found


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
    compared with. Raises BadMaterial if there is too little.
    """
    if not 1 <= config.layers <= decoder.spec.layers:
        raise ValueError(f"layers must lie between 1 and {decoder.spec.layers}, got {config.layers}")
    prompt = Prompt(decoder.tokenizer)
    taught, held = taught_and_held(prompt, materials, config.mix, config.seed, config.held)
    learned = _collect(decoder, taught, config.lessons, "Reading", progress)
    judged = _collect(decoder, held, config.judged, "Reading what it is judged by", progress)
    selector = fit(learned, config.layers, lambda done: progress("Fitting", done, ROUNDS, 0.0))
    out.mkdir(parents=True, exist_ok=True)
    selector.save(out / FILE)
    draw = torch.Generator().manual_seed(config.seed)
    report = {
        "model": decoder.name,
        "config": asdict(config),
        "judged_by": judged_by(materials, config.mix, config.held, config.judged),
        "questions": {"learned": len(learned), "judged": len(judged)},
        "agreement": {
            "target": agreement(judged, lambda one: one.target),
            "selector": agreement(
                judged, lambda one: selector.score(one.attention[: config.layers].float(), one.lengths)
            ),
            "joint": agreement(judged, lambda one: one.attention.float().mean((0, 1))),
            "last layer": agreement(judged, lambda one: one.attention[-1].float().mean(0)),
            "random": agreement(judged, lambda one: torch.rand(len(one.target), generator=draw)),
        },
    }
    (out / REPORT).write_text(json.dumps(report, indent=1) + "\n")
    return report


def _collect(decoder: Decoder, lessons: Lessons, count: int, said: str, progress: Progress) -> list[Sample]:
    found = []
    for number in range(count):
        lesson = lessons[number]
        if len(lesson.passages) > 1:
            found += samples(decoder, lesson)
        progress(said, number + 1, count, 0.0)
    if not found:
        raise BadMaterial("No lesson has two passages. Give more files, or larger ones.")
    return found


def agreement(data: Sequence[Sample], score: Callable[[Sample], Tensor], ratio: float = 0.2) -> float:
    """Return the share of the target that the windows with the best scores hold at this ratio, mean over samples."""
    held = []
    for sample in data:
        chosen = budgeted(score(sample), list(sample.lengths), ratio, exact=1)
        held.append(float(sample.target[chosen].sum()))
    return sum(held) / len(held)


def _watched(decoder: Decoder, buffer: KVBuffer, asked: Tensor, context: int) -> Tensor:
    """Return the attention that a question behind the context pays to it, [L, query heads, context]."""
    rows = torch.arange(context, context + len(asked))
    watched = Watched(buffer, rows, len(rows))
    decoder.forward(asked[None], rows[None], watched)
    return watched.attention[:, :, :context]


def merit(report: dict[str, Any]) -> float:
    """Return the share of the target that the selector's windows hold."""
    share: float = report["agreement"]["selector"]
    return share
