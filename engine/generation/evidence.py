"""The evidence for an answer: the quotes that support it, how likely it is right, and answers made of quotes alone.

A list, the steps of a procedure, a comparison, several questions in one and a summary are quoted from the passages: a
small model leaves out items and mixes them up. Which words are quoted follows from the span scorer, the words and
embeddings that question and passage share, and the blocks of the text (store.markdown); `QuestionKind` says what.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from operator import attrgetter, itemgetter, mul
from threading import Event
from typing import Self

from engine.generation.bridge import Bridge, connecting_units, find_bridges
from engine.generation.cells import likely_cells
from engine.generation.changes import describe_comparison, format_changes
from engine.generation.confidence import SUMMARY_CONFIDENCE, Confidence, quote_confidence
from engine.generation.counterparts import Counterparts
from engine.generation.document_questions import MAX_ANSWER_UNITS, answers_to_questions, find_answered_question
from engine.generation.labelled import find_labelled
from engine.generation.lists import announced, enumerates, judged_lists, likely_list, says_what_to_do
from engine.generation.quotes import Candidate, format_quotes, format_unit, other_quotes, whole_words, with_unit
from engine.generation.ranking import (
    MAX_EMBEDDED_UNITS,
    MIN_PROBABILITY,
    TYPE_PENALTY,
    QuestionPart,
    RankedUnit,
    UnitRanker,
    log_probability,
    nearly_best,
)
from engine.generation.section import KINDS as SECTION_KINDS
from engine.generation.section import MAX_SECTION_UNITS, Section, find_section, find_titled_section
from engine.generation.span_scorer import Span, SpanScorer, SpanScores
from engine.generation.summary import format_sections, summary_units, topic_units
from engine.generation.tables import Tables
from engine.generation.verdict import SAID, verdict
from engine.prompt.answer_type import PERSON, asks_for_more, expected_content, words_before
from engine.prompt.editions import VERSION, without_editions
from engine.prompt.named_documents import several_documents
from engine.prompt.overlap import CHOICE_WORDS, content_words, unsupported_words
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind, question_kind, split_parts
from engine.prompt.tables.amounts import codes
from engine.prompt.tables.period_columns import lacks_period
from engine.prompt.tables.superlatives import SUPERLATIVE
from engine.prompt.tables.totals import NO_ROWS
from engine.prompt.units import Unit
from engine.request import MIN_TRUSTED_CONFIDENCE, Quote
from engine.text import split_words

COMPOSABLE_KINDS = (QuestionKind.FACT, QuestionKind.COMPARISON)  # a question may contain several of these
MAX_RESCORED_UNITS = 3
MAX_SPANS_PER_UNIT = 4
MAX_CANDIDATES = 6  # of all units, which the main model scores
MODEL_WEIGHT = 0.4  # nats of a span's score per nat of the main model's log-likelihood
MIN_HIGHLIGHT_SHARE = 0.7  # probability of the best span of a sentence, or cell of a row, to be highlighted in it
MIN_CELL_SHARE = 0.95  # probability of the best cell of a table row; below it, the answer is the whole row
LIST_WEIGHT = 1.0  # nats for a list, compared with a table row or sentence; chosen on the same questions
FINDERS = (find_section, find_titled_section, find_answered_question, find_labelled)  # of text that answers as a whole
SURE = 0.8  # confidence in the best quote, from which on no list of another document replaces it
TABLE_CONFIDENCE = 0.7  # at least, of what all rows of a table say in the column that the question names; not fitted
PLURAL = re.compile(r"\b(?:are|were|have|sind|waren|haben)\b", re.I)


class Evidence:
    """What the passages of one prompt say about its question. Raises Cancelled once `cancel` is set."""

    def __init__(
        self, scorer: SpanScorer, prepared: PreparedPrompt, ranker: UnitRanker, cancel: Event | None = None
    ) -> None:
        names = {hit.chunk.document_id: hit.chunk.document_name for hit in prepared.hits}
        self._several = several_documents(prepared.original_question, names)
        kind = question_kind(prepared.original_question)
        self.kind = QuestionKind.COMPARISON if self._several and kind in SECTION_KINDS else kind
        self._prepared = prepared
        self.table_rows = prepared.table_rows if self.kind in (*SECTION_KINDS, QuestionKind.YES_NO) else NO_ROWS
        self._ranker = ranker
        self._tables = Tables(prepared, self._ranker)
        self._scorer, self._cancel = scorer, cancel
        found = (find(prepared, self.kind, self._ranker.units) for find in FINDERS)
        self._section = next((section for section in found if section.units), Section())

    def read(self) -> Self:
        """Let the span scorer read now what an answer of quotes needs, not when that is first used."""
        _ = self._parts or self.scores
        return self

    @property
    def has_answer(self) -> bool:
        """Whether the passages are likely to hold the answer."""
        return self.confidence.is_enough(self.kind)

    def quoted_answer(self) -> list[Quote]:
        """Return the quotes that answer the question, in the order to show them; none if a model is to answer."""
        changes = [quote for change in self._prepared.changes for quote in change]
        if changes or self._section.units:
            return changes or self._quotes(self._section.units)
        if self.kind is QuestionKind.SUMMARY:
            return self._quotes(self._topic or summary_units(self._prepared, self._ranker))
        if self.kind is QuestionKind.COMPARISON:
            return self._comparison()
        if self._parts:
            return [self._sure_row.quote] if self._sure_row else self._quotes(self._best_of_parts())
        if self._said:
            return self._said
        if self.kind is QuestionKind.LIST:
            return [] if self._extreme else self._list()
        if self.kind is QuestionKind.FACT and (found := self._announced() or self._likely_list()):
            return found
        if self.kind is QuestionKind.STEPS:
            return self._best_list() or self.closest()[:1]
        return self._quotes(self._with_yes_or_no()) if self.kind is QuestionKind.YES_NO else []

    def quoted_text(self, quotes: Sequence[Quote]) -> str:
        """Return an answer made of these quotes."""
        changes = self._prepared.changes
        return format_changes(changes) if changes else self.lead(quotes) + format_quotes(quotes)

    def lead(self, quotes: Sequence[Quote]) -> str:
        """Return what an answer says before its quotes: 'Yes: ' or 'No: ' if it is trusted, or what changed; or ''."""
        if self.table_rows.result and self._said:
            return f"{self.table_rows.result}:\n"
        if self.kind is QuestionKind.YES_NO and self.confidence.right >= MIN_TRUSTED_CONFIDENCE:
            answer = verdict(self._prepared.original_question, [quote.text for quote in quotes])
            return answer and f"{answer}: "
        if self.kind is QuestionKind.SUMMARY:
            return "" if self._topic else format_sections(self._prepared)
        compares = self.kind is QuestionKind.COMPARISON
        return describe_comparison(self._prepared.original_question, quotes) if compares else ""

    def candidates(self) -> list[Candidate]:
        """Return the possible answers to a question about a fact: likely spans of the most likely quotes.

        None repeats the question or an earlier turn, unless the question is which of two things it names.
        """
        if self._extreme:
            return [self._extreme[0]]
        question = self._prepared.original_question
        question_words = set(split_words(self._prepared.standalone_question))
        is_choice = bool(CHOICE_WORDS & question_words)
        expected, before = expected_content(question), words_before(question)
        excluded = content_words(question) if PERSON.search(question) and not is_choice else set()
        found = []
        for ranked in self._ranked[:MAX_RESCORED_UNITS]:
            unit, is_row = ranked.unit, ranked.unit.block.kind == "table"
            text = self._prepared.texts[unit.passage][: unit.end]
            answers = dict[str, float]()
            cells = likely_cells(unit, self._prepared, self._ranker, self.scores) if is_row else []
            for relative, span in cells or self._spans(unit):
                start, end = whole_words(text, span.start, span.end)
                words = set(split_words(text[start:end]))
                is_echo = not is_choice and (words <= question_words or bool(words & excluded))
                if words and not is_echo and len(answers) < MAX_SPANS_PER_UNIT:
                    cell_start = text.rfind("| ", 0, start) if is_row else -1
                    whole = text[start:end] if cell_start < 0 else f"{text[cell_start:end]} |"
                    is_mismatch = (expected is not None and not expected.is_in(whole)) or (
                        before is not None and not before.search(text[:start])
                    )
                    score = ranked.score + relative - TYPE_PENALTY * is_mismatch
                    answers.setdefault(format_unit(text[start:end]).strip("*_"), score)
            found += [Candidate(answer, unit, self._quote(unit), total) for answer, total in answers.items()]
        return sorted(found, key=attrgetter("score"), reverse=True)[:MAX_CANDIDATES]

    def choose(
        self, candidates: Sequence[Candidate], log_likelihoods: Callable[[Sequence[str]], Sequence[float]]
    ) -> Candidate:
        """Return the best candidate; `log_likelihoods` of texts are the main model's, in nats.

        The main model was not trained on table rows, so it has no say about cells, and is not run if a cell is best
        without it: it can only lower the others. A span is highlighted in its sentence, which is right more often, and
        so is a cell in its row, unless it is much more likely than the row's other cells: then it is all of the answer.
        """
        is_cell = [each.unit.block.kind == "table" for each in candidates]
        scores = [each.score for each in candidates]
        if not is_cell[scores.index(max(scores))]:
            values = log_likelihoods([each.text for each in candidates])
            weights = [0.0 if cell else MODEL_WEIGHT for cell in is_cell]
            scores = [sum(each) for each in zip(scores, map(mul, weights, values), strict=True)]
        index = scores.index(max(scores))
        best = candidates[index]
        same_unit = zip(scores, candidates, strict=True)
        total = sum(math.exp(score - scores[index]) for score, each in same_unit if each.unit == best.unit)
        share = 0.0 if asks_for_more(self._prepared.original_question) else 1 / total
        if is_cell[index] and share >= MIN_CELL_SHARE:
            cells = self._tables.row(best.unit)
            whole = [cell for cell in cells if cell[1] == best.text] or [cell for cell in cells if best.text in cell[1]]
            texts = {with_unit(value, header) for header, value in whole}
            return replace(best, text=texts.pop()) if len(texts) == 1 else best
        highlight = best.text if share >= MIN_HIGHLIGHT_SHARE else ""
        return replace(best, text=format_unit(best.quote.text), highlight=highlight)

    @cached_property
    def bridges(self) -> list[Bridge]:
        """The connections between passages over which a fact may be found."""
        return find_bridges(self._prepared.standalone_question, self._ranker.bodies)

    def across_passages(self, answer: str) -> list[Quote]:
        """Return the quotes that a model's answer follows from together; none if it does not take two passages."""
        question, ranker = self._prepared.standalone_question, self._ranker
        return self._quotes(connecting_units(question, self.bridges, ranker.units, ranker.text, answer))

    def closest(self, shown: Sequence[Quote] = ()) -> list[Quote]:
        """Return the most likely quotes but those shown, for a question without a sure answer."""
        rankings = [part.ranked for part in self._parts] or [self._ranked]
        return other_quotes(self._quotes(nearly_best(rankings)), shown)

    def supporting(self, answer: str) -> list[Quote]:
        """Return the quote that supports a model's answer: of the likely ones, that with most of its words."""
        words = set(split_words(answer))
        likely = [each.unit for each in self._ranked[:MAX_EMBEDDED_UNITS]]
        best = max(likely, key=lambda unit: len(words & set(split_words(self._ranker.text(unit)))), default=None)
        return [self._quote(best)] if best else []

    def unsupported(self, answer: str) -> list[str]:
        """Return the numbers and names of a model's answer that neither passages nor question contain."""
        return unsupported_words(answer, [*self._prepared.texts, self._prepared.standalone_question])

    @cached_property
    def confidence(self) -> Confidence:
        """The confidence in an answer made of the best quote; 0 if no passage has what the question expects."""
        if self._prepared.changes or self._section.units:  # by comparing all, or by its heading
            return Confidence(1.0 if self._prepared.changes else self._section.confidence, 1.0)
        if self.kind is QuestionKind.SUMMARY:
            return SUMMARY_CONFIDENCE
        least = TABLE_CONFIDENCE if self._sure_row or (not self._parts and self._said) else 0.0
        if self._parts:
            answered = [part for part in self._parts if part.ranked]
            found = [
                quote_confidence(QuestionKind.FACT, each.question, each.ranked, self._ranker, each.scores)
                for each in answered
            ]
            sums = sum(each.right for each in found), sum(each.answerable for each in found)
            return Confidence(*(max(least, total / len(self._parts)) for total in sums))
        question = self._prepared.standalone_question
        expected = expected_content(self._prepared.original_question)
        has_form = expected is None or any(map(expected.cell.search, self._prepared.texts))
        if not has_form or not self._ranked:
            return Confidence(0.0, 0.0)
        original, best_row = self._prepared.original_question, self._tables.row(self._ranked[0].unit)
        if best_row and not least and lacks_period(original, best_row):
            return Confidence(0.0, 0.0)
        best = quote_confidence(self.kind, question, self._ranked, self._ranker, self.scores)
        return Confidence(max(least, best.right), max(least, best.answerable))

    @cached_property
    def scores(self) -> SpanScores:
        """The span scorer's scores for the whole question; the versions of a comparison name documents, not words."""
        question = self._prepared.standalone_question
        return self._read(VERSION.sub("", question) if self.kind is QuestionKind.COMPARISON else question)

    @cached_property
    def _parts(self) -> list[QuestionPart]:
        """The questions in a question that contains several; none otherwise."""
        parts = split_parts(self._prepared.original_question) if self.kind in COMPOSABLE_KINDS else []
        return [self._read_part(part) for part in parts] if len(parts) > 1 else []

    def _read(self, question: str) -> SpanScores:
        passages = self._ranker.likely_passages(question)
        return self._scorer.score(question, self._prepared.texts, self._cancel, passages)

    def _read_part(self, question: str) -> QuestionPart:
        scores = self._read(question)
        return QuestionPart(question, scores, self._ranker.rank(question, scores))

    def _best_of_parts(self) -> list[Unit]:
        return [each.unit for part in self._parts for each in part.ranked[:1]]

    @cached_property
    def _ranked(self) -> list[RankedUnit]:
        question = self._prepared.standalone_question
        if self.kind is QuestionKind.COMPARISON:  # editions name documents, not sentences
            question = without_editions(question)
        return self._ranker.rank(question, self.scores)

    @cached_property
    def _topic(self) -> list[Unit]:
        return topic_units(self._prepared, self._ranker, [each.unit for each in self._ranked])

    @property
    def _counterparts(self) -> Counterparts:
        return Counterparts(self._prepared, self._ranker, [each.unit for each in self._ranked])

    @cached_property
    def _likely(self) -> list[Unit]:
        return [each.unit for each in self._ranked[:MAX_EMBEDDED_UNITS]]

    @cached_property
    def _extreme(self) -> tuple[Candidate, bool] | None:
        """What has the question's superlative, if a table says so, and whether the question names what is compared."""
        may_be_list = self.kind is QuestionKind.LIST and not PLURAL.search(self._prepared.original_question)
        is_asked = self.kind is QuestionKind.FACT or may_be_list
        found = self._tables.extreme(self._likely) if is_asked else None
        if found is None or (may_be_list and not found[1].is_certain):
            return None
        row, extreme = found
        quote = self._quote(row)
        is_short = extreme.name and not codes(extreme.name)  # a row says more than its number
        text = extreme.name if is_short or extreme.is_header else format_unit(quote.text)
        return Candidate(text, row, quote, 0.0), extreme.is_certain

    @property
    def _sure_row(self) -> Candidate | None:
        """The row with the superlative of the question, or of its first part, if that names what is compared."""
        is_asked = not self._parts or SUPERLATIVE.search(self._parts[0].question)
        return self._extreme[0] if is_asked and self._extreme and self._extreme[1] else None

    @cached_property
    def _said(self) -> list[Quote]:
        """The first rows that the question means, or the names of those that say yes, or no, in a column it names."""
        if self.table_rows.result or (self.table_rows.rows and self.kind in SECTION_KINDS):
            return self._quotes(self._tables.meant_rows()[:MAX_SECTION_UNITS])
        return self._quotes(self._tables.said_names(self._likely)) if self.kind in SECTION_KINDS else []

    def _with_yes_or_no(self) -> Sequence[Unit]:
        """Return the best unit, or the rows that the question compares, or all of an FAQ's answer of yes or no."""
        if rows := self._tables.rows_of_comparative(self._likely):
            return rows
        answers = answers_to_questions(self._prepared, self._ranker.units).values()
        said = (answer for answer in answers if self._best in answer and SAID.match(self._ranker.text(answer[0])))
        return next(said, [self._best] if self._best else [])[:MAX_ANSWER_UNITS]

    @property
    def _best(self) -> Unit | None:
        return self._ranked[0].unit if self._ranked else None

    def _spans(self, unit: Unit) -> list[tuple[float, Span]]:
        """Return the likely spans of a unit with their scores in nats, the best first."""
        mass = max(MIN_PROBABILITY, self.scores.mass(unit.passage, unit.start, unit.end))
        likely = self.scores.likely_between(unit.passage, unit.start, unit.end)
        return [(log_probability(span.probability / mass), span) for span in likely]

    def _list(self) -> list[Quote]:
        """Return the list or rows that a question asks for; rows of the best quote's table before others."""
        best, others = self._likely[:1], self._likely[1:]
        enumerations = list(filter(self._enumerates, nearly_best([self._ranked])[:MAX_RESCORED_UNITS]))
        attempts = chain(
            (self._quotes(self._tables.matching_rows(unit)) for unit in best),
            iter([self._best_list()]),
            (self._quotes(self._tables.listed_rows(unit)) for unit in best),
            iter([self._announced(), self._quotes(enumerations[:1])]),
            (self._quotes(self._tables.matching_rows(unit) or self._tables.listed_rows(unit)) for unit in others),
        )
        return next(filter(None, attempts), self.closest()[:1])

    def _announced(self) -> list[Quote]:
        found = announced(self._ranker, self._best, self.kind is QuestionKind.LIST) if self._best else []
        return [self._quote_at(*each) for each in found]

    def _best_list(self) -> list[Quote]:
        """Return the list, or the paragraph with a procedure, that most likely answers; none if something else does."""
        lists = judged_lists(self.kind, self._prepared, self._ranker, self.scores)
        if self.confidence.right >= SURE:
            lists = [each for each in lists if self._document(each[1]) == self._document(self._ranked[0].unit.passage)]
        others = [each.score for each in self._ranked[:MAX_RESCORED_UNITS] if self._may_replace_list(each.unit)]
        if not lists or max(others, default=-math.inf) > max(score for score, *_ in lists) + LIST_WEIGHT:
            return []
        _, passage, block = max(lists, key=itemgetter(0))
        return [self._quote_at(passage, block.start, block.end)]

    def _likely_list(self) -> list[Quote]:
        found = likely_list(self._prepared, self._ranker, self.scores, self._ranked)
        return [self._quote_at(found[0], found[1].start, found[1].end)] if found else []

    def _may_replace_list(self, unit: Unit) -> bool:
        """Return whether a unit can answer instead of a list: a table row, or a sentence that enumerates."""
        is_row = unit.block.kind == "table" and (
            self.kind is not QuestionKind.STEPS or says_what_to_do(self._tables.row(unit))
        )
        return is_row or (self.kind is QuestionKind.LIST and self._enumerates(unit))

    def _enumerates(self, unit: Unit) -> bool:
        return unit.block.kind == "paragraph" and enumerates(self._ranker.text(unit))

    def _comparison(self) -> list[Quote]:
        """Return the quotes that a comparison is answered with, those of one document after the other."""
        if not self._parts and not self._several and (announced := self._announced()):
            return announced
        units = self._best_of_parts() if self._parts else self._counterparts.compared(self._tables, self._several)
        return sorted(self._quotes(units), key=lambda quote: (quote.document, quote.rank))

    def _quotes(self, units: Iterator[Unit] | Sequence[Unit]) -> list[Quote]:
        return list(dict.fromkeys(map(self._quote, units)))

    def _quote(self, unit: Unit) -> Quote:
        return self._quote_at(unit.passage, unit.start, unit.end)

    def _quote_at(self, passage: int, start: int, end: int) -> Quote:
        text = self._prepared.texts[passage][start:end].strip()
        return Quote(passage + 1, start, end, text, self._document(passage))

    def _document(self, passage: int) -> str:
        return self._prepared.hits[passage].chunk.document_name if self._prepared.hits else ""
