"""The evidence for an answer: the quotes that support it, how likely it is right, and answers made of quotes alone.

A list, the steps of a procedure, a comparison, several questions in one and a summary are quoted from the passages: a
small model leaves out items and mixes them up. Which words are quoted follows from the span scorer and from the blocks
of the text (store.markdown); `QuestionKind` says what to quote.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from operator import itemgetter
from threading import Event

from engine.generation.overlap import sentence_scores
from engine.generation.span_scorer import SpanScorer, SpanScores
from engine.model.encoder import Encoder
from engine.prompt.followups import STOP_WORD
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind, question_kind, split_parts
from engine.request import Quote
from engine.text import split_sentences, split_words
from store.markdown import LIST_ITEM, Block, parse_row, split_blocks

QUOTED_KINDS = (QuestionKind.LIST, QuestionKind.STEPS, QuestionKind.YES_NO)
COMPOSABLE_KINDS = (QuestionKind.FACT, QuestionKind.COMPARISON)  # a question may contain several of these
MAX_NO_ANSWER = 0.8  # probability of no answer; above it, the passages do not answer
MIN_LIST_PROBABILITY = 0.05  # of a list with the line or heading above it
MIN_LIST_ITEMS = 2
OVERLAP_WEIGHT = (
    0.5  # nats of a unit's score per nat of shared words; these three were chosen on `bench documents`, dev
)
SIMILARITY_WEIGHT = 10.0  # nats per unit of the cosine between the embeddings of question and quote
RANK_PENALTY = 0.2  # nats per passage before it
MIN_PROBABILITY = 1e-6  # of a unit; lower ones are clipped
MAX_CANDIDATES = 8  # units among which a quote is chosen by more than its probability
SUMMARY_SENTENCES = 5
MIN_SENTENCE_WORDS = 4  # content words of a sentence in a summary
MAX_SUMMARIZED_PASSAGES = 3
QUESTION_WORD_WEIGHT = 4
WORD_REST = re.compile(r"(?:-?\w)*")  # the rest of a word behind a word piece


@dataclass(frozen=True)
class Unit:
    """A sentence, list item, heading or table row of a passage: what a quote consists of."""

    passage: int
    start: int
    end: int
    block: Block


@dataclass(frozen=True)
class Candidate:
    """A possible answer: a span of a quote, and how well the quote answers the question, in nats."""

    text: str
    quote: Quote
    score: float


class Evidence:
    """What the passages of one prompt say about its question. Raises Cancelled once `cancel` is set."""

    def __init__(
        self,
        scorer: SpanScorer,
        prepared: PreparedPrompt,
        cancel: Event | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        self.kind = question_kind(prepared.original_question)
        self.scores = scorer.score(prepared.standalone_question, prepared.texts, cancel)
        self._prepared = prepared
        self._encoder = encoder
        parts = split_parts(prepared.original_question) if self.kind in COMPOSABLE_KINDS else []
        parts = parts if len(parts) > 1 else []
        self._parts = [self._rank(part, scorer.score(part, prepared.texts, cancel)) for part in parts]

    @property
    def has_answer(self) -> bool:
        """Whether the passages are likely to hold the answer; a summary needs no single span."""
        return self.kind is QuestionKind.SUMMARY or self.scores.no_answer <= MAX_NO_ANSWER

    def quoted_answer(self) -> list[Quote]:
        """Return the quotes that answer the question, in the order to show them; none if a model is to answer."""
        if self.kind is QuestionKind.SUMMARY:
            return self._summary()
        if self.kind is QuestionKind.COMPARISON:
            return self._comparison()
        if self._parts:
            return list(dict.fromkeys(self._quote(unit) for ranked in self._parts for _, unit in ranked[:1]))
        if self.kind in (QuestionKind.LIST, QuestionKind.STEPS) and (items := self._best_list()):
            return [items]
        best = self._ranked[:1] if self.kind in QUOTED_KINDS else []
        return [self._quote(unit) for _, unit in best]

    def candidates(self) -> list[Candidate]:
        """Return the possible answers to a question about a fact, best first: the likely span of each likely quote."""
        found = dict[str, Candidate]()
        for score, unit in self._ranked[:MAX_CANDIDATES]:
            if span := self.scores.best_between(unit.passage, unit.start, unit.end):
                text = self._prepared.texts[span.passage][: unit.end]
                end = span.end + len(WORD_REST.match(text, span.end).group())  # type: ignore[union-attr]
                answer = text[span.start : end]
                found.setdefault(answer, Candidate(answer, self._quote(unit), score))
        return list(found.values())

    def closest(self) -> list[Quote]:
        """Return the most likely quotes, for a question without an answer."""
        return [self._quote(unit) for _, unit in self._ranked[:2]]

    def supporting(self, answer: str) -> list[Quote]:
        """Return the quote that supports a model's answer: of the likely ones, that with most of its words."""
        words = set(split_words(answer))
        likely = [unit for _, unit in self._ranked[:MAX_CANDIDATES]]
        best = max(likely, key=lambda unit: len(words & set(split_words(self._text(unit)))), default=None)
        return [self._quote(best)] if best else []

    def confidence(self, answer: str) -> float:
        """Return how likely an answer is right: the mean probability of its words to be inside the answer's span."""
        words = [word for word in split_words(answer) if not STOP_WORD.fullmatch(word)] or split_words(answer)
        probabilities = [self._word_probabilities.get(word, 0.0) for word in words]
        return sum(probabilities) / max(1, len(probabilities))

    @cached_property
    def _word_probabilities(self) -> dict[str, float]:
        probabilities: dict[str, float] = defaultdict(float)
        for window, inside in zip(self.scores.windows, self.scores.inside(), strict=True):
            text = self._prepared.texts[window.passage]
            for (start, end), value in zip(window.spans, inside.tolist(), strict=True):
                for word in split_words(text[start:end]):
                    probabilities[word] = max(probabilities[word], value)
        return probabilities

    @cached_property
    def _units(self) -> list[Unit]:
        """The units of all passages, without the context before a chunk."""
        hits = self._prepared.hits
        contexts = [hit.chunk.context for hit in hits] if hits else [""] * len(self._prepared.texts)
        return [
            unit
            for index, (text, context) in enumerate(zip(self._prepared.texts, contexts, strict=True))
            for unit in _split_units(index, text)
            if unit.start >= len(context)
        ]

    @cached_property
    def _ranked(self) -> list[tuple[float, Unit]]:
        return self._rank(self._prepared.standalone_question, self.scores)

    def _rank(self, question: str, scores: SpanScores) -> list[tuple[float, Unit]]:
        """Return the units that may be quoted with their scores in nats, the most likely to hold the answer first.

        The first ones are ranked again by the similarity of their embeddings to the question's.
        """
        overlaps = self._overlaps(question)

        def score(unit: Unit) -> float:
            probability = scores.mass(unit.passage, unit.start, unit.end)
            return _score(probability, overlaps[unit], unit.passage)

        ranked = sorted(((score(unit), unit) for unit in overlaps), key=itemgetter(0), reverse=True)
        likely, rest = ranked[:MAX_CANDIDATES], ranked[MAX_CANDIDATES:]
        if self._encoder is not None and likely:
            vectors = self._encoder.embed_sentences([question, *(self._text(unit) for _, unit in likely)])
            cosines = (vectors[1:] @ vectors[0]).tolist()
            likely = [
                (each + SIMILARITY_WEIGHT * cosine, unit) for (each, unit), cosine in zip(likely, cosines, strict=True)
            ]
            likely.sort(key=itemgetter(0), reverse=True)
        return likely + rest

    def _overlaps(self, question: str) -> dict[Unit, float]:
        """How many words of a question each unit that may be quoted and its passage's context share, in nats."""
        contexts = [hit.chunk.context for hit in self._prepared.hits] or [""] * len(self._prepared.texts)
        by_passage: list[list[Unit]] = [[] for _ in contexts]
        for unit in self._units:
            if unit.block.kind != "heading":
                by_passage[unit.passage].append(unit)
        texts = [
            [f"{context} {self._text(unit)}" for unit in units]
            for context, units in zip(contexts, by_passage, strict=True)
        ]
        scores = sentence_scores(texts, question)
        return dict(zip((unit for units in by_passage for unit in units), scores, strict=True))

    def _best_list(self) -> Quote | None:
        """Return the list that most likely answers, judged together with the line or heading above it."""
        overlaps = self._overlaps(self._prepared.standalone_question)
        best, best_score = None, -math.inf
        above: list[Unit] = []
        for (passage, block), group in groupby(self._units, key=lambda unit: (unit.passage, unit.block)):
            units = list(group)
            if block.kind == "list" and len(units) >= MIN_LIST_ITEMS:
                judged = [unit for unit in above if unit.passage == passage] + units
                probability = self.scores.mass(passage, judged[0].start, block.end)
                overlap = max(overlaps.get(unit, 0.0) for unit in judged)
                score = _score(probability, overlap, passage)
                if score > best_score and probability > MIN_LIST_PROBABILITY:
                    best, best_score = self._quote_at(passage, block.start, block.end), score
            above = units[-1:]
        return best

    def _comparison(self) -> list[Quote]:
        """Return the best quote of each of two documents, or the two best of one."""
        units = [unit for _, unit in self._ranked[:MAX_CANDIDATES]]
        if self._parts:
            units = [unit for ranked in self._parts for _, unit in ranked[:1]]
        elif self._prepared.hits:
            by_document: dict[str, Unit] = {}
            for unit in units:
                by_document.setdefault(self._prepared.hits[unit.passage].chunk.document_id, unit)
            units = list(by_document.values()) if len(by_document) > 1 else units
        quotes = list(dict.fromkeys(map(self._quote, units)))[:2]
        return sorted(quotes, key=lambda quote: (quote.document, quote.rank))

    def _summary(self) -> list[Quote]:
        """Return the sentences whose words are frequent in the best document's passages, in their order.

        SumBasic (Nenkova and Vanderwende, 2005): the words of a chosen sentence count less for the next one. Words of
        the question count more.
        """
        hits = self._prepared.hits
        passages = [i for i, hit in enumerate(hits) if hit.chunk.document_id == hits[0].chunk.document_id] or [0]
        units = [
            unit
            for unit in self._units
            if unit.passage in passages[:MAX_SUMMARIZED_PASSAGES] and unit.block.kind in ("paragraph", "list")
        ]
        words_of = [_content_words(self._text(unit)) for unit in units]
        counts = Counter(word for words in words_of for word in words)
        weight = {word: count / counts.total() for word, count in counts.items()}
        for word in _content_words(self._prepared.standalone_question) & weight.keys():
            weight[word] *= QUESTION_WORD_WEIGHT
        chosen: list[int] = []
        while len(chosen) < SUMMARY_SENTENCES:
            rest = [i for i, words in enumerate(words_of) if i not in chosen and len(words) >= MIN_SENTENCE_WORDS]
            if not rest:
                break
            chosen.append(
                max(rest, key=lambda at: sum(weight[word] for word in words_of[at]) / len(words_of[at]) ** 0.5)
            )
            for word in words_of[chosen[-1]]:
                weight[word] **= 2
        return [self._quote(units[at]) for at in sorted(chosen)]

    def _quote(self, unit: Unit) -> Quote:
        return self._quote_at(unit.passage, unit.start, unit.end)

    def _quote_at(self, passage: int, start: int, end: int) -> Quote:
        hits = self._prepared.hits
        document = hits[passage].chunk.document_name if hits else ""
        return Quote(passage + 1, start, end, self._prepared.texts[passage][start:end].strip(), document)

    def _text(self, unit: Unit) -> str:
        return self._prepared.texts[unit.passage][unit.start : unit.end]


def _score(probability: float, overlap: float, passage: int) -> float:
    """Return how well a quote answers: the span scorer's probability, shared words in nats, and the passage's rank."""
    return math.log(max(MIN_PROBABILITY, probability)) + OVERLAP_WEIGHT * overlap - RANK_PENALTY * passage


def format_quotes(quotes: Sequence[Quote]) -> str:
    """Return quotes as an answer: a line each, table rows without bars, with a mark [n] after each quote."""
    return "\n".join(f"{_readable(quote.text)} [{quote.rank}]" for quote in quotes)


def _readable(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        cells = parse_row(line)
        lines.append("; ".join(f"{name}: {value}" if name else value for name, value in cells) if cells else line)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _content_words(text: str) -> set[str]:
    return {word for word in split_words(text) if not STOP_WORD.fullmatch(word)}


def _split_units(passage: int, text: str) -> list[Unit]:
    units = []
    for block in split_blocks(text):
        body = text[block.start : block.end]
        if block.kind in ("table", "list"):
            parts = re.split(rf"(?<=\n)(?={LIST_ITEM.pattern})" if block.kind == "list" else r"(?<=\n)", body)
        else:
            parts = split_sentences(body) if block.kind == "paragraph" else [body]
        starts = accumulate((len(part) for part in parts), initial=block.start)
        for start, part in zip(starts, parts, strict=False):
            if stripped := part.strip():
                at = start + part.index(stripped[0])
                units.append(Unit(passage, at, at + len(stripped), block))
    return units
