"""How well a reader answers held-out lessons, read in one, apart, and apart with windows computed again.

An answer counts as right if every token of it is the likeliest one: then greedy decoding writes exactly this answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from engine.model.decoder import Decoder
from training.data.examples import TrainingExamples
from training.data.packed import PackedExample, answer_logits


@dataclass(frozen=True)
class Evaluation:
    """loss: nats a token; exact: share of answers written word for word; over n questions."""

    loss: float
    exact: float
    n: int


@torch.no_grad()
def evaluate(
    decoder: Decoder, lessons: TrainingExamples, count: int, progress: Callable[[int], None] = lambda done: None
) -> dict[str, Evaluation]:
    """Judge the first `count` lessons in three ways of reading them."""
    found: dict[str, list[tuple[float, float, int]]] = {}
    for number in range(count):
        lesson = lessons[number]
        for name, read in _ways(lesson, lessons).items():
            found.setdefault(name, []).append(_judged(decoder, read))
        progress(number + 1)
    return {name: _summed(parts) for name, parts in found.items()}


def _ways(lesson: PackedExample, lessons: TrainingExamples) -> dict[str, PackedExample]:
    return {
        "full prefill": replace(lesson, apart=False, fresh=()),
        "direct reuse": replace(lesson, apart=True, fresh=()),
        "random windows": replace(lesson, apart=True, fresh=lessons.windows(lesson, 0.2)),
    }


def _judged(decoder: Decoder, lesson: PackedExample) -> tuple[float, float, int]:
    logits, targets = answer_logits(decoder, lesson)
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    right = (logits.argmax(-1) == targets).split([len(answer) for _, answer in lesson.questions])
    return float(losses.mean()), float(sum(part.all() for part in right)), len(right)


def _summed(parts: Sequence[tuple[float, float, int]]) -> Evaluation:
    n = sum(count for _, _, count in parts)
    return Evaluation(sum(loss * count for loss, _, count in parts) / n, sum(right for _, right, _ in parts) / n, n)
