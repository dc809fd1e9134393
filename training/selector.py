"""Train a token selector: attention heads over the encoder's vectors that select the tokens worth recomputing.

First the main model computes the targets of all examples (training.targets), which takes most of the time. Then the
head learns them by cross-entropy within a minute, because the encoder's vectors are computed only once.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from engine.kv.chunk_cache import model_fingerprint
from engine.model.decoder import Decoder
from engine.model.encoder import Encoder
from engine.prompt.template import PromptTemplate
from engine.scoring.trained_selector import SelectorHead, TokenSelector, question_vectors, token_vectors
from training.checkpoint import to_json
from training.data.corpus import Corpus
from training.data.examples import DataMix, TrainingExamples, check_context_length
from training.loop import Progress, RunConfig, TrainingConfig, example_settings, prepare_run, train
from training.publish import write_report
from training.targets import Target, TargetDataset, benefit_share, build_targets

CHECKPOINT_STEPS = 500


@dataclass(frozen=True)
class SelectorHeadConfig:
    num_heads: int = 8
    head_size: int = 32  # of the queries and keys


@dataclass(frozen=True)
class SelectorConfig(RunConfig):
    """How a selector is trained."""

    mix: DataMix = field(default=DataMix(max_questions=5, unanswerable_fraction=0.0, synthetic_fraction=0.25))
    eval_examples: int = 20
    examples: int = 1000  # to train with, of some questions each
    epochs: int = 6  # passes over the examples, each in another order
    learning_rate: float = 3e-3
    head: SelectorHeadConfig = field(default=SelectorHeadConfig())


@dataclass(frozen=True)
class EncodedExample:
    """The head's inputs and targets for one example; the encoder's vectors are in fp16."""

    vectors: Tensor  # [T, width], for each of the main model's tokens
    lengths: list[int]  # tokens of each passage, T in total
    questions: list[Tensor]  # [Q, width], of each question with a target
    benefits: list[Tensor]  # [T], the target of each of them


def train_selector(
    decoder: Decoder, encoder: Encoder, corpora: Sequence[Corpus], out: Path, config: SelectorConfig, progress: Progress
) -> dict[str, Any]:
    """Train a selector for a main model and write it and its report into `out`; return the report.

    The report has the fraction of the benefit that the windows selected at a ratio of 20 % contain, on held-out
    questions, for the selector and its baselines. Resumes from the last checkpoints in `out`. Raises BadCorpus if there
    are too few questions, and BadCheckpoint or CheckpointNotWritten.
    """
    check_context_length(decoder, config.mix)
    prompt = PromptTemplate(decoder.tokenizer)
    examples, eval_examples, eval_set = prepare_run(prompt, corpora, config, out)
    eval_set = {"model": model_fingerprint(decoder), **eval_set}
    data = example_settings(eval_set, config)
    dataset = build_targets(decoder, examples, config.examples, out / "read", data, progress)
    encoded = []
    for index, targets in dataset.items():
        encoded.append(_encode_example(encoder, prompt, *examples.texts(index), targets))
        progress("Encoding", index + 1, config.examples, 0.0)
    head = SelectorHead(encoder.width, config.head.num_heads, config.head.head_size)
    steps = config.epochs * len(encoded)
    training = TrainingConfig(steps, config.learning_rate, checkpoint_steps=CHECKPOINT_STEPS)
    settings = {**to_json(config.head), "data": data}
    train(head, make_loss(head, encoded, config.seed), training, out, settings, progress, batches=count)
    selector = TokenSelector(encoder, head)
    selector.save(out)
    eval_dataset = build_targets(decoder, eval_examples, config.eval_examples, None, data, progress)
    results = {
        "questions": {
            "learned": sum(len(example.benefits) for example in encoded),
            "judged": sum(target is not None for targets in eval_dataset.values() for target in targets),
        },
        "agreement": _agreement(selector, prompt, eval_examples, eval_dataset, config.seed),
    }
    return write_report(out, decoder.name, config, eval_set, results)


def _encode_example(
    encoder: Encoder,
    prompt: PromptTemplate,
    texts: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    targets: Sequence[Target | None],
) -> EncodedExample:
    passages = [prompt.passage(text) for text in texts]
    vectors = [token_vectors(encoder, text, passage) for text, passage in zip(texts, passages, strict=True)]
    lengths = [len(passage.ids) for passage in passages]
    with_target = [(pair[0], target) for pair, target in zip(pairs, targets, strict=True) if target is not None]
    questions = [question_vectors(encoder, question).half() for question, _ in with_target]
    return EncodedExample(torch.cat(vectors).half(), lengths, questions, [target.benefit for _, target in with_target])


def make_loss(head: SelectorHead, examples: Sequence[EncodedExample], seed: int) -> Callable[[int], Tensor]:
    """Return the loss of each step: the mean cross-entropy between benefit and scores, in nats."""

    def loss(step: int) -> Tensor:
        epoch, place = divmod(step, len(examples))
        order = Random(f"{seed} {epoch}").sample(range(len(examples)), len(examples))
        example = examples[order[place]]
        keys = head.key(example.vectors.float())
        competing = slice(example.lengths[0], None)  # the first passage is exact
        losses = []
        for question, benefit in zip(example.questions, example.benefits, strict=True):
            scores = head(question.float(), keys, example.lengths)[competing]
            losses.append(-(benefit[competing].float() * scores.clamp(min=1e-9).log()).sum())
        return torch.stack(losses).mean()

    return loss


def _agreement(
    selector: TokenSelector, prompt: PromptTemplate, examples: TrainingExamples, dataset: TargetDataset, seed: int
) -> dict[str, float]:
    """Return the mean fraction of the benefit in the windows that each way of scoring selects."""
    generator = torch.Generator().manual_seed(seed)
    shares = dict[str, list[float]]()
    for index, targets in dataset.items():
        texts, pairs = examples.texts(index)
        passages = [prompt.passage(text) for text in texts]
        lengths = [len(passage.ids) for passage in passages]
        for (question, _), target in zip(pairs, targets, strict=True):
            if target is None:
                continue
            scores_by_name = {
                "target": target.benefit,
                "selector": selector.score(question, texts, passages),
                **target.baselines,
                "random": torch.rand(len(target.benefit), generator=generator),
            }
            for name, scores in scores_by_name.items():
                shares.setdefault(name, []).append(benefit_share(target.benefit, scores, lengths))
    return {name: statistics.fmean(values) for name, values in shares.items()}


def selection_metric(report: dict[str, Any]) -> float:
    """Return the fraction of the benefit in the windows that the selector selects."""
    return report["agreement"]["selector"]
