"""Write questions about text: finetune the model to write them, then keep those that a span scorer answers alike.

This turns plain text into training data for the other commands: synthetic questions with round-trip consistency
(arXiv:1906.05416). The writer is a LoRA adapter that continues a paragraph with an answer in it, then the question.
Files with questions train it; it writes questions about the paragraphs of files without any.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from engine.generation.span_scorer import SpanScorer
from engine.model.decoder import Decoder
from engine.prompt.template import PromptTemplate
from training.checkpoint import to_json
from training.data.corpus import BadCorpus, Corpus, Paragraph
from training.data.packed import PackedExample, answer_loss
from training.loop import Progress, TrainingConfig, batches_from, train
from training.lora import LoraAdapter, LoraAdapterConfig
from training.span_scorer import answer_probabilities

REQUEST = "Write a question that the passage answers."  # in the place of a question
SEPARATOR = "\n"  # between the answer and the question
MAX_PASSAGE_TOKENS = 300
MAX_ANSWER_WORDS = 12
MIN_QUESTION_WORDS = 3
MAX_NEW_TOKENS = 56
TOP_K = 40  # tokens to sample from
PARAGRAPH_LENGTHS = (200, 1000)  # characters of the paragraphs that questions are written about
MIN_PROBABILITY = 0.25  # of the written answer according to the span scorer, among all spans of its paragraph


@dataclass(frozen=True)
class QuestionConfig:
    """How the writer is trained and used."""

    lora: LoraAdapterConfig = field(default=LoraAdapterConfig())
    training: TrainingConfig = field(default=TrainingConfig(steps=400, batch_size=32, checkpoint_steps=200))
    questions_per_example: int = 6
    samples: int = 4  # questions drawn per paragraph
    paragraphs: int = 30_000  # at most
    batch_paragraphs: int = 32  # written about at the same time; a GPU has memory for many more
    seed: int = 0


@dataclass(frozen=True)
class WritingExamples:
    """An endless, seeded sequence of a paragraph each, and of the questions to be written about it."""

    prompt: PromptTemplate
    corpora: Sequence[Corpus]
    config: QuestionConfig

    def __getitem__(self, index: int) -> PackedExample:
        rng = Random(f"{self.config.seed} {index}")
        while True:
            (corpus,) = rng.choices(self.corpora, [corpus.weight for corpus in self.corpora])
            paragraph = rng.choice(corpus.paragraphs)
            if not (pairs := self.usable_questions(paragraph)):
                continue
            seen = self.prompt.passage(paragraph.text).ids[:MAX_PASSAGE_TOKENS]
            drawn = rng.sample(pairs, min(self.config.questions_per_example, len(pairs)))
            suffix = self.prompt.suffix_ids(REQUEST)
            encode = self.prompt.tokenizer.encode
            answers = [encode(answer + SEPARATOR + question).ids + self.prompt.end_ids for question, answer in drawn]
            questions = tuple((suffix, answer) for answer in answers)
            return PackedExample(self.prompt.prefix_ids, (seen,), questions, is_independent=False)

    def usable_questions(self, paragraph: Paragraph) -> list[tuple[str, str]]:
        """Return the questions, with their answers, that the tokens of a paragraph that are read answer."""
        if not paragraph.questions:
            return []
        spans = self.prompt.passage(paragraph.text).spans[:MAX_PASSAGE_TOKENS]
        text = paragraph.text.strip()[: spans[-1][1]]
        return [pair for pair in paragraph.questions if is_usable(text, *pair)]


def is_usable(text: str, question: str, answer: str) -> bool:
    """Return whether an answer is short and in the text, and not already in its question of several words."""
    is_short = 0 < len(answer.split()) <= MAX_ANSWER_WORDS and len(question.split()) >= MIN_QUESTION_WORDS
    return is_short and answer in text and answer.casefold() not in question.casefold()


def write_questions(
    decoder: Decoder,
    scorer: SpanScorer,
    corpora: Sequence[Corpus],
    out: Path,
    config: QuestionConfig,
    progress: Progress,
) -> dict[str, int]:
    """Train the writer, and write JSON lines that the other commands read to `out`; return counts.

    Checkpoints of the training are kept in `out` + '.training', and it resumes from the last one. Raises BadCorpus if
    there are no questions to train with or no paragraphs to write about, BadCheckpoint or CheckpointNotWritten.
    """
    torch.manual_seed(config.seed)
    prompt = PromptTemplate(decoder.tokenizer)
    shortest, longest = PARAGRAPH_LENGTHS
    paragraphs = [
        f"{each.heading}\n{each.text}".strip()
        for corpus in corpora
        for each in corpus.paragraphs
        if not corpus.num_questions and shortest <= len(each.text) <= longest
    ]
    examples = WritingExamples(prompt, corpora, config)
    with_questions = [corpus for corpus in corpora if any(map(examples.usable_questions, corpus.paragraphs))]
    if not paragraphs or not with_questions:
        raise BadCorpus("A file with questions and one without, of paragraphs of 200 to 1,000 characters, are needed.")
    if len(paragraphs) > config.paragraphs:
        chosen = sorted(Random(config.seed).sample(range(len(paragraphs)), config.paragraphs))
        paragraphs = [paragraphs[index] for index in chosen]
    examples = replace(examples, corpora=with_questions)
    adapter = LoraAdapter(decoder, config.lora)

    def loss_of(batch: list[PackedExample]) -> Tensor:
        with adapter.autocast():
            return answer_loss(decoder, *batch)

    data = {each.name: [each.weight, len(each.paragraphs), each.num_questions] for each in with_questions}
    settings = {"data": [data, config.seed, config.questions_per_example], **to_json(config.lora)}
    batches = partial(batches_from, examples=examples, config=config.training, device=decoder.device)
    folder = out.with_name(f"{out.name}.training")
    folder.mkdir(parents=True, exist_ok=True)
    train(adapter, loss_of, config.training, folder, settings, progress, batches)
    adapter.merge()
    counts = {"paragraphs": 0, "written": 0, "usable": 0, "kept": 0}
    with out.open("w", encoding="utf-8") as file:
        for first in range(0, len(paragraphs), config.batch_paragraphs):
            group = paragraphs[first : first + config.batch_paragraphs]
            written = _sample(decoder, prompt, group, config)
            usable = [list(dict.fromkeys(_parse(each, texts))) for each, texts in zip(group, written, strict=True)]
            flat = [(each, *pair) for each, pairs in zip(group, usable, strict=True) for pair in pairs]
            probabilities = iter(answer_probabilities(scorer, flat))
            for paragraph, pairs in zip(group, usable, strict=True):
                kept = [pair for pair in pairs if next(probabilities) >= MIN_PROBABILITY]
                counts["kept"] += len(kept)
                if kept:
                    qas = [{"question": question, "answers": [answer]} for question, answer in kept]
                    row = {"context": paragraph, "qas": qas}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
            counts["paragraphs"] += len(group)
            counts["written"] += len(group) * config.samples
            counts["usable"] += len(flat)
            progress("Writing", counts["paragraphs"], len(paragraphs), 0.0)
    return counts


@torch.inference_mode()
def _sample(
    decoder: Decoder, prompt: PromptTemplate, paragraphs: Sequence[str], config: QuestionConfig
) -> list[list[str]]:
    """Return some continuations for each paragraph, sampled by transformers."""
    suffix = prompt.suffix_ids(REQUEST)
    prompts = [prompt.prefix_ids + prompt.encode_passage(each).ids[:MAX_PASSAGE_TOKENS] + suffix for each in paragraphs]
    width = max(map(len, prompts))
    ids = torch.tensor([[prompt.end_ids[0]] * (width - len(each)) + list(each) for each in prompts])
    mask = torch.tensor([[0] * (width - len(each)) + [1] * len(each) for each in prompts])
    model: Any = decoder.model
    former = model.config._attn_implementation
    model.set_attn_implementation("sdpa")
    try:
        sequences = model.generate(
            ids.to(decoder.device),
            attention_mask=mask.to(decoder.device),
            max_new_tokens=MAX_NEW_TOKENS,
            do_sample=True,
            top_k=TOP_K,
            num_return_sequences=config.samples,
            eos_token_id=sorted(prompt.stop_ids),
            pad_token_id=prompt.end_ids[0],
        )
    finally:
        model.set_attn_implementation(former)
    texts = decoder.tokenizer.batch_decode(sequences[:, width:], skip_special_tokens=True)
    return [texts[first : first + config.samples] for first in range(0, len(texts), config.samples)]


def _parse(text: str, continuations: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return the pairs of a question and an answer in continuations of a paragraph."""
    for continuation in continuations:
        answer, _, question = (part.strip() for part in continuation.partition(SEPARATOR))
        if is_usable(text, question, answer) and SEPARATOR not in question:
            yield question, answer
