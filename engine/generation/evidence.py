"""The evidence for an answer: the quotes that support it, how likely it is right, and answers made of quotes alone.

A list, the steps of a procedure, a comparison, several questions in one and a summary are quoted from the passages: a
small model leaves out items and mixes them up. Which words are quoted follows from the span scorer and from the blocks
of the text (store.markdown); `QuestionKind` says what to quote.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from threading import Event

from engine.generation.span_scorer import Span, SpanScorer, SpanScores
from engine.prompt.followups import STOP_WORD
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind, question_kind, split_parts
from engine.request import Quote
from engine.text import split_sentences, split_words
from store.markdown import Block, parse_row, split_blocks

MIN_LIST_ITEMS = 2  # a span over so many items asks for the whole list
SUMMARY_SENTENCES = 5
QUOTED_KINDS = (QuestionKind.LIST, QuestionKind.STEPS, QuestionKind.YES_NO)
MIN_ANSWER_PROBABILITY = 0.2  # of some span; below it, the passages do not answer


@dataclass(frozen=True)
class Unit:
    """A sentence, list item, heading or table row of a passage: what a quote consists of."""

    passage: int
    start: int
    end: int
    block: Block


class Evidence:
    """What the passages of one prompt say about its question. Raises Cancelled once `cancel` is set."""

    def __init__(self, scorer: SpanScorer, prepared: PreparedPrompt, cancel: Event | None = None) -> None:
        self.kind = question_kind(prepared.original_question)
        self.scores = scorer.score(prepared.standalone_question, prepared.texts, cancel)
        self._prepared = prepared
        self._parts: list[SpanScores] = []
        parts = split_parts(prepared.original_question)
        if len(parts) > 1 and self.kind in (QuestionKind.FACT, QuestionKind.COMPARISON):
            self._parts = [scorer.score(part, prepared.texts, cancel) for part in parts]

    @property
    def has_answer(self) -> bool:
        """Whether the passages are likely to hold the answer; a summary needs no single span."""
        return self.kind is QuestionKind.SUMMARY or self.scores.no_answer <= 1 - MIN_ANSWER_PROBABILITY

    def quoted_answer(self) -> list[Quote]:
        """Return the quotes that answer the question, in the order to show them; none if a model is to answer."""
        best = self.scores.best
        if best is None:
            return []
        if self.kind is QuestionKind.SUMMARY:
            return self._summary()
        if self.kind is QuestionKind.COMPARISON:
            return self._comparison()
        if self._parts:
            spans = [part.best for part in self._parts]
            return self._distinct([self._quote(span) for span in spans if span is not None])
        items = self._list_at(best)
        if items is not None:
            return [items]
        return [self._quote(best)] if self.kind in QUOTED_KINDS else []

    def closest(self) -> list[Quote]:
        """Return the most likely quotes of the best passages, for a question without an answer."""
        return [self._quote(span) for span in self._best_by_passage()[:2]]

    def supporting(self, answer: str) -> list[Quote]:
        """Return the quote that supports a model's answer; the most likely one that has its words."""
        words = set(split_words(answer))
        best = max(
            self._best_by_passage(),
            key=lambda span: (len(words & set(split_words(self._quote(span).text))), span.probability),
            default=None,
        )
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
    def _units(self) -> list[list[Unit]]:
        return [_split_units(index, text) for index, text in enumerate(self._prepared.texts)]

    def _best_by_passage(self) -> list[Span]:
        """Return each passage's most likely span, the most likely first."""
        spans = [self.scores.best_in(range(index, index + 1)) for index in range(len(self._prepared.texts))]
        return sorted((span for span in spans if span is not None), key=lambda span: -span.probability)

    def _quote(self, span: Span) -> Quote:
        """Return the units that a span overlaps, as one quote."""
        units = [unit for unit in self._units[span.passage] if unit.start < span.end and unit.end > span.start]
        start, end = (units[0].start, units[-1].end) if units else (span.start, span.end)
        return self._quote_at(span.passage, start, end)

    def _quote_at(self, passage: int, start: int, end: int) -> Quote:
        text = self._prepared.texts[passage]
        chunk = self._prepared.hits[passage].chunk if self._prepared.hits else None
        return Quote(passage + 1, start, end, text[start:end].strip(), chunk.document_name if chunk else "")

    def _list_at(self, span: Span) -> Quote | None:
        """Return the list that a span covers several items of, or that a question for a list or steps leads to."""
        units = self._units[span.passage]
        covered = [unit for unit in units if unit.start < span.end and unit.end > span.start]
        in_list = [unit for unit in covered if unit.block.kind == "list"]
        wants_list = self.kind in (QuestionKind.LIST, QuestionKind.STEPS)
        if not in_list and wants_list and covered:  # the sentence or heading above the list
            after = next((unit for unit in units if unit.start >= covered[-1].end), None)
            is_introduction = covered[-1].block.kind == "heading" or self._text(covered[-1]).rstrip().endswith(":")
            in_list = [after] if after is not None and after.block.kind == "list" and is_introduction else []
        if in_list and (wants_list or len(in_list) >= MIN_LIST_ITEMS):
            block = in_list[0].block
            return self._quote_at(span.passage, block.start, block.end)
        return None

    def _comparison(self) -> list[Quote]:
        """Return a quote from each document, or the two best ones if all passages are of one document."""
        by_document: dict[str, list[int]] = defaultdict(list)
        for index, hit in enumerate(self._prepared.hits):
            by_document[hit.chunk.document_id].append(index)
        if len(by_document) > 1:
            spans = [self.scores.best_in(passages) for passages in by_document.values()]
            likely = [span for span in spans if span is not None]
            likely.sort(key=lambda span: -span.probability)
            return sorted(map(self._quote, likely[:2]), key=lambda quote: quote.document)
        spans = [part.best for part in self._parts] or self._best_by_passage()[:2]
        return self._distinct([self._quote(span) for span in spans if span is not None])

    def _summary(self) -> list[Quote]:
        """Return the sentences whose words are frequent in the passages of the best document, in their order.

        SumBasic (Nenkova and Vanderwende, 2005): the words of a chosen sentence count less for the next one.
        """
        best = self.scores.best
        hits = self._prepared.hits
        document = hits[best.passage].chunk.document_id if best and hits else None
        units = [
            unit
            for index, of_passage in enumerate(self._units)
            if document is None or hits[index].chunk.document_id == document
            for unit in of_passage
            if unit.block.kind in ("paragraph", "list") and len(split_words(self._text(unit))) >= 6
        ]
        words_of = [_content_words(self._text(unit)) for unit in units]
        frequency = Counter(word for words in words_of for word in words)
        total = sum(frequency.values()) or 1
        weight = {word: count / total for word, count in frequency.items()}
        for word in _content_words(self._prepared.standalone_question):
            weight[word] = 4 * weight.get(word, 0.0)
        chosen: list[int] = []
        while len(chosen) < min(SUMMARY_SENTENCES, len(units)):
            rest = [index for index in range(len(units)) if index not in chosen and words_of[index]]
            if not rest:
                break
            index = max(rest, key=lambda at: sum(weight[word] for word in words_of[at]) / len(words_of[at]) ** 0.5)
            chosen.append(index)
            for word in words_of[index]:
                weight[word] **= 2
        return [self._quote_at(units[at].passage, units[at].start, units[at].end) for at in sorted(chosen)]

    def _text(self, unit: Unit) -> str:
        return self._prepared.texts[unit.passage][unit.start : unit.end]

    @staticmethod
    def _distinct(quotes: Sequence[Quote]) -> list[Quote]:
        return list({(quote.rank, quote.start): quote for quote in quotes}.values())


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
        if block.kind == "table":
            parts = re.split(r"(?<=\n)", body)
        elif block.kind == "list":
            parts = re.split(r"\n(?=[ \t]*(?:[-*+\u2022]|\(?\w{1,3}[.)])[ \t])", body)
            parts = [part + "\n" for part in parts[:-1]] + parts[-1:]
        else:
            parts = split_sentences(body) if block.kind == "paragraph" else [body]
        starts = accumulate((len(part) for part in parts), initial=block.start)
        for start, part in zip(starts, parts, strict=False):
            if stripped := part.strip():
                at = start + part.index(stripped[0])
                units.append(Unit(passage, at, at + len(stripped), block))
    return units
