"""Which rows have one column below or above another: 'items below their reorder level', 'departments over budget'."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from engine.prompt.followups import YEAR
from engine.prompt.overlap import content_stems
from engine.prompt.tables.amounts import are_comparable, cell_number
from engine.prompt.tables.columns import Cells, is_money, number_columns
from engine.prompt.tables.limits import without_limits

COMPARED = re.compile(
    r"\b(?:(?:spent|spend|costs?|used|sold|stayed) )?(?:(?P<below>below|under|short of"
    r"|(?:less|lower|fewer|smaller)(?: \w+)? than|unter|weniger als)"
    r"|above|over|exceed(?:s|ed|ing)?|(?:more|higher|greater|larger)(?: \w+)? than|\u00fcber|mehr als)"
    r"\s+(?:(?:the|their|its|our|d(?:er|ie|as|em|en)|ihre[mnrs]?|seine[mnrs]?)\s+)?"
    r"(?P<limit>[^\W\d_][\w-]*(?:\s+[^\W\d_][\w-]*){0,2})",
    re.I,
)
DERIVED = re.compile(r"\b(?:variance|differ\w*|deviat\w*|diff|remain\w*|change|share|abweich\w*|rest\w*)\b", re.I)
MEASURED = re.compile(  # the column that is compared, if several could be
    r"\b(?:actual|spent|spend\w*|costs?|stock|quantity|qty|on hand|current\w*|used|ist|bestand|menge|verbrauch\w*)\b",
    re.I,
)
OR_EQUAL = re.compile(r"\b(?:at|on|equal to|auf|bei) (?:or|oder) $", re.I)
UNIT = re.compile(r"\(([^)]*)\)|(%)")


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """A column whose number has to be below, or above, that of another."""

    header: str
    limit: str  # the other column
    is_below: bool
    text: str  # of the question

    def is_met(self, row: Mapping[str, str]) -> bool:
        number, limit = (cell_number(row.get(header, "")) for header in (self.header, self.limit))
        return number is not None and limit is not None and (number < limit if self.is_below else number > limit)


def find_compared_columns(question: str, rows: Sequence[Cells]) -> ComparedColumns | None:
    """Return the columns that a question compares; None if it compares none, or it is unclear which is meant.

    All words up to the next function word name the limit: 'sales target' is not the column 'Sales'.
    """
    columns = number_columns(rows)
    for match in COMPARED.finditer(question):
        if OR_EQUAL.search(question[: match.start()]):
            continue
        named = list(takewhile(lambda word: content_stems(word[0]), re.finditer(r"\S+", match["limit"])))
        if not named:
            continue
        text = question[match.start() : match.start("limit") + named[-1].end()]
        stems = content_stems(" ".join(word[0] for word in named))
        limits = [header for header in columns if stems <= content_stems(header)]
        rest = without_limits(question.replace(text, " "))
        header = _compared_with(limits[0], rest, columns, rows) if len(limits) == 1 else None
        if header and set(YEAR.findall(rest)) <= set(YEAR.findall(header)):
            return ComparedColumns(header, limits[0], bool(match["below"]), text)
    return None


def _compared_with(limit: str, question: str, columns: Sequence[str], rows: Sequence[Cells]) -> str | None:
    """Return the column that a question names in full, or that of what was measured; of the limit's unit and year."""
    stems = content_stems(question)
    others = [
        header
        for header in columns
        if header != limit
        and is_money(header, rows) == is_money(limit, rows)
        and not DERIVED.search(header)
        and set(YEAR.findall(header)) == set(YEAR.findall(limit))
        and UNIT.findall(header) == UNIT.findall(limit)
        and are_comparable(dict(row).get(name, "") for row in rows for name in (header, limit))
    ]
    named = [header for header in others if (own := content_stems(header) - content_stems(limit)) and own <= stems]
    measured = [header for header in others if MEASURED.search(header)]
    return next((found[0] for found in (named, measured) if len(found) == 1), None)
