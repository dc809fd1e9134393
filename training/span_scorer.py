"""Finetune a span scorer: all-MiniLM-L6-v2 learns to mark the start and the end of the answer in passages.

An example is some passages and questions whose answers occur in them verbatim, or which they do not answer. Every
occurrence of an answer counts as correct, because the data does not say which one is meant: the loss is the negative
log-likelihood of any of them. A question is read with the passages of its answer and two more; the scores of a passage
do not depend on the others.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from engine.generation.span_scorer import SpanScorer, Window, normalize
from engine.model.encoder import PACKAGE
from engine.prompt.template import NO_ANSWER, PromptTemplate
from engine.text import split_sentences
from training.checkpoint import to_json
from training.data.corpus import Corpus
from training.data.examples import DataMix, TrainingExamples
from training.loop import Progress, RunConfig, TrainingConfig, prepare_run, train
from training.publish import write_report

CROPPED_PIECES = (96, 128, 192)  # of a window during training, which spares time
CROPPED_FRACTION = 0.85  # of the windows; the others are read whole
MAX_OTHER_PASSAGES = 2  # read with a question, beside those that hold its answer
VERDICT = re.compile(r"(?:Yes|No|Ja|Nein): ")  # before the supporting sentence
REMOVED_FRACTION = 0.2  # of the answered questions, without the sentences and rows that hold the answer
Place = tuple[int, int, int]  # window, first and last piece of an answer there


@dataclass(frozen=True)
class SpanScorerConfig(RunConfig):
    """How a span scorer is trained."""

    mix: DataMix = field(default=DataMix(max_passages=4, max_tokens=1000, max_questions=8, unanswerable_fraction=0.2))
    training: TrainingConfig = field(default=TrainingConfig(4000, 1.5e-4, warmup_steps=100, checkpoint_steps=250))


def train_span_scorer(
    scorer: SpanScorer,
    prompt: PromptTemplate,
    corpora: Sequence[Corpus],
    out: Path,
    config: SpanScorerConfig,
    progress: Progress,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> dict[str, Any]:
    """Train a span scorer and write it and its report into `out`; return the report.

    `prompt` measures passages in tokens of a main model; `autocast` is entered for each pass. The report has the
    fraction of held-out questions whose most likely span is the answer, or is less likely than no answer where there is
    none. Resumes from the last checkpoint in `out`. Raises BadCorpus if there are too few questions, and BadCheckpoint
    or CheckpointNotWritten.
    """
    examples, eval_examples, eval_set = prepare_run(prompt, corpora, config, out)
    # A run may be resumed with another number of evaluation examples, which is stored as "lessons".
    data = [{**eval_set, "lessons": None}, config.seed, to_json(config.mix)]
    scorer.requires_grad_(True).encoder.embeddings.requires_grad_(False)
    scorer.encoder.set_attn_implementation("eager")  # the backward pass of SDPA takes half of a step on a CPU
    encode = cache(scorer.tokenizer.encode)

    def loss_of(step: int) -> Tensor:
        texts, pairs = examples.texts(step)
        rng = Random(f"{config.seed} {step}")
        rows: list[tuple[Sequence[int], Window]] = []
        questions: list[tuple[slice, list[Place]]] = []
        for question, answer in pairs:
            ids = scorer.encode_question(question)
            windows = scorer.windows(ids, map(encode, texts))
            places = [] if answer == NO_ANSWER else find_places(windows, texts, answer)
            if not places and answer != NO_ANSWER:
                continue  # not verbatim
            drawn = _draw_windows(len(windows), places, rng)
            if places and rng.random() < REMOVED_FRACTION:  # what is left is the hardest text without an answer
                shorter = [remove_answer(texts[windows[index].passage], answer) for index in drawn]
                windows = scorer.windows(ids, map(encode, shorter))
                places, drawn = [], list(range(min(len(drawn), len(windows))))
            first_row, kept_places = len(rows), list[Place]()
            for index in drawn:
                window, pieces = _crop(windows[index], [place[1:] for place in places if place[0] == index], rng)
                kept_places += [(len(rows) - first_row, start, end) for start, end in pieces]
                rows.append((ids, window))
            questions.append((slice(first_row, len(rows)), kept_places))
        if not rows:
            return torch.zeros((), requires_grad=True)
        with autocast():
            starts, ends = scorer(rows)
        return torch.stack([_loss(starts[part], ends[part], places) for part, places in questions]).mean()

    seconds = train(scorer, loss_of, config.training, out, {"data": data}, progress)
    scorer.requires_grad_(False).save(out)
    correct = evaluate(scorer, eval_examples, config.eval_examples, progress)
    results = {"seconds": seconds, "questions": len(correct), "right": sum(correct) / max(1, len(correct))}
    return write_report(out, PACKAGE, config, eval_set, results)


def load_mean(scorer: SpanScorer, folders: Sequence[Path]) -> None:
    """Give a span scorer the mean weights of finished ones. Raises SpanScorerUnusable if one cannot be read.

    The mean of a span scorer and one that was trained on from it generalizes better than either (model soups,
    arXiv:2203.05482).
    """
    trained = scorer.trained_weights()
    total = {name: torch.zeros_like(weight) for name, weight in trained.items()}
    for folder in folders:
        finished = SpanScorer.load(folder, scorer.encoder, scorer.tokenizer.template)
        total = {name: total[name] + weight.detach() for name, weight in finished.trained_weights().items()}
    scorer.load_state_dict({name: weight / len(folders) for name, weight in total.items()}, strict=False)


def _loss(starts: Tensor, ends: Tensor, places: Sequence[Place]) -> Tensor:
    """Return the negative log-likelihood of the answer to a question, in nats; without places, of no answer."""
    (starts, no_start), (ends, no_end) = normalize(starts), normalize(ends)
    if not places:
        return -(no_start + no_end)
    return -torch.stack([starts[window, start] + ends[window, end] for window, start, end in places]).logsumexp(0)


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
    pattern = _pattern(answer)
    return "".join(sentence for sentence in split_sentences(text) if not pattern.search(sentence))


def _pattern(answer: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(VERDICT.sub('', answer, count=1))}(?!\w)", re.IGNORECASE)


def find_places(windows: Sequence[Window], texts: Sequence[str], answer: str) -> list[Place]:
    """Return where an answer occurs as whole words, without the verdict before a supporting sentence."""
    pattern = _pattern(answer)
    places = []
    for index, window in enumerate(windows):
        for match in pattern.finditer(texts[window.passage]):
            pieces = [i for i, (start, end) in enumerate(window.spans) if start < match.end() and end > match.start()]
            if pieces and window.spans[pieces[-1]][1] >= match.end():  # not cut off by the window's end
                places.append((index, pieces[0], pieces[-1]))
    return places


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
