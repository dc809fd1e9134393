"""Evaluate a reader on held-out examples with full prefill, direct reuse, and reuse with random windows recomputed.

An answer is exact if each of its tokens is the most likely one: greedy decoding then generates exactly this answer.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from engine.model.decoder import Decoder
from training.data.examples import TrainingExamples
from training.data.packed import PackedExample, answer_logits

RANDOM_WINDOW_FRACTION = 0.2


@dataclass(frozen=True)
class Evaluation:
    """loss: nats per token; exact: fraction of answers generated exactly; n: number of questions."""

    loss: float
    exact: float
    n: int


@torch.no_grad()
def evaluate(
    decoder: Decoder, examples: TrainingExamples, count: int, progress: Callable[[int], None] = lambda done: None
) -> dict[str, Evaluation]:
    """Evaluate the first `count` examples with each way of prefilling."""
    parts: dict[str, list[tuple[float, int, int]]] = {}
    for index in range(count):
        example = examples[index]
        windows = examples.random_windows(example, RANDOM_WINDOW_FRACTION)
        variants = {
            "full prefill": replace(example, is_independent=False, recomputed=()),
            "direct reuse": replace(example, is_independent=True, recomputed=()),
            "random windows": replace(example, is_independent=True, recomputed=windows),
        }
        for name, variant in variants.items():
            parts.setdefault(name, []).append(_evaluate_example(decoder, variant))
        progress(index + 1)
    return {name: _mean(results) for name, results in parts.items()}


def _evaluate_example(decoder: Decoder, example: PackedExample) -> tuple[float, int, int]:
    """Return the mean loss per token, the number of exact answers and the number of questions."""
    logits, targets = answer_logits(decoder, example)
    loss = torch.nn.functional.cross_entropy(logits, targets)
    answers = (logits.argmax(-1) == targets).split([len(answer) for _, answer in example.questions])
    return float(loss), sum(bool(answer.all()) for answer in answers), len(answers)


def _mean(results: list[tuple[float, int, int]]) -> Evaluation:
    n = sum(questions for _, _, questions in results)
    loss = sum(loss * questions for loss, _, questions in results) / n
    return Evaluation(loss, sum(exact for _, exact, _ in results) / n, n)
