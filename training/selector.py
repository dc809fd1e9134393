"""Train a selector: heads over the search model's vectors that point at the tokens whose recomputing helps most.

First every lesson is read by the primary, which tells what helps (training.targets), and that takes the time.
Then the heads learn to point there, by cross-entropy, in a minute: the vectors they see are made once.
"""

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from engine.kv import fingerprint
from engine.model.decoder import Decoder
from engine.model.encoder import Encoder
from engine.prompt.template import Prompt
from engine.scoring.trained_selector import SelectorHead, TokenSelector, vectors_asked, vectors_of
from training.data.corpus import Corpus
from training.data.examples import DataMix, TrainingExamples, fits, judged_by, train_eval_split
from training.loop import Progress, TrainingConfig, train
from training.publish import REPORT
from training.targets import Target, Wanted, held, wanted_by

EVERY = 500  # steps between two checkpoints


@dataclass(frozen=True)
class HeadsConfig:
    """heads, size: of queries and keys"""

    heads: int = 8
    size: int = 32


@dataclass(frozen=True)
class SelectorConfig:
    """How a selector is made.

    lessons  passages read together, some questions each; `judged` of held-out paragraphs
    rounds   through the lessons, in another order each
    held     share of each file's paragraphs that is held out, its last ones
    """

    lessons: int = 1000
    judged: int = 20
    rounds: int = 6
    rate: float = 3e-3
    seed: int = 0
    held: float = 0.05
    mix: DataMix = field(default_factory=lambda: DataMix(questions=5, absent=0.0, records=0.25))
    heads: HeadsConfig = field(default_factory=HeadsConfig)


@dataclass(frozen=True)
class Read:
    """A lesson as the heads see it.

    vectors  [T, width] in fp16, the encoder's for each of the primary's tokens
    lengths  tokens of each passage, T in sum
    asked    [Q, width] in fp16, of each question that wants something
    helps    [T], what each of them wants
    """

    vectors: Tensor
    lengths: list[int]
    asked: list[Tensor]
    helps: list[Tensor]


class _Pointing:
    """The heads, as training takes them."""

    def __init__(self, heads: SelectorHead, config: HeadsConfig) -> None:
        self._heads, self.config = heads, config
        self.named: dict[str, nn.Parameter] = dict(heads.named_parameters())

    @property
    def weights(self) -> dict[str, Tensor]:
        return {name: weight.detach() for name, weight in self.named.items()}

    def load(self, weights: dict[str, Tensor]) -> None:
        self._heads.load_state_dict(weights)

    @contextmanager
    def computing(self) -> Iterator[None]:
        yield


def train_selector(
    decoder: Decoder,
    encoder: Encoder,
    materials: Sequence[Corpus],
    out: Path,
    config: SelectorConfig,
    progress: Progress,
) -> dict[str, Any]:
    """Train a selector for this model, judge it on held-out questions, and write it and its report into `out`.

    The report says which share of what helps the windows chosen at 20 % hold, for the selector and for what it is
    compared with. Reading and training go on from the last checkpoints in `out`. Raises BadMaterial if there is too
    little, and BadCheckpoint or NotWritten.
    """
    torch.manual_seed(config.seed)
    prompt = Prompt(decoder.tokenizer)
    taught, kept = train_eval_split(prompt, materials, config.mix, config.seed, config.held)
    fits(decoder, config.mix)
    by = {
        "model": fingerprint.model_fingerprint(decoder),
        **judged_by(materials, config.mix, config.held, config.judged),
    }
    out.mkdir(parents=True, exist_ok=True)
    data = json.loads(json.dumps([{**by, "lessons": None}, config.seed, asdict(config.mix)]))
    found = wanted_by(decoder, taught, config.lessons, out / "read", data, progress)
    lessons = []
    for number, wanted in found.items():
        lessons.append(_read(encoder, prompt, taught, number, wanted))
        progress("Encoding", number + 1, config.lessons, 0.0)
    heads = SelectorHead(encoder.width, **asdict(config.heads))
    training = TrainingConfig(lessons=config.rounds * len(lessons), rate=config.rate, every=EVERY)
    train(_Pointing(heads, config.heads), _loss_of(heads, lessons, config.seed), training, out, data, progress)
    selector = TokenSelector(encoder, heads)
    selector.save(out)
    judged = wanted_by(decoder, kept, config.judged, None, data, progress)
    report = {
        "model": decoder.name,
        "config": asdict(config),
        "judged_by": by,
        "questions": {"learned": sum(len(read.helps) for read in lessons), "judged": _questions(judged)},
        "agreement": _agreement(selector, prompt, kept, judged, config.seed),
    }
    (out / REPORT).write_text(json.dumps(report, indent=1) + "\n")
    return report


def _read(
    encoder: Encoder, prompt: Prompt, lessons: TrainingExamples, number: int, wanted: Sequence[Target | None]
) -> Read:
    texts, questions = lessons.told(number)
    passages = [prompt.passage(text) for text in texts]
    vectors = [vectors_of(encoder, text, passage) for text, passage in zip(texts, passages, strict=True)]
    asked = [vectors_asked(encoder, question).half() for question, _ in questions]
    pairs = [(each, one) for each, one in zip(asked, wanted, strict=True) if one is not None]
    return Read(
        torch.cat(vectors).half(),
        [len(passage.ids) for passage in passages],
        [vector for vector, _ in pairs],
        [one.helps for _, one in pairs],
    )


def _loss_of(heads: SelectorHead, lessons: Sequence[Read], seed: int) -> Callable[[int], Tensor]:
    """Return the loss of each step by its number: mean cross-entropy with what helps, in nats."""

    def loss(number: int) -> Tensor:
        turn, place = divmod(number, len(lessons))
        order = Random(f"{seed} {turn}").sample(range(len(lessons)), len(lessons))
        read = lessons[order[place]]
        keys, behind, losses = heads.key(read.vectors.float()), slice(read.lengths[0], None), []
        for asked, helps in zip(read.asked, read.helps, strict=True):
            score = heads(asked.float(), keys, read.lengths)[behind]
            losses.append(-(helps[behind].float() * score.clamp(min=1e-9).log()).sum())
        return torch.stack(losses).mean()

    return loss


def _agreement(
    selector: TokenSelector, prompt: Prompt, lessons: TrainingExamples, found: Wanted, seed: int
) -> dict[str, float]:
    """Return the mean share of what helps that the windows chosen by each way of scoring hold."""
    draw, shares = torch.Generator().manual_seed(seed), dict[str, list[float]]()
    for number, wanted in found.items():
        texts, questions = lessons.told(number)
        passages = [prompt.passage(text) for text in texts]
        lengths = [len(passage.ids) for passage in passages]
        for (question, _), one in zip(questions, wanted, strict=True):
            if one is not None:
                scores = {
                    "target": one.helps,
                    "selector": selector.score(question, texts, passages),
                    **one.others,
                    "random": torch.rand(len(one.helps), generator=draw),
                }
                for name, score in scores.items():
                    shares.setdefault(name, []).append(held(one.helps, score, lengths))
    return {name: statistics.fmean(each) for name, each in shares.items()}


def _questions(found: Wanted) -> int:
    return sum(one is not None for wanted in found.values() for one in wanted)


def merit(report: dict[str, Any]) -> float:
    """Return the share of what helps that the selector's windows hold."""
    share: float = report["agreement"]["selector"]
    return share
