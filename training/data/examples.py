"""Draw training examples: which passages share a prompt, the questions about them, and how they are prefilled.

Passages are combined as retrieval combines them: some of the same document, some of others. Some questions are about
none of them, and the right answer is a refusal.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from random import Random

from engine.errors import UnsupportedModel
from engine.model.decoder import Decoder
from engine.prompt.template import NO_ANSWER, PromptTemplate
from engine.strategies.windows import WINDOW_TOKENS
from engine.text import split_sentences
from training.data.cloze import add_cloze_questions
from training.data.corpus import BadCorpus, Corpus, Paragraph
from training.data.packed import PackedExample
from training.data.synthetic_facts import synthetic_facts

UNRELATED_QUESTIONS = (  # used if the corpus has no other unanswerable question
    "Who is named here as the treasurer?",
    "What is the phone number of the office?",
    "When does the shop open?",
)
MIN_QUESTIONS = 24  # to train with, and to evaluate with
MAX_TRUNCATED = 2000  # characters of a paragraph that exceeds the tokens of an example by itself
RESERVED_TOKENS = 256  # of the context, for the prefix, a question and its answer
MAX_ANSWER_TOKENS = 96  # with the end token; the rest of a longer answer is not trained
PART_WORDS = (20, 60)  # after which a passage is cut, if passages are cut
EVAL_SEED = 0  # whatever the training seed, so that all runs are evaluated with the same questions


@dataclass(frozen=True)
class DataMix:
    """The distribution of training examples."""

    max_passages: int = 8
    max_tokens: int = 1300  # of the passages
    max_questions: int = 16
    unanswerable_fraction: float = 0.12  # of questions
    synthetic_fraction: float = 0.1  # of examples, with synthetic facts
    full_prefill_fraction: float = 0.3  # of examples; the others are prefilled as in KV reuse
    split_fraction: float = 0.0  # of examples, with passages cut into shorter ones, all shuffled
    recompute_range: tuple[float, float] = (0.1, 0.3)  # fraction of the windows recomputed, in half of those others


@dataclass(frozen=True)
class TrainingExamples:
    """An endless, seeded sequence of examples; example n does not depend on which were drawn before it."""

    prompt: PromptTemplate
    corpora: Sequence[Corpus]  # with questions; drawn by their weights
    distractors: Sequence[Paragraph]  # without questions
    mix: DataMix
    seed: int

    def texts(self, index: int) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the passages of an example, and pairs of a question and its answer."""
        return self._draw_texts(Random(f"{self.seed} {index}"))

    def __getitem__(self, index: int) -> PackedExample:
        rng = Random(f"{self.seed} {index}")
        texts, pairs = self._draw_texts(rng)
        cut_rng = Random(f"{self.seed} {index} cut")
        if cut_rng.random() < self.mix.split_fraction:
            texts = _cut_all(texts, cut_rng)
        passages = tuple(self.prompt.passage(text).ids for text in texts)
        is_independent = rng.random() >= self.mix.full_prefill_fraction
        questions = tuple((self.prompt.suffix_ids(question), self._answer_ids(answer)) for question, answer in pairs)
        example = PackedExample(self.prompt.prefix_ids, passages, questions, is_independent)
        if is_independent and rng.random() < 0.5:
            return replace(example, recomputed=_draw_windows(example, rng.uniform(*self.mix.recompute_range), rng))
        return example

    def random_windows(self, example: PackedExample, fraction: float) -> tuple[int, ...]:
        """Return the slots of about this fraction of an example's windows, drawn by the seed."""
        return _draw_windows(example, fraction, Random(f"{self.seed} {len(example.context)}"))

    def _draw_texts(self, rng: Random) -> tuple[list[str], list[tuple[str, str]]]:
        is_synthetic = rng.random() < self.mix.synthetic_fraction
        return self._draw_synthetic(rng) if is_synthetic else self._draw_from_corpus(rng)

    def _draw_from_corpus(self, rng: Random) -> tuple[list[str], list[tuple[str, str]]]:
        (corpus,) = rng.choices(self.corpora, [corpus.weight for corpus in self.corpora])
        paragraphs = corpus.paragraphs
        count = max(rng.randint(1, self.mix.max_passages) for _ in range(3))
        start = rng.randrange(len(paragraphs))
        end = start + max(1, rng.randint(0, count))
        chosen = [paragraphs[at % len(paragraphs)] for at in range(start, end)]
        chosen += [rng.choice(paragraphs) for _ in range(count - len(chosen))]
        if self.distractors and rng.random() < 0.3:
            chosen += [rng.choice(self.distractors) for _ in range(rng.randint(1, self.mix.max_passages))]
        chosen = self._fit(chosen[: self.mix.max_passages])
        rng.shuffle(chosen)
        answerable = [
            pair
            for paragraph in chosen
            for pair in rng.sample(paragraph.questions, min(5 * len(paragraph.passages), len(paragraph.questions)))
        ]
        nearby = {paragraphs[at % len(paragraphs)]: None for at in range(start - 3, start + 12)}
        shown = tuple(paragraph.text for paragraph in chosen)  # the only one may be the start of a longer paragraph
        candidates = [
            pair for paragraph in nearby if not paragraph.text.startswith(shown) for pair in paragraph.questions[:2]
        ]
        texts = [text for paragraph in chosen for text in paragraph.passages]
        if any(paragraph.others for paragraph in chosen):
            rng.shuffle(texts)
        unanswerable = [question for paragraph in chosen for question in paragraph.unanswerable]
        return texts, self._draw_questions(texts, answerable, candidates, rng, unanswerable)

    def _draw_synthetic(self, rng: Random) -> tuple[list[str], list[tuple[str, str]]]:
        source = self.distractors or [paragraph for corpus in self.corpora for paragraph in corpus.paragraphs]
        chosen = self._fit([rng.choice(source) for _ in range(rng.randint(1, self.mix.max_passages))])
        texts = [paragraph.text for paragraph in chosen]
        facts = synthetic_facts(rng, rng.randint(3, 8))
        for statements, _, _ in facts[:-1]:  # the last one is left out: its question cannot be answered
            positions = sorted(rng.choices(range(len(texts)), k=len(statements)))
            for statement, at in zip(statements, positions, strict=True):
                sentences = re.split(r"(?<=[.!?]) ", texts[at])
                sentences.insert(rng.randint(1, len(sentences)), statement)
                texts[at] = " ".join(sentences)
        answerable = [(question, answer) for _, question, answer in facts[:-1]]
        return texts, self._draw_questions(texts, answerable, [facts[-1][1:]], rng)

    def _fit(self, paragraphs: Sequence[Paragraph]) -> list[Paragraph]:
        """Drop repeated paragraphs and those that exceed `max_tokens`; if all do, truncate the first.

        A truncated paragraph keeps the questions whose answers are in what is left of it.
        """
        kept = []
        remaining_tokens = self.mix.max_tokens
        for paragraph in dict.fromkeys(paragraphs):
            num_tokens = sum(len(self.prompt.passage(text).ids) for text in paragraph.passages)
            if num_tokens <= remaining_tokens:
                kept.append(paragraph)
                remaining_tokens -= num_tokens
        if kept:
            return kept
        first = paragraphs[0]
        text = first.text[:MAX_TRUNCATED]
        is_left = [answer.casefold() in text.casefold() for _, answer in first.questions]
        return [Paragraph(text, () if first.others else tuple(compress(first.questions, is_left)))]

    def _draw_questions(
        self,
        texts: Sequence[str],
        answerable: list[tuple[str, str]],
        candidates: list[tuple[str, str]],
        rng: Random,
        unanswerable_questions: Sequence[str] = (),
    ) -> list[tuple[str, str]]:
        """Return questions in random order; those candidates whose answer is not in the passages are unanswerable."""
        context = "\n".join(texts).casefold()
        unanswerable = [(question, NO_ANSWER) for question, answer in candidates if answer.casefold() not in context]
        unanswerable += [(question, NO_ANSWER) for question in unanswerable_questions]
        rng.shuffle(answerable)
        rng.shuffle(unanswerable)
        answerable = answerable[: self.mix.max_questions]
        count = sum(rng.random() < self.mix.unanswerable_fraction for _ in range(max(4, len(answerable))))
        pairs = answerable + unanswerable[: max(count, not answerable)]
        return pairs or [(rng.choice(UNRELATED_QUESTIONS), NO_ANSWER)]

    def _answer_ids(self, answer: str) -> tuple[int, ...]:
        return (self.prompt.tokenizer.encode(answer).ids + self.prompt.end_ids)[:MAX_ANSWER_TOKENS]


def _cut_all(texts: Sequence[str], rng: Random) -> list[str]:
    """Return the passages cut at the first end of a sentence after 20 to 60 words each time, in random order."""
    parts = list[str]()
    for text in texts:
        part, num_words = "", rng.randint(*PART_WORDS)
        for sentence in split_sentences(text):
            if len(part.split()) >= num_words:
                parts.append(part.strip())
                part, num_words = "", rng.randint(*PART_WORDS)
            part += sentence
        parts.append(part.strip())
    rng.shuffle(parts)
    return parts


def _draw_windows(example: PackedExample, fraction: float, rng: Random) -> tuple[int, ...]:
    slot = len(example.prefix)
    slots = list[int]()
    for passage in example.passages:
        end = slot + len(passage)
        for start in range(slot, end, WINDOW_TOKENS):
            if rng.random() < fraction:
                slots += range(start, min(start + WINDOW_TOKENS, end))
        slot = end
    return tuple(slots)


def train_eval_split(
    prompt: PromptTemplate, corpora: Sequence[Corpus], mix: DataMix, seed: int, eval_fraction: float
) -> tuple[TrainingExamples, TrainingExamples]:
    """Return examples to train with, and examples without synthetic facts or cut passages to evaluate with.

    The last `eval_fraction` of each corpus' paragraphs are held out for evaluation. Corpora without questions provide
    distractors; if no corpus has questions, all get cloze questions. Raises BadCorpus if there are too few questions.
    """
    distractors = [paragraph for corpus in corpora if not corpus.num_questions for paragraph in corpus.paragraphs]
    with_questions = [corpus for corpus in corpora if corpus.num_questions]
    with_questions = with_questions or [add_cloze_questions(corpus, EVAL_SEED) for corpus in corpora]
    cuts = [round(len(corpus.paragraphs) * (1 - eval_fraction)) for corpus in with_questions]
    parts = list(zip(with_questions, cuts, strict=True))
    train = [replace(corpus, paragraphs=corpus.paragraphs[:cut]) for corpus, cut in parts]
    held_out = [replace(corpus, paragraphs=corpus.paragraphs[cut:]) for corpus, cut in parts]
    num_train, num_eval = (sum(corpus.num_questions for corpus in part) for part in (train, held_out))
    if min(num_train, num_eval) < MIN_QUESTIONS:
        raise BadCorpus(
            f"There are too few questions: {num_train} for training and {num_eval} for evaluation; {MIN_QUESTIONS} of "
            "each are needed. Add more files."
        )
    held_out = [corpus for corpus in held_out if corpus.num_questions]
    eval_mix = replace(mix, synthetic_fraction=0.0, split_fraction=0.0)
    return (
        TrainingExamples(prompt, train, distractors, mix, seed),
        TrainingExamples(prompt, held_out, distractors, eval_mix, EVAL_SEED),
    )


def check_context_length(decoder: Decoder, mix: DataMix) -> None:
    """Raise UnsupportedModel if an example may exceed the model's context."""
    available = decoder.spec.max_positions
    needed = mix.max_tokens + RESERVED_TOKENS
    if needed > available:
        raise UnsupportedModel(
            f"{decoder.name} has a context of {available} tokens, but an example may need {needed}; lower --tokens."
        )
