"""Finetune a span scorer: all-MiniLM-L6-v2 learns to mark the start and the end of the answer in passages.

An example is some passages and questions whose answers occur in them verbatim, or which they do not answer. Every
occurrence of an answer counts as correct, because the data does not say which one is meant: the loss is the negative
log-likelihood of any of them, and of the sentences, list items and table rows that hold them, which are quoted. A
question is read with the passages of its answer and two more, which search finds for it where the corpus is about one
subject; the scores of a passage do not depend on the others.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from engine.generation.span_scorer import SpanScorer, Window, normalize
from engine.generation.verdict import VERDICT
from engine.lru import LRUCache
from engine.model.encoder import PACKAGE
from engine.prompt.template import NO_ANSWER, PromptTemplate
from engine.prompt.units import split_units
from engine.text import split_sentences
from store.types import Embedder
from training.data.corpus import Corpus, answer_pattern
from training.data.examples import DataMix, TrainingExamples
from training.data.hard_negatives import hard_negatives
from training.loop import Progress, RunConfig, TrainingConfig, batches_from, example_settings, prepare_run, train
from training.publish import write_report

CROPPED_PIECES = (96, 128, 192)  # of a window during training, which spares time
CROPPED_FRACTION = 0.85  # of the windows; the others are read whole
MAX_OTHER_PASSAGES = 2  # read with a question, beside those that hold its answer
REMOVED_FRACTION = 0.2  # of the answered questions, without the sentences and rows that hold the answer
MAX_ENCODED = 4096  # texts whose pieces are kept
Place = tuple[int, int, int]  # window, first and last piece there, of an answer or of a unit that holds it


@dataclass(frozen=True)
class SpanScorerConfig(RunConfig):
    """How a span scorer is trained."""

    mix: DataMix = field(default=DataMix(max_passages=4, max_tokens=1000, max_questions=8, unanswerable_fraction=0.2))
    training: TrainingConfig = field(default=TrainingConfig(4000, 1.5e-4, warmup_steps=100, checkpoint_steps=250))


def train_span_scorer(
    scorer: SpanScorer,
    prompt: PromptTemplate,
    embedder: Embedder,
    corpora: Sequence[Corpus],
    out: Path,
    config: SpanScorerConfig,
    progress: Progress,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> dict[str, Any]:
    """Train a span scorer and write it and its report into `out`; return the report.

    `prompt` measures passages in tokens of a main model, `embedder` is that of search; `autocast` is entered for each
    pass. The report has the fraction of held-out questions whose most likely span is the answer, or is less likely than
    no answer where there is none. Resumes from the last checkpoint in `out`. Raises BadCorpus if there are too few
    questions, and BadCheckpoint or CheckpointNotWritten.
    """
    examples, eval_examples, eval_set = prepare_run(prompt, corpora, config, out)
    data = example_settings(eval_set, config)
    scorer.requires_grad_(True).encoder.embeddings.requires_grad_(False)
    if scorer.device.type == "cpu":
        scorer.encoder.set_attn_implementation("eager")  # the backward pass of SDPA takes half of a step on a CPU

    def loss_of(batch: list[list[WindowedQuestion]]) -> Tensor:
        questions = [question for example in batch for question in example]
        pairs = [(each.ids, window) for each in questions for window in each.windows]
        if not pairs:
            return torch.zeros((), requires_grad=True)
        with autocast():
            starts, ends = scorer(pairs)
        return _losses(starts, ends, questions).mean()

    negatives = hard_negatives(examples.corpora, embedder) if config.training.steps else {}
    batches = partial(
        batches_from,
        examples=WindowedExamples(examples, scorer, config.seed, negatives),
        config=config.training,
        device=scorer.device,
    )
    seconds = train(scorer, loss_of, config.training, out, {"data": data}, progress, batches)
    scorer.requires_grad_(False).save(out)
    correct = evaluate(scorer, eval_examples, config.eval_examples, progress)
    results = {"seconds": seconds, "questions": len(correct), "right": sum(correct) / max(1, len(correct))}
    return write_report(out, PACKAGE, config, eval_set, results)


@dataclass(frozen=True)
class WindowedQuestion:
    """A question's ids, the windows it is read with, and where its answer is in them; nowhere, if there is none."""

    ids: tuple[int, ...]
    windows: list[Window]
    places: list[Place]
    units: list[Place]  # that hold the answer


class WindowedExamples:
    """The questions of each training example that have no answer, or a verbatim one, and windows to read them with."""

    def __init__(
        self, examples: TrainingExamples, scorer: SpanScorer, seed: int, negatives: Mapping[str, Sequence[str]]
    ) -> None:
        self._examples = examples
        self._seed = seed
        self._negatives = negatives
        self._encode = LRUCache(scorer.tokenizer.encode, MAX_ENCODED)
        self._encode_question = scorer.encode_question
        self._windows = scorer.windows

    def __getitem__(self, index: int) -> list[WindowedQuestion]:
        texts, pairs = self._examples.texts(index)
        rng = Random(f"{self._seed} {index}")
        return [each for pair in pairs if (each := self._draw(texts, *pair, rng)) is not None]

    def _draw(self, texts: Sequence[str], question: str, answer: str, rng: Random) -> WindowedQuestion | None:
        if question in self._negatives:
            texts = self._with_negatives(texts, question, answer, rng)
        ids = self._encode_question(question)
        windows = self._windows(ids, map(self._encode, texts))
        places = [] if answer == NO_ANSWER else find_places(windows, texts, answer)
        if not places and answer != NO_ANSWER:
            return None  # not verbatim
        drawn = _draw_windows(len(windows), places, rng)
        if places and rng.random() < REMOVED_FRACTION:  # what is left is the hardest text without an answer
            texts = [remove_answer(texts[windows[index].passage], answer) for index in drawn]
            windows = self._windows(ids, map(self._encode, texts))
            places, drawn = [], list(range(min(len(drawn), len(windows))))
        kept, kept_places, units = list[Window](), list[Place](), list[Place]()
        for index in drawn:
            window, pieces = _crop(windows[index], [place[1:] for place in places if place[0] == index], rng)
            kept_places += [(len(kept), *place) for place in pieces]
            units += [(len(kept), *unit) for unit in _units_with(pieces, window, texts[window.passage])]
            kept.append(window)
        return WindowedQuestion(ids, kept, kept_places, units)

    def _with_negatives(self, texts: Sequence[str], question: str, answer: str, rng: Random) -> list[str]:
        """Return the passages that hold the answer, and some that search finds but do not."""
        own = [text for text in texts if answer_pattern(answer).search(text)]
        negatives = self._negatives[question]
        return own + rng.sample(negatives, min(len(negatives), MAX_OTHER_PASSAGES + (not own)))


def _units_with(places: Sequence[tuple[int, int]], window: Window, text: str) -> list[tuple[int, int]]:
    """Return the first and last pieces of a window's units that hold one of the places."""
    units = ((window.first(unit.start), window.last(unit.end) - 1) for unit in split_units(0, text) if places)
    return [unit for unit in units if any(start <= unit[1] and end >= unit[0] for start, end in places)]


def _losses(starts: Tensor, ends: Tensor, questions: Sequence[WindowedQuestion]) -> Tensor:
    """Return the loss of each question in nats, from logits [windows, pieces] of all windows, question by question."""
    counts = [len(each.windows) for each in questions]
    of_questions = zip(starts.split(counts), ends.split(counts), questions, strict=True)
    return torch.stack([_loss(*each) for each in of_questions])


def _loss(starts: Tensor, ends: Tensor, question: WindowedQuestion) -> Tensor:
    """Return the loss of a question, from the logits of its windows.

    It is the mean of the negative log-likelihoods of its answer's start and end, plus that of the units that hold it;
    without an answer, the sum of those of no start and no end.
    """
    span = _span_loss(starts, ends, question.places)
    if not question.units:
        return span
    inside = torch.zeros_like(starts, dtype=torch.bool)
    for window, first, last in question.units:
        inside[window, first : last + 1] = True
    masses = [normalize(logits)[0][inside].logsumexp(0) for logits in (starts, ends)]
    return 0.5 * span + math.log(2) - torch.logaddexp(*masses)


def _span_loss(starts: Tensor, ends: Tensor, places: Sequence[Place]) -> Tensor:
    """Return the negative log-likelihood of start and end of an answer in nats; without places, of no answer."""
    (starts, no_start), (ends, no_end) = normalize(starts), normalize(ends)
    if not places:
        return -no_start - no_end
    window, start, end = torch.tensor(places, device=starts.device).T
    return -(starts[window, start] + ends[window, end]).logsumexp(0)


def _draw_windows(count: int, places: Sequence[Place], rng: Random) -> list[int]:
    """Return the windows with the answer and some others."""
    with_answer = sorted({window for window, _, _ in places})
    others = [index for index in range(count) if index not in with_answer]
    num_others = MAX_OTHER_PASSAGES if with_answer else MAX_OTHER_PASSAGES + 1
    return with_answer + rng.sample(others, min(num_others, len(others)))


def _crop(window: Window, places: Sequence[tuple[int, int]], rng: Random) -> tuple[Window, list[tuple[int, int]]]:
    """Return a part of a window that contains one of the places, if any, and the places in it; sometimes all of it."""
    size = rng.choice(CROPPED_PIECES)
    if len(window.ids) <= size or rng.random() >= CROPPED_FRACTION:
        return window, list(places)
    low, high = 0, len(window.ids) - size
    if places:
        start, end = rng.choice(places)
        if end - start >= size:
            return window, list(places)
        low, high = max(low, end - size + 1), min(high, start)
    offset = rng.randint(low, high)
    part = slice(offset, offset + size)
    inside = [(start - offset, end - offset) for start, end in places if start >= offset and end < offset + size]
    return Window(window.passage, window.ids[part], window.spans[part]), inside


def remove_answer(text: str, answer: str) -> str:
    """Return a text without the sentences and table rows in which an answer occurs."""
    answers = [match.span() for match in answer_pattern(answer).finditer(text)]
    kept, end = list[str](), 0
    for sentence in split_sentences(text):
        start, end = end, end + len(sentence)
        if not any(first < end and last > start for first, last in answers):
            kept.append(sentence)
    return "".join(kept)


def find_places(windows: Sequence[Window], texts: Sequence[str], answer: str) -> list[Place]:
    """Return where an answer occurs as whole words, without the verdict before a supporting sentence."""
    pattern = answer_pattern(answer)
    places = []
    for index, window in enumerate(windows):
        for match in pattern.finditer(texts[window.passage]):
            pieces = [i for i, (start, end) in enumerate(window.spans) if start < match.end() and end > match.start()]
            if pieces and window.spans[pieces[-1]][1] >= match.end():  # not cut off by the window's end
                places.append((index, pieces[0], pieces[-1]))
    return places


@torch.inference_mode()
def answer_probabilities(scorer: SpanScorer, questions: Sequence[tuple[str, str, str]]) -> list[float]:
    """Return for each text, question and answer the probability that this is the answer, among all spans of the text.

    It is the geometric mean of those of its start and its end; 0 where the text does not contain it.
    """
    ids = [scorer.encode_question(question) for _, question, _ in questions]
    encode = LRUCache(scorer.tokenizer.encode, MAX_ENCODED)
    windows = [scorer.windows(each, [encode(text)]) for each, (text, _, _) in zip(ids, questions, strict=True)]
    pairs = [(each, window) for each, of_text in zip(ids, windows, strict=True) for window in of_text]
    if not pairs:
        return [0.0] * len(questions)
    places = [find_places(each, [text], answer) for each, (text, _, answer) in zip(windows, questions, strict=True)]
    counts = [len(of_text) for of_text in windows]
    of_questions = zip(*(logits.split(counts) for logits in scorer(pairs)), places, strict=True)
    return [math.exp(-0.5 * float(_span_loss(*each))) if each[2] else 0.0 for each in of_questions]


def evaluate(scorer: SpanScorer, examples: TrainingExamples, count: int, progress: Progress) -> list[bool]:
    """Return for each question whether the outcome with the highest probability, of all passages, is right."""
    correct = list[bool]()
    for index in range(count):
        texts, pairs = examples.texts(index)
        for question, answer in pairs:
            scores = scorer.score(question, texts)
            best = scores.best
            declines = best is None or best.probability < scores.no_answer
            if answer == NO_ANSWER:
                correct.append(declines)
            elif find_places(scores.windows, texts, answer):
                expected = " ".join(VERDICT.sub("", answer, count=1).casefold().split())
                found = best and " ".join(texts[best.passage][best.start : best.end].casefold().split())
                correct.append(not declines and found == expected)
        progress("Evaluating", index + 1, count, 0.0)
    return correct


def selection_metric(report: dict[str, Any]) -> float:
    """Return the fraction of right outcomes."""
    return report["right"]
