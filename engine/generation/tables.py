"""The tables of the passages of one prompt: the rows that belong together, and those that a question asks for."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from engine.generation.quotes import CELL
from engine.generation.ranking import UnitRanker
from engine.prompt.overlap import content_stems
from engine.prompt.pack import PreparedPrompt
from engine.prompt.tables.amounts import codes, numbers
from engine.prompt.tables.columns import PERSON_HEADER, Cells, requested_header
from engine.prompt.tables.conditions import conditions, rows_that_meet
from engine.prompt.tables.strict import listed_by_conditions
from engine.prompt.tables.superlatives import ASKS_WHICH, SUPERLATIVE, Extreme, extreme_cell
from engine.prompt.tables.yes_no import listed_rows, said_column, said_rows
from engine.prompt.units import Unit
from store.markdown import parse_row

MODAL = re.compile(
    r"\b(?:allowed|permitted|may|must|should|d\u00fcrfen|darf|muss|soll\w*|erlaubt|zul\u00e4ssig)\b", re.I
)
COMPARATIVE = re.compile(
    r"\b(?!other|rather|later|longer)(?:\w{3,}er|more|less) than\b|\bas (?!soon|well|long|far)\w+ as\b|\bso \w+ wie\b",
    re.I,
)
EXCEPTED = re.compile(  # what a row must not have
    r"\b(?:not?|non|never|nothing|none|without|outside|but|except|free|nicht|nie|kein\w*|ohne|au\u00dfer\w*)\b|n['\u2019]t\b|-frei\b",
    re.I,
)
NAME = re.compile(r"[^\W\d_]{3}")  # what a cell with the name of a row has; not one with its number
MAX_COMPARED_ROWS = 4


class Tables:
    """Finds rows by the words of a question."""

    def __init__(self, prepared: PreparedPrompt, ranker: UnitRanker) -> None:
        self._prepared, self._ranker = prepared, ranker
        self._question = prepared.original_question

    def row(self, unit: Unit) -> Cells:
        """Return the headers and values of a table row; none of other units."""
        return parse_row(self._ranker.text(unit)) or []

    def matching_rows(self, row: Unit) -> list[Unit]:
        """Return the rows of the table of a row that have the values which the question names; often none."""
        units, hits = self.rows_with(row), self._prepared.hits
        if not units:
            return []
        about = hits[row.passage].chunk.subject if hits else ""
        rows = list(map(self.row, units))
        return [units[index] for index in listed_by_conditions(self._prepared.standalone_question, rows, about)]

    def listed_rows(self, row: Unit) -> list[Unit]:
        """Return the rows of the table of a row that a question asks to list, or that meet the conditions it names.

        The latter with the row itself: other words of the question may be conditions that no rule knows.
        """
        units = self.rows_with(row)
        rows = list(map(self.row, units))
        if not self._has_other_conditions(rows) and (found := listed_rows(self._question, rows)):
            return [units[index] for index in found]
        if SUPERLATIVE.search(self._question) or EXCEPTED.search(self._question):
            return []
        met = conditions(self._question, rows) or []
        is_denied = any(each.is_denied for each in met)
        same = [units[index] for index in rows_that_meet(met, rows)] if met and not is_denied else []
        return same if row in same and 1 < len(same) < len(rows) else []

    def said_names(self, likely: Sequence[Unit]) -> list[Unit]:
        """Return the names of the rows that say yes, or no, in the column that the question names; often none.

        The table is that of the most likely unit, or another one if the question has all words of the column's header.
        """
        if not ASKS_WHICH.search(self._question) or numbers(self._question):  # a number means one row
            return []
        for units in self._tables(likely):
            is_best, rows = likely[0] in units, list(map(self.row, units))
            if self._has_other_conditions(rows):
                continue
            if found := said_rows(self._question, rows, is_strict=not is_best):
                return [self._name(units[index]) for index in found]
        return []

    def meant_rows(self) -> list[Unit]:
        """Return the rows that the question means, of those in the passages; often none.

        They are named by their first cell, if that is below 'Name'.
        """
        units = {tuple(self.row(unit)): unit for unit in reversed(self._ranker.units)}
        rows = [row for row in map(tuple, self._prepared.table_rows.rows) if row in units]
        is_name = not self._prepared.table_rows.result and all(PERSON_HEADER.fullmatch(row[0][0]) for row in rows)
        return [self._name(units[row]) if is_name else units[row] for row in rows]

    def extreme(self, likely: Sequence[Unit]) -> tuple[Unit, Extreme] | None:
        """Return the row with the question's superlative, of the most likely unit's table, or another if it is certain.

        Another table has to be about what the question asks for.
        """
        if not SUPERLATIVE.search(self._question) or MODAL.search(self._question):
            return None
        for units in self._tables(likely):
            rows = list(map(self.row, units))
            titles = list(dict.fromkeys(title for row in rows for title in (*(header for header, _ in row), row[0][1])))
            similarities = dict(zip(titles, self._ranker.cosines(self._question, titles), strict=True))
            found = extreme_cell(self._question, rows, similarities, self._about(units))
            if found and (likely[0] in units or (found.is_certain and self._is_about(units))):
                return units[found.row], found
        return None

    def rows_of_comparative(self, likely: Sequence[Unit]) -> list[Unit]:
        """Return the rows that a question with a comparative names, of the best unit's table; none unless several."""
        rows = self.compared_rows(likely) if COMPARATIVE.search(self._question) else []
        return rows if likely and len(rows) > 1 and likely[0] in self.rows_with(rows[0]) else []

    def compared_rows(self, likely: Sequence[Unit]) -> list[Unit]:
        """Return the rows that a question names by codes, or by words which no other row of their table begins with."""
        asked = {stem for stem in content_stems(self._question) if not stem.isdecimal()}
        found = list[Unit]()
        for units in self._tables(likely):
            values = ([value for _, value in self.row(unit) if NAME.search(value)] for unit in units)
            names = [content_stems(" ".join(each[:1])) for each in values]
            counts = Counter(chain.from_iterable(names))
            own = [{stem for stem in name & asked if counts[stem] == 1} for name in names]
            wanted = codes(self._question)
            with_code = [unit for unit in units if wanted & codes(self.row(unit)[0][1])]
            named = [unit for unit, stems in zip(units, own, strict=True) if stems]
            named = with_code if len(with_code) > 1 else named
            if len(found) < len(named) <= MAX_COMPARED_ROWS:
                found = named
        return found

    def _has_other_conditions(self, rows: Sequence[Cells]) -> bool:
        """Return whether a question limits the rows by more than a column of yes and no."""
        said = said_column(self._question, rows, is_strict=True)
        return any(each.header != said for each in conditions(self._question, rows) or ())

    def _is_about(self, units: Sequence[Unit]) -> bool:
        """Return whether a table, its headings or the name of its document share words with the question."""
        stems = content_stems(self._about(units)) | {
            stem for header, _ in self.row(units[0]) for stem in content_stems(header)
        }
        return bool(stems & content_stems(self._question))

    def _about(self, units: Sequence[Unit]) -> str:
        """Return the headings of a table and the name of its document."""
        return f"{self._ranker.contexts[units[0].passage]} {self._ranker.headings[units[0]]}"

    def _tables(self, likely: Sequence[Unit]) -> Iterator[list[Unit]]:
        """Yield the rows of each table, those with likely rows first, then those of the first passage."""
        first = [unit for unit in self._ranker.units if unit.passage == 0]
        seen = set[Unit]()
        for unit in (*likely, *first):
            if unit.block.kind == "table" and unit not in seen and (units := self.rows_with(unit)):
                seen.update(units)
                yield units

    def rows_with(self, row: Unit) -> list[Unit]:
        """Return the rows of the table of a row, also those in other passages of its document; none of other units.

        Passages overlap, so a row of two of them is returned once.
        """
        hits, own = self._prepared.hits, self._ranker.text(row)
        headers = {header for header, _ in self.row(row)}

        def is_of_table(unit: Unit) -> bool:
            is_same = not hits or hits[unit.passage].chunk.document_id == hits[row.passage].chunk.document_id
            return is_same and len(headers & {header for header, _ in self.row(unit)}) * 2 > len(headers)

        rows = dict[str, Unit]()
        for unit in filter(is_of_table, self._ranker.units):
            text = self._ranker.text(unit)
            rows.setdefault(text, row if text == own else unit)
        return list(rows.values())

    def _name(self, row: Unit) -> Unit:
        """Return the part of a row that names it: the cell below the header that the question asks for, or the first.

        A number says little, so then it is the whole row.
        """
        cells = list(CELL.finditer(self._ranker.text(row)))
        requested = requested_header(self._question, [cell[1] or "" for cell in cells])
        cell = next((cell for cell in cells if cell[1] == requested), cells[0])
        if not any(map(str.isalpha, cell[2])):
            return row
        return Unit(row.passage, row.start + cell.start(2), row.start + cell.end(2), row.block)
