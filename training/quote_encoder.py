"""Finetune the encoder of search and of quotes: all-MiniLM-L6-v2 learns which unit of the passages answers a question.

An example is some passages and questions about them. The embedding of a question is to be closer to those of the
sentences, list items, table rows and whole lists that hold its answer than to those of all others: cross-entropy over
the cosines, divided by a temperature, with in-batch negatives as in sentence transformers (arXiv:1908.10084,
1705.00652): all units of all examples of a step. The neighbouring passages of a document are the hardest ones.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.generation.lists import MIN_LIST_ITEMS, text_of_list
from engine.model.encoder import PACKAGE, Encoder, last_hidden_states
from engine.prompt.template import PromptTemplate
from engine.prompt.titles import parse_title
from engine.prompt.units import split_units
from store.weights_file import QUOTE_ENCODER_FILE, load_weights, save_weights, trained_weights
from training.data.corpus import Corpus, answer_pattern
from training.data.examples import DataMix, TrainingExamples
from training.loop import Progress, RunConfig, TrainingConfig, batches_from, example_settings, prepare_run, train
from training.publish import write_report

TEMPERATURE = 0.05
MAX_UNIT_PIECES = 128
CONTEXT = re.compile(r"[^\n]* > ([^\n]*)\n")  # before a chunk: the names of its document and the headings above it
BATCH_UNITS = 32  # per forward pass; bounds the padding


@dataclass(frozen=True)
class QuoteEncoderConfig(RunConfig):
    """How a quote encoder is trained."""

    mix: DataMix = field(
        default=DataMix(
            max_passages=4, max_tokens=1400, max_questions=8, unanswerable_fraction=0.0, synthetic_fraction=0.0
        )
    )
    training: TrainingConfig = field(
        default=TrainingConfig(700, 6e-5, warmup_steps=30, checkpoint_steps=50, batch_size=4)
    )


@dataclass(frozen=True)
class QuoteExample:
    """The units of some passages, and questions with the indices of the units that hold their answers."""

    units: list[str]
    questions: list[tuple[str, list[int]]]


def train_quote_encoder(
    encoder: Encoder,
    prompt: PromptTemplate,
    corpora: Sequence[Corpus],
    out: Path,
    config: QuoteEncoderConfig,
    progress: Progress,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> dict[str, Any]:
    """Train the encoder, which is in fp32, and write it and its report into `out`; return the report.

    `prompt` measures passages in tokens of a main model; `autocast` is entered for each pass. The report has the
    fraction of held-out questions whose closest unit holds the answer, before and after. Resumes from the last
    checkpoint in `out`. Raises BadCorpus if there are too few questions, and BadCheckpoint or CheckpointNotWritten.
    """
    examples, eval_examples, eval_set = prepare_run(prompt, corpora, config, out)
    data = example_settings(eval_set, config)
    before = evaluate(encoder, eval_examples, config.eval_examples)
    model = encoder.model
    model.requires_grad_(True).embeddings.requires_grad_(False)
    if model.device.type == "cpu":
        model.set_attn_implementation("eager")  # the backward pass of SDPA takes half of a step on a CPU

    def loss_of(batch: list[QuoteExample]) -> Tensor:
        with autocast():
            return contrastive_loss(batch, partial(_embed, encoder))

    batches = partial(
        batches_from, examples=QuoteExamples(examples), config=config.training, device=torch.device("cpu")
    )
    seconds = train(model, loss_of, config.training, out, {"data": data}, progress, batches)
    model.requires_grad_(False)
    save_weights(trained_weights(model), out / QUOTE_ENCODER_FILE)
    load_weights(out / QUOTE_ENCODER_FILE, model)  # the weights as they are stored are evaluated
    after = evaluate(encoder, eval_examples, config.eval_examples)
    results = {
        "seconds": seconds,
        "questions": len(after),
        "right": sum(after) / max(1, len(after)),
        "right_before": sum(before) / max(1, len(before)),
    }
    return write_report(out, PACKAGE, config, eval_set, results)


class QuoteExamples:
    """The units of each training example, and the questions whose answers occur in them."""

    def __init__(self, examples: TrainingExamples) -> None:
        self._examples = examples

    def __getitem__(self, index: int) -> QuoteExample:
        texts, pairs = self._examples.texts(index)
        return find_quotes(texts, pairs)


def find_quotes(texts: Sequence[str], pairs: Sequence[tuple[str, str]]) -> QuoteExample:
    """Return what may be quoted from passages, and which of it holds each answer: sentences, items, rows, whole lists.

    Items and rows are below their heading, lists also below the line that introduces them, as when they are ranked.
    """
    units, places = list[str](), list[tuple[int, int, int]]()
    for passage, text in enumerate(texts):
        context = CONTEXT.match(text)
        heading, before = context[1] if context else "", 0
        for block, group in groupby(split_units(passage, text), key=attrgetter("block")):
            own = list(group)
            if block.kind == "heading":
                heading = parse_title(text[block.start : block.end]).text
            elif context is None or block.start >= context.end():
                is_part = block.kind in ("list", "table") and heading
                for unit in own:
                    quoted = text[unit.start : unit.end]
                    units.append(f"{heading}\n{quoted}" if is_part else quoted)
                    places.append((passage, unit.start, unit.end))
                if block.kind == "list" and len(own) >= MIN_LIST_ITEMS:
                    units.append(text_of_list(heading, text[before : block.end]))
                    places.append((passage, block.start, block.end))
            before = own[-1].start
    questions = []
    for question, answer in pairs:
        found = [(i, *match.span()) for i, text in enumerate(texts) for match in answer_pattern(answer).finditer(text)]
        right = [
            index
            for index, (passage, start, end) in enumerate(places)
            if any(passage == where and start < last and end > first for where, first, last in found)
        ]
        if right and len(right) < len(units):
            questions.append((question, right))
    return QuoteExample(units, questions)


def contrastive_loss(batch: Sequence[QuoteExample], embed: Callable[[Sequence[str]], Tensor]) -> Tensor:
    """Return the mean cross-entropy in nats of the questions' right units among all units of the batch.

    `embed` returns the embeddings [texts, hidden size] of texts, rows of length 1. Examples may share a passage.
    """
    units = {unit: None for example in batch for unit in example.units}
    position = {unit: index for index, unit in enumerate(units)}
    pairs = [
        (question, sorted({position[example.units[index]] for index in right}))
        for example in batch
        for question, right in example.questions
    ]
    if not pairs:
        return torch.zeros((), requires_grad=True)
    embeddings = embed([*units, *(question for question, _ in pairs)])
    candidates, questions = embeddings.split([len(units), len(pairs)])
    logits = questions @ candidates.T / TEMPERATURE
    losses = [row.logsumexp(0) - row[right].logsumexp(0) for row, (_, right) in zip(logits, pairs, strict=True)]
    return torch.stack(losses).mean()


def _embed(encoder: Encoder, texts: Sequence[str]) -> Tensor:
    """Return the embeddings [texts, hidden size] of short texts, as `Encoder.embed_sentences`, with gradients."""
    ids = [torch.tensor(encoder.encode_text(text, MAX_UNIT_PIECES)) for text in texts]
    by_length = sorted(range(len(ids)), key=lambda index: len(ids[index]))
    sums: list[Tensor] = [torch.empty(0)] * len(ids)
    for start in range(0, len(ids), BATCH_UNITS):
        batch = by_length[start : start + BATCH_UNITS]
        rows = [ids[index] for index in batch]
        states = last_hidden_states(encoder.model, rows, [torch.zeros_like(row) for row in rows], None)
        for index, state in zip(batch, states, strict=True):
            sums[index] = state.float().sum(0)
    return F.normalize(torch.stack(sums), dim=-1)


@torch.inference_mode()
def evaluate(encoder: Encoder, examples: TrainingExamples, count: int) -> list[bool]:
    """Return for each question of some examples whether the closest unit holds its answer."""
    correct = list[bool]()
    for index in range(count):
        example = find_quotes(*examples.texts(index))
        if example.questions:
            embeddings = _embed(encoder, [*example.units, *(question for question, _ in example.questions)])
            units, questions = embeddings.split([len(example.units), len(example.questions)])
            closest = (questions @ units.T).argmax(1).tolist()
            correct += [best in right for best, (_, right) in zip(closest, example.questions, strict=True)]
    return correct


def selection_metric(report: dict[str, Any]) -> float:
    """Return the fraction of right quotes."""
    return float(report["right"])
