"""Rank what may be quoted from the passages of a prompt by how well it answers a question."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import add, attrgetter, itemgetter

from engine.generation.document_questions import answers_to_questions, is_question
from engine.generation.section import SENTENCE_END
from engine.generation.span_scorer import SpanScores
from engine.model.encoder import Encoder
from engine.prompt.answer_type import EXCLUSION, asks_for_reason, expected_content
from engine.prompt.editions import is_former, other_editions, tells_edition
from engine.prompt.followups import YEAR, relative_year
from engine.prompt.overlap import content_stems, sentence_scores
from engine.prompt.pack import PreparedPrompt
from engine.prompt.tables.amounts import codes, numbers
from engine.prompt.tables.columns import named_header
from engine.prompt.tables.limits import is_in_range
from engine.prompt.tables.period_columns import lacks_period
from engine.prompt.titles import CAPTION_LEVEL, parse_title
from engine.prompt.units import Unit, split_units
from store.markdown import MAX_CAPTION_CHARS, Block, parse_row

# The weights were chosen on the same questions as those of engine.generation.evidence.
OVERLAP_WEIGHT = 0.45  # nats per nat of shared words
SIMILARITY_WEIGHT = 20.0  # nats per unit of the cosine between the embeddings of question and quote
TYPE_PENALTY = 4.0  # nats for a quote, span or cell of one word, or without the number, time or name asked for
UNIT = re.compile(r"\d ?([^\W\d_]{2,})")  # after a number
EXACT_WEIGHT = 6.0  # nats for the question's code or edition, a row with its number, or what is not covered if asked
NEWEST_WEIGHT = 2.0  # nats for the newest of several editions, if the question does not say which it means
CAPTION_PENALTY = 4.0  # nats for the caption of a table, whose rows answer
FOLLOW_UP_PENALTY = 12.0  # nats for a quote without any word that is new in a follow-up
RANK_PENALTY = 0.4  # nats per passage before it
MIN_PROBABILITY = 1e-6  # of a unit; lower ones are clipped
MIN_VERSION_SIMILARITY = 0.6  # cosine between the sentences of two documents that are compared
SAME_HEADING = 0.15  # of that cosine, for two below the same heading
MAX_EMBEDDED_UNITS = 16  # that are ranked by more than words and probability
ONE_WORD = re.compile(r"\W*[^\W\d_]+\W*")
MAX_GAP = 5.0  # nats between the best unit and another that may answer instead
MAX_READ_PASSAGES = 6  # by the span scorer, again for each question


@dataclass(frozen=True)
class RankedUnit:
    """A unit, how well it answers the question, in nats, and its embedding's cosine with the question's."""

    unit: Unit
    score: float
    similarity: float = 0.0  # computed for the first ones only


@dataclass(frozen=True)
class QuestionPart:
    """One of several questions in one, and how the passages answer it."""

    question: str
    scores: SpanScores
    ranked: list[RankedUnit]


class UnitRanker:
    """The units of the passages of one prompt, and how they rank for a question."""

    def __init__(
        self, prepared: PreparedPrompt, encoder: Encoder | None = None, quote_encoder: Encoder | None = None
    ) -> None:
        self._prepared = prepared
        self._encoder = encoder
        self._quote_encoder = quote_encoder or encoder

    @cached_property
    def units(self) -> list[Unit]:
        """The units of all passages, without the context before a chunk."""
        return [
            unit
            for index, (text, context) in enumerate(zip(self._prepared.texts, self.contexts, strict=True))
            for unit in split_units(index, text)
            if unit.start >= len(context)
        ]

    @cached_property
    def captions(self) -> dict[tuple[int, Block], Unit]:
        """The caption of each table, by passage and block: the line above it, unless that is a sentence."""
        return {
            (row.passage, row.block): line
            for line, row in pairwise(self.units)
            if line.passage == row.passage and (line.block.kind, row.block.kind) == ("paragraph", "table")
            if is_caption(self.text(line))
        }

    def rows_below(self, caption: Unit) -> list[Unit]:
        """Return the rows of the table with a caption; none of other units."""
        tables = [table for table, line in self.captions.items() if line == caption]
        return [unit for unit in self.units if (unit.passage, unit.block) in tables]

    @cached_property
    def headings(self) -> dict[Unit, str]:
        """The nearest heading above each unit in its passage, without mark and number, and its table's caption.

        The question that a unit answers is part of its heading.
        """
        headings: dict[Unit, str] = {}
        last: tuple[int, str] = (-1, "")
        for unit in self.units:
            if unit.block.kind == "heading":
                last = (unit.passage, parse_title(self.text(unit)).text)
            caption = self.captions.get((unit.passage, unit.block))
            titles = [last[1] if last[0] == unit.passage else "", self.text(caption) if caption else ""]
            headings[unit] = " ".join(filter(None, titles))
        for question, answer in answers_to_questions(self._prepared, self.units).items():
            if question.block.kind != "heading":
                headings |= {unit: f"{headings[unit]} {self.text(question)}".strip() for unit in answer}
        return headings

    @cached_property
    def contexts(self) -> list[str]:
        hits = self._prepared.hits
        return [hit.chunk.context for hit in hits] if hits else [""] * len(self._prepared.texts)

    @property
    def bodies(self) -> list[str]:
        """The passages without the context before a chunk."""
        return [text[len(context) :] for text, context in zip(self._prepared.texts, self.contexts, strict=True)]

    def likely_passages(self, question: str) -> list[int]:
        """Return the passages that the span scorer reads: those found first, or that share the most with a question.

        Of a document that is read whole, whose passages no search has scored, these are all.
        """
        hits, count = self._prepared.hits, len(self._prepared.texts)
        if count <= MAX_READ_PASSAGES or (hits and not any(hit.score for hit in hits)):
            return list(range(count))
        overlaps: dict[int, float] = defaultdict(float)
        for unit, overlap in self.overlaps(question).items():
            overlaps[unit.passage] = max(overlap, overlaps[unit.passage])
        found = [hit.score for hit in hits] or [0.0] * count
        by_score = sorted(range(count), key=lambda index: (found[index], overlaps[index]), reverse=True)
        return sorted(by_score[:MAX_READ_PASSAGES])

    def rank(self, question: str, scores: SpanScores) -> list[RankedUnit]:
        """Return the units that may be quoted, those that most likely hold the answer first.

        The first ones are ranked again by the similarity of their embeddings to the question's.
        """
        overlaps = self.overlaps(question)
        rules = self._rules(question)

        def score(unit: Unit) -> float:
            probability = scores.mass(unit.passage, unit.start, unit.end)
            return score_quote(probability, overlaps[unit], unit.passage) + rules(unit)

        ranked = sorted((RankedUnit(unit, score(unit)) for unit in overlaps), key=attrgetter("score"), reverse=True)
        likely, rest = ranked[:MAX_EMBEDDED_UNITS], ranked[MAX_EMBEDDED_UNITS:]
        cosines = _cosines(self._quote_encoder, question, [self._with_heading(each.unit) for each in likely])
        similar = [
            RankedUnit(each.unit, each.score + SIMILARITY_WEIGHT * cosine, cosine)
            for each, cosine in zip(likely, cosines, strict=True)
        ]
        return sorted(similar, key=attrgetter("score"), reverse=True) + rest

    def _rules(self, question: str) -> Callable[[Unit], float]:
        """Return a function of a unit: the nats that it gains or loses by what the question says exactly."""
        original = self._prepared.original_question
        is_whole = question == self._prepared.standalone_question
        wanted = (codes(original) if is_whole else set()) or codes(question)  # a follow-up is not about earlier codes
        expected, asks_for_exclusion = expected_content(question), bool(EXCLUSION.search(question))
        asks_why, captions = asks_for_reason(question), set(self.captions.values())
        is_new_number = is_whole and bool(
            set(UNIT.findall(original)) & set(UNIT.findall(question.removesuffix(original)))
        )
        asks_by = original if is_new_number else question  # 'And 10 days before?' after '40 days'
        asked = set(numbers(asks_by))
        told = original if is_whole and tells_edition(original) else question
        other = other_editions(told, [hit.chunk.document_name for hit in self._prepared.hits])
        new_words = self._new_words(question, has_editions=bool(other.excluded or other.older))

        def rules(unit: Unit) -> float:
            text = self.text(unit)
            nats = -CAPTION_PENALTY * (unit in captions)
            row = parse_row(text) or []
            is_exact = (
                wanted & codes(text) or is_in_range(asks_by, row) or asked & set(numbers(row[0][1] if row else ""))
            )
            if is_exact or named_header(question, [name for name, _ in row]):
                nats += EXACT_WEIGHT
            nats -= EXACT_WEIGHT * (unit.passage in other.excluded) + NEWEST_WEIGHT * (unit.passage in other.older)
            is_word = unit.block.kind == "paragraph" and _is_alone(unit) and ONE_WORD.fullmatch(text)
            is_no_reason = asks_why and bool(row)
            if is_word or is_no_reason or (expected is not None and not expected.is_in(text)):
                nats -= TYPE_PENALTY
            nats -= EXACT_WEIGHT * (bool(row) and lacks_period(original, row))
            nats -= NEWEST_WEIGHT * is_former(self.headings[unit], question)
            nats += EXACT_WEIGHT * (asks_for_exclusion and bool(EXCLUSION.search(self._with_heading(unit))))
            if new_words and not new_words & content_stems(text):
                nats -= FOLLOW_UP_PENALTY
            return nats

        return rules

    def _new_words(self, question: str, has_editions: bool) -> set[str]:
        """Return the stems by which a follow-up differs from the turns before it; none if no unit has one.

        Of one that asks the same about another year, only the year, unless that names an edition of a document.
        """
        original = self._prepared.original_question
        if original == question or question != self._prepared.standalone_question:
            return set()
        new = content_stems(original) - content_stems(question.removesuffix(original))
        if relative_year(question) or YEAR.search(original):
            new = set() if has_editions else set(YEAR.findall(original))
        return new & {stem for unit in self.units for stem in content_stems(self.text(unit))}

    def cosines(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return the similarity of the embeddings of texts to that of a question; 0 without an encoder."""
        return _cosines(self._encoder, question, texts)

    def other_version(self, unit: Unit, others: Sequence[Unit]) -> Unit | None:
        """Return the most similar one of other units, if it may be a version of the same sentence."""
        cosines = self.cosines(self.text(unit), [self.text(other) for other in others])
        is_below = [
            SAME_HEADING * bool(self.headings[unit] and self.headings[unit] == self.headings[other]) for other in others
        ]
        cosine, index = max(zip(map(add, cosines, is_below), range(len(others)), strict=True), default=(0.0, 0))
        return others[index] if cosine >= MIN_VERSION_SIMILARITY else None

    def overlaps(self, question: str) -> dict[Unit, float]:
        """How many words of a question each unit that may be quoted and its passage's context share, in nats."""
        by_passage: list[list[Unit]] = [[] for _ in self.contexts]
        for unit in self.units:
            if unit.block.kind != "heading":
                by_passage[unit.passage].append(unit)
        by_passage = [[unit for unit in units if not self._is_title(unit)] or units for units in by_passage]
        texts = [
            [f"{context} {self.headings[unit]} {self.text(unit)}" for unit in units]
            for context, units in zip(self.contexts, by_passage, strict=True)
        ]
        scores = sentence_scores(texts, question)
        original = self._prepared.original_question
        if original != question == self._prepared.standalone_question:  # a follow-up counts more than what is before it
            last = sentence_scores(texts, original)
            scores = [sum(pair) for pair in zip(scores, last, strict=True)]
        return dict(zip((unit for units in by_passage for unit in units), scores, strict=True))

    def _is_title(self, unit: Unit) -> bool:
        """Return whether a sentence only says what comes next: a question, or the caption of a table."""
        return unit.block.kind == "paragraph" and (
            is_question(unit, self._prepared.texts)
            or (_is_alone(unit) and parse_title(self.text(unit)).level == CAPTION_LEVEL)
        )

    def _with_heading(self, unit: Unit) -> str:
        """Return a unit's text; a list item or table row, which means little alone, below its heading."""
        heading = self.headings[unit] if unit.block.kind in ("list", "table") else ""
        return f"{heading}\n{self.text(unit)}" if heading else self.text(unit)

    def text(self, unit: Unit) -> str:
        return unit.text(self._prepared.texts)


def nearly_best(rankings: Iterable[Sequence[RankedUnit]]) -> list[Unit]:
    """Return the units that are at most MAX_GAP behind the best of their ranking, the nearest to it first."""
    gaps = [(ranked[0].score - each.score, each.unit) for ranked in rankings for each in ranked]
    return [unit for gap, unit in sorted(gaps, key=itemgetter(0)) if gap <= MAX_GAP]


def _cosines(encoder: Encoder | None, question: str, texts: Sequence[str]) -> list[float]:
    if encoder is None or not texts:
        return [0.0] * len(texts)
    vectors = encoder.embed_sentences([question, *texts])
    return (vectors[1:] @ vectors[0]).tolist()


def is_caption(text: str) -> bool:
    """Return whether a line above a table names it: it has no number but that of the table or a year."""
    is_short = len(text) <= MAX_CAPTION_CHARS and not SENTENCE_END.search(text)
    return is_short and not re.search(r"\d", YEAR.sub("", parse_title(text).text))


def _is_alone(unit: Unit) -> bool:
    """Return whether a unit is a whole block."""
    return unit.start == unit.block.start and unit.end == unit.block.end


def score_quote(probability: float, overlap: float, passage: int) -> float:
    """Return how well a quote answers: the span scorer's probability, shared words in nats, and the passage's rank."""
    return log_probability(probability) + OVERLAP_WEIGHT * overlap - RANK_PENALTY * passage


def log_probability(probability: float) -> float:
    """Return the logarithm of a probability, in nats; at least that of MIN_PROBABILITY."""
    return math.log(max(MIN_PROBABILITY, probability))
