"""The versions of a sentence in other documents, for a comparison of these."""

from collections.abc import Sequence, Set
from itertools import chain

from engine.generation.ranking import MAX_EMBEDDED_UNITS, UnitRanker
from engine.generation.tables import Tables
from engine.prompt.editions import FORMER, editions_in
from engine.prompt.named_documents import split_topic
from engine.prompt.overlap import content_stems, stem
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import PATTERNS, QuestionKind
from engine.prompt.tables.columns import names_columns
from engine.prompt.units import Unit


class Counterparts:
    """Finds versions among the units of one prompt, which are ranked by a question."""

    def __init__(self, prepared: PreparedPrompt, ranker: UnitRanker, ranked: Sequence[Unit]) -> None:
        self._prepared, self._ranker, self._ranked = prepared, ranker, ranked
        self._documents = [hit.chunk.document_id for hit in prepared.hits]  # of the passages; none if they have none

    def compared(self, tables: Tables, several: Set[str]) -> list[Unit]:
        """Return the rows that the question names, or the best unit and its counterpart, or the next best.

        several  ids of the documents that the question names, if any
        """
        units = list(self._ranked[:2])
        rows = tables.compared_rows(self._ranked[:MAX_EMBEDDED_UNITS])
        if units and len(rows) == 1 and not tables.row(units[0]):  # the best sentence names no row
            rows = self.versions(rows[0])
        if len(rows) > 1 and not several:
            pairs = [self._pair(row) for row in rows] if self._compares_editions else []
            return list(dict.fromkeys(chain.from_iterable(pairs))) if pairs and all(pairs) else rows
        if units and several:
            return self.best_of_each(units[0], several)
        if units and (pair := self.versions(units[0])):
            return pair
        is_row_of_both = bool(units) and names_columns(self._prepared.standalone_question, tables.row(units[0]))
        return units[:1] if is_row_of_both else units

    def versions(self, best: Unit) -> list[Unit]:
        """Return the best unit and its counterpart; if they are equal, another pair of its paragraph or section.

        A question whether something has changed is not about another sentence.
        """
        pair = self._pair(best)
        text, headings = self._ranker.text, self._ranker.headings
        asks_whether = PATTERNS[QuestionKind.YES_NO].search(self._prepared.original_question)
        if not pair or len(set(map(text, pair))) > 1 or asks_whether:
            return pair
        likely = self._ranked[:MAX_EMBEDDED_UNITS]
        beside = (unit for unit in self._ranker.units if (unit.passage, unit.block) == (best.passage, best.block))
        others = (unit for unit in likely if unit.passage == best.passage and headings[unit] == headings[best])
        return next((other for other in map(self._pair, chain(beside, others)) if len(set(map(text, other))) > 1), pair)

    def best_of_each(self, best: Unit, documents: Set[str]) -> list[Unit]:
        """Return the best unit, and of each other document its counterpart or the best on the question's topic."""
        topic = set(map(stem, split_topic(self._prepared.original_question)[1]))
        units = [best]
        for document in documents - {self._documents[best.passage]}:
            ranked = [unit for unit in self._ranked if self._documents[unit.passage] == document]
            about = (unit for unit in ranked if topic & content_stems(self._prepared.texts[unit.passage]))
            unit = self._counterpart(best, {document}) or next(about, None)
            units += [unit] if unit else []
        return units

    @property
    def _compares_editions(self) -> bool:
        """Whether the question is about two editions, and the passages are of two or more documents."""
        question = self._prepared.original_question
        is_asked = FORMER.search(question) or len(editions_in(question)) > 1
        return bool(is_asked) and len(set(self._documents)) > 1

    def _pair(self, best: Unit) -> list[Unit]:
        counterpart = self._counterpart(best, set(self._documents))
        return [best, counterpart] if counterpart else []

    def _counterpart(self, best: Unit, documents: set[str]) -> Unit | None:
        """Return the unit of other documents that is most similar to the best one: two versions of a sentence."""
        if not self._documents:
            return None
        documents = documents - {self._documents[best.passage]}
        others = [unit for unit in self._ranked if self._documents[unit.passage] in documents]
        return self._ranker.other_version(best, others[: 3 * MAX_EMBEDDED_UNITS])
