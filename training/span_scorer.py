"""Train a pointer: layers over the search model's vectors that point at the words that answer a question.

A lesson is some passages and questions whose answers stand in them, word for word. Whatever an answer's words are found
at counts as right, the best place most: where they belong is not told.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.generation.span_scorer import Pieces, SpanScorer, SpanScorerNet, load_span_scorer, padded
from engine.model.encoder import PACKAGE, Encoder
from engine.prompt.template import Prompt
from training.data.corpus import Corpus
from training.data.examples import DataMix, TrainingExamples, judged_by, train_eval_split
from training.loop import Progress, TrainingConfig, train
from training.publish import REPORT

EVERY = 250  # lessons between two checkpoints


@dataclass(frozen=True)
class NetConfig:
    """size: of the layers"""

    size: int = 128


@dataclass(frozen=True)
class SpanScorerConfig:
    """How a pointer is made.

    judged  lessons of held-out paragraphs
    held    share of each file's paragraphs that is held out, its last ones
    """

    judged: int = 40
    seed: int = 0
    held: float = 0.05
    mix: DataMix = field(default_factory=lambda: DataMix(passages=4, tokens=800, questions=12, absent=0.0))
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(4000, 1.5e-3, 100, EVERY))
    net: NetConfig = field(default_factory=NetConfig)


class _Pointing:
    """The net, as training takes it."""

    def __init__(self, net: SpanScorerNet, config: NetConfig) -> None:
        self._net, self.config = net, config
        self.named: dict[str, nn.Parameter] = dict(net.named_parameters())

    @property
    def weights(self) -> dict[str, Tensor]:
        return {name: weight.detach() for name, weight in self._net.state_dict().items()}

    def load(self, weights: dict[str, Tensor]) -> None:
        self._net.load_state_dict(weights)

    @contextmanager
    def computing(self) -> Iterator[None]:
        yield


def train_span_scorer(
    encoder: Encoder,
    prompt: Prompt,
    materials: Sequence[Corpus],
    out: Path,
    config: SpanScorerConfig,
    progress: Progress,
) -> dict[str, Any]:
    """Train a pointer, judge it on held-out questions, and write it and its report into `out`.

    prompt  tells how long passages are, in tokens of a primary

    The report says how often the likeliest piece of all passages is part of the answer. Training goes on from the last
    checkpoint in `out`. Raises BadMaterial if there is too little, and BadCheckpoint or NotWritten.
    """
    torch.manual_seed(config.seed)
    taught, kept = train_eval_split(prompt, materials, config.mix, config.seed, config.held)
    by = judged_by(materials, config.mix, config.held, config.judged)
    out.mkdir(parents=True, exist_ok=True)
    data = json.loads(json.dumps([{**by, "lessons": None}, config.seed, asdict(config.mix)]))
    vocabulary = encoder.tokens.template.get_vocab_size()
    net = SpanScorerNet(encoder.width, len(encoder.layers), config.net.size, vocabulary)
    net.rarity += _rarity(encoder, materials)
    seconds = train(
        _Pointing(net, config.net),
        _loss_of(net, taught, _Reading(encoder), config.seed),
        config.training,
        out,
        data,
        progress,
    )
    SpanScorer(encoder, net).save(out)
    right = _right(load_span_scorer(out, encoder), kept, config.judged, progress)
    report = {
        "model": PACKAGE,
        "config": asdict(config),
        "judged_by": by,
        "seconds": seconds,
        "questions": len(right),
        "right": sum(right) / max(1, len(right)),
    }
    (out / REPORT).write_text(json.dumps(report, indent=1) + "\n")
    return report


class _Reading:
    """Texts as the encoder reads them, each once; vectors in fp16."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._held = encoder, dict[str, Pieces]()

    def __call__(self, text: str) -> Pieces:
        if text not in self._held:
            read = self._encoder.tokens.encode(text)
            self._held[text] = Pieces(read, self._encoder.vectors(read.ids).half())
        return self._held[text]


def _rarity(encoder: Encoder, materials: Sequence[Corpus]) -> Tensor:
    """Return how rare each word piece is among paragraphs, in nats."""
    counts, paragraphs = torch.zeros(encoder.tokens.template.get_vocab_size()), 0
    for material in materials:
        for paragraph in material.paragraphs:
            counts[list(set(encoder.tokens.encode(paragraph.text).ids))] += 1
            paragraphs += 1
    return torch.log(1 + paragraphs / (1 + counts))


def _loss_of(net: SpanScorerNet, lessons: TrainingExamples, reading: _Reading, seed: int) -> Callable[[int], Tensor]:
    """Return the loss of each lesson by its number: nats by which the answer's place is missed, a question."""

    def loss(number: int) -> Tensor:
        torch.manual_seed((seed << 32) + number)  # of dropout: a run that was cut off goes on as if it had not been
        texts, questions = lessons.told(number)
        passages, losses = [reading(text) for text in texts], [torch.zeros((), requires_grad=True)]
        wanted = [(reading(question), _places(passages, texts, answer)) for question, answer in questions]
        wanted = [(asked, places) for asked, places in wanted if asked.read.ids and places]
        if wanted:
            rows, asking = len(passages), [asked for asked, _ in wanted for _ in passages]
            logits = net(padded(passages * len(wanted)), padded(asking)).view(len(wanted), rows, -1)
            for row, (_, places) in zip(logits, wanted, strict=True):
                nats = row.flatten().log_softmax(0).view_as(row)
                found = torch.stack([nats[passage, pieces].mean() for passage, pieces in places])
                losses.append(math.log(len(found)) - found.logsumexp(0))
        return torch.stack(losses).sum() / max(1, len(wanted))

    return loss


def _places(passages: Sequence[Pieces], texts: Sequence[str], answer: str) -> list[tuple[int, list[int]]]:
    """Return where an answer stands as whole words: the number of a passage, and its pieces there."""
    found = []
    for number, (pieces, text) in enumerate(zip(passages, texts, strict=True)):
        for place in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE):
            spans = enumerate(pieces.read.spans)
            if read := [at for at, (start, end) in spans if start < place.end() and end > place.start()]:
                found.append((number, read))
    return found


def _right(pointer: SpanScorer, lessons: TrainingExamples, count: int, progress: Progress) -> list[bool]:
    """Return for each held-out question whether the likeliest piece of all passages is part of its answer."""
    reading, found = _Reading(pointer.encoder), list[bool]()
    for number in range(count):
        texts, questions = lessons.told(number)
        passages = [reading(text) for text in texts]
        for question, answer in questions:
            if places := _places(passages, texts, answer):
                likeliest = [pointed.nats == 0.0 for pointed in pointer.point(question, texts)]
                found.append(any(bool(likeliest[passage][pieces].any()) for passage, pieces in places))
        progress("Judging", number + 1, count, 0.0)
    return found


def merit(report: dict[str, Any]) -> float:
    """Return the share of questions that it points right for."""
    share: float = report["right"]
    return share
