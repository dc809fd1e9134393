"""Train a span scorer: layers over the encoder's vectors that score the words that answer a question.

An example is some passages and questions whose answers occur in them verbatim. Every occurrence of an answer counts as
correct, because the data does not say which one is meant: the loss is that of the best one (a soft maximum).
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.generation.span_scorer import EncodedText, SpanScorer, SpanScorerNet, encode_text, pad_batch
from engine.model.encoder import PACKAGE, Encoder
from engine.prompt.template import PromptTemplate
from training.checkpoint import to_json
from training.data.corpus import Corpus
from training.data.examples import DataMix, TrainingExamples
from training.loop import Progress, RunConfig, TrainingConfig, prepare_run, train
from training.publish import write_report


@dataclass(frozen=True)
class SpanScorerNetConfig:
    size: int = 128  # hidden size of the layers


@dataclass(frozen=True)
class SpanScorerConfig(RunConfig):
    """How a span scorer is trained."""

    mix: DataMix = field(default=DataMix(max_passages=4, max_tokens=800, max_questions=12, unanswerable_fraction=0.0))
    training: TrainingConfig = field(default=TrainingConfig(4000, 1.5e-3, warmup_steps=100, checkpoint_steps=250))
    net: SpanScorerNetConfig = field(default=SpanScorerNetConfig())


def train_span_scorer(
    encoder: Encoder,
    prompt: PromptTemplate,
    corpora: Sequence[Corpus],
    out: Path,
    config: SpanScorerConfig,
    progress: Progress,
) -> dict[str, Any]:
    """Train a span scorer and write it and its report into `out`; return the report.

    `prompt` measures passages in tokens of a main model. The report has the fraction of held-out questions for which
    the most likely piece of all passages is part of the answer. Resumes from the last checkpoint in `out`. Raises
    BadCorpus if there are too few questions, and BadCheckpoint or CheckpointNotWritten.
    """
    examples, eval_examples, eval_set = prepare_run(prompt, corpora, config, out)
    # A run may be resumed with another number of evaluation examples, which is stored as "lessons".
    data = [{**eval_set, "lessons": None}, config.seed, to_json(config.mix)]
    document_frequency = _inverse_document_frequency(encoder, corpora)
    net = SpanScorerNet(encoder.width, len(encoder.layers), config.net.size, len(document_frequency))
    net.rarity += document_frequency
    loss_of = make_loss(net, examples, encoder, config.seed)
    settings = {**to_json(config.net), "data": data}
    seconds = train(net, loss_of, config.training, out, settings, progress)
    SpanScorer(encoder, net).save(out)
    correct = evaluate(SpanScorer.load(out, encoder), eval_examples, config.eval_examples, progress)
    results = {"seconds": seconds, "questions": len(correct), "right": sum(correct) / max(1, len(correct))}
    return write_report(out, PACKAGE, config, eval_set, results)


def _inverse_document_frequency(encoder: Encoder, corpora: Sequence[Corpus]) -> Tensor:
    """Return the idf of each word piece among the paragraphs, [vocabulary], in nats."""
    counts = torch.zeros(encoder.tokenizer.template.get_vocab_size())
    paragraphs = [paragraph for corpus in corpora for paragraph in corpus.paragraphs]
    for paragraph in paragraphs:
        counts[list(set(encoder.tokenizer.encode(paragraph.text).ids))] += 1
    return torch.log(1 + len(paragraphs) / (1 + counts))


def make_loss(net: SpanScorerNet, examples: TrainingExamples, encoder: Encoder, seed: int) -> Callable[[int], Tensor]:
    """Return the loss of each step: the negative log-likelihood of the answer's pieces per question, in nats."""
    encode = cache(partial(encode_text, encoder))

    def loss(step: int) -> Tensor:
        torch.manual_seed((seed << 32) + step)  # of dropout, so that a resumed run equals an uninterrupted one
        texts, pairs = examples.texts(step)
        passages = [encode(text) for text in texts]
        encoded_pairs = [(encode(question), find_occurrences(passages, texts, answer)) for question, answer in pairs]
        trained = [(question, spans) for question, spans in encoded_pairs if question.pieces.ids and spans]
        losses = [torch.zeros((), requires_grad=True)]
        if trained:
            questions = [question for question, _ in trained for _ in passages]
            logits = net(pad_batch(passages * len(trained)), pad_batch(questions))
            for row, (_, spans) in zip(logits.view(len(trained), len(passages), -1), trained, strict=True):
                log_probs = row.flatten().log_softmax(0).view_as(row)
                of_spans = torch.stack([log_probs[passage, pieces].mean() for passage, pieces in spans])
                losses.append(math.log(len(of_spans)) - of_spans.logsumexp(0))
        return torch.stack(losses).sum() / max(1, len(trained))

    return loss


def find_occurrences(passages: Sequence[EncodedText], texts: Sequence[str], answer: str) -> list[tuple[int, list[int]]]:
    """Return where an answer occurs as whole words: the index of a passage, and the indices of its pieces there."""
    occurrences = []
    for index, (passage, text) in enumerate(zip(passages, texts, strict=True)):
        for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE):
            spans = enumerate(passage.pieces.spans)
            if pieces := [piece for piece, (start, end) in spans if start < match.end() and end > match.start()]:
                occurrences.append((index, pieces))
    return occurrences


def evaluate(scorer: SpanScorer, examples: TrainingExamples, count: int, progress: Progress) -> list[bool]:
    """Return for each question whether the most likely piece of all passages is part of its answer."""
    encode = cache(partial(encode_text, scorer.encoder))
    correct = list[bool]()
    for index in range(count):
        texts, pairs = examples.texts(index)
        passages = [encode(text) for text in texts]
        for question, answer in pairs:
            if occurrences := find_occurrences(passages, texts, answer):
                is_best = [scores.log_odds == 0.0 for scores in scorer.score(question, texts)]
                correct.append(any(bool(is_best[passage][pieces].any()) for passage, pieces in occurrences))
        progress("Evaluating", index + 1, count, 0.0)
    return correct


def selection_metric(report: dict[str, Any]) -> float:
    """Return the fraction of questions whose answer is scored highest."""
    return report["right"]
