"""Find the rows that decide a question about a whole table: search finds the likeliest passages, not all rows.

'Which orders are open?' asks for rows anywhere in a long table, 'Which order was the largest?' for one of them. The
table's words and numbers decide, so all of its passages are read.
"""

import re
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import islice

from engine.prompt.overlap import content_stems
from engine.prompt.question_kind import ASKS, QuestionKind, question_kind
from engine.prompt.tables.assigned import ASKS_FOR_TASKS, assigned_rows
from engine.prompt.tables.columns import Cells
from engine.prompt.tables.conditions import conditions, rows_that_meet
from engine.prompt.tables.dates import DATE, PART_OF_YEAR
from engine.prompt.tables.strict import ALL, EMPTY, ROWS, SUM, listed_by_conditions, strict_conditions
from engine.prompt.tables.superlatives import ASKS_WHICH, SUPERLATIVE, extreme_cell
from engine.prompt.tables.totals import AMOUNT_WORD, AND, COUNTED, NO_ROWS, TableRows, asks_for_result, result_of_rows
from engine.prompt.tables.yes_no import said_rows
from store.markdown import parse_row
from store.types import Chunk, Finder, Hit

WHO = re.compile(r"^(?:who|wer)\b", re.I)
WITH = re.compile(r"\b(?:with|for|to|by|mit|f\u00fcr|bei|an)\b", re.I)  # others than those meant
EARNS = re.compile(r"\b(?:earn(?:s|ed|ing)?|verdien\w*)\b", re.I)  # more than an amount
MAX_CHUNKS = 200  # of a document whose rows are read: about 2,000 rows
MAX_ROW_CHUNKS = 8  # with rows that a question asks for

Row = tuple[Cells, Chunk]


def with_deciding_rows(
    finder: Finder,
    question: str,
    hits: Sequence[Hit],
    follow_up: str = "",
    more_hits: Callable[[], Sequence[Hit]] = tuple,
) -> tuple[list[Hit], TableRows]:
    """Return hits with the passages before them that have the rows which decide a question, if search found the table.

    As many as there were, unless more passages have rows that a question asks to list. Also returns the rows that the
    question asks to name, to list, to count or to add up; none if it does neither.

    follow_up  the question without the words of the one before it that it refers to, if any
    more_hits  searches for more, whose tables are read for a result if those of the hits have none
    """
    kind = question_kind(question)
    is_phrase = kind is QuestionKind.FACT and not ASKS.search(question) and not SUPERLATIVE.search(question)
    is_list = kind is QuestionKind.LIST or is_phrase  # 'unpaid invoices'
    has_result = asks_for_result(question) or bool(SUPERLATIVE.search(question))
    has_tasks = bool(ASKS_FOR_TASKS.search(question))
    is_about_rows = is_list or has_result or has_tasks or ASKS_WHICH.search(question)
    more = more_hits if has_result else tuple
    for rows, is_found in _tables_to_read(finder, hits, more) if is_about_rows else ():
        if follow_up and not _narrows(follow_up, question, [cells for cells, _ in rows]):
            continue
        deciding, result = _deciding_rows(question, rows, is_list, has_result)
        if deciding and (
            is_found or (result and _is_meant(question, [cells for cells, _ in rows], rows[0][1].subject))
        ):
            chunks = list(dict.fromkeys(rows[index][1] for index in deciding))
            known = {hit.chunk: hit for hit in hits}
            first = [known.get(chunk) or Hit(chunk, 0.0, similarity=None, matched_words=False) for chunk in chunks]
            first = first[: MAX_ROW_CHUNKS if is_list else len(hits)]
            ordered = [*first, *(hit for hit in hits if hit not in first)]
            are_meant = is_list or result or has_tasks or (WHO.search(question) and not SUPERLATIVE.search(question))
            meant = tuple(rows[index][0] for index in deciding) if are_meant else ()
            return ordered[: max(len(hits), len(first))], TableRows(meant, result)
    return list(hits), NO_ROWS


def _tables_to_read(
    finder: Finder, hits: Sequence[Hit], more_hits: Callable[[], Sequence[Hit]]
) -> Iterator[tuple[list[Row], bool]]:
    """Yield the rows of each table, and whether it is one of the hits or of a longer search, which follow."""
    for rows in _tables(finder, hits):
        yield rows, True
    for rows in _tables(finder, more_hits()):
        yield rows, False


def _is_meant(question: str, rows: Sequence[Cells], about: str) -> bool:
    """Return whether a question names a value of a table, a column or what it is about, not only dates and amounts."""
    question = DATE.sub(" ", PART_OF_YEAR.sub(" ", question))
    asked = content_stems(AMOUNT_WORD.sub(" ", SUM.sub(" ", question))) - content_stems(" ".join(ROWS))
    headers = " ".join(header for header, _ in rows[0])
    named = " ".join(each.words for each in conditions(question, rows) or ())
    return bool(asked & content_stems(f"{headers} {about} {named}"))


def _tables(finder: Finder, hits: Sequence[Hit]) -> Iterator[list[Row]]:
    """Yield the rows of each table that has a row in the hits; none of a document that is too long.

    A table whose columns have no headers has no rows.
    """
    first = ((hit.chunk.document_id, cells) for hit in hits for cells in islice(_rows(hit.chunk), 1))
    for document, headers in dict.fromkeys(
        (document, frozenset(name for name, _ in cells)) for document, cells in first
    ):
        chunks = finder.chunks(document)
        if len(chunks) <= MAX_CHUNKS and (rows := list(_rows_with(headers, chunks))):
            yield rows


def _narrows(follow_up: str, question: str, rows: Sequence[Cells]) -> bool:
    """Return whether the conditions of a follow-up hold in addition to those of the question before it.

    Of 'Which are open or overdue? How many of those are overdue?' both are about one column, which would mean either.
    """
    own, all_of_both = conditions(follow_up, rows), conditions(question, rows)
    known = {(each.header, each.text) for each in all_of_both or ()}
    return own is not None and all((each.header, each.text) in known for each in own)


def _deciding_rows(question: str, table: Sequence[Row], is_list: bool, has_result: bool) -> tuple[list[int], str]:
    """Return the rows that a question asks for, and what they add up to if it asks for that; or ''.

    They are those that it counts, adds up or filters, or the one with its superlative.
    """
    rows, about = [cells for cells, _ in table], table[0][1].subject
    if tasks := assigned_rows(question, rows):
        return tasks, ""
    if has_result and (found := result_of_rows(question, rows, about))[0]:
        return found
    if COUNTED.search(question):
        return [], ""
    if SUPERLATIVE.search(question):
        extreme = extreme_cell(question, rows, {}, about)
        return [extreme.row] if extreme and extreme.is_certain and not extreme.is_header else [], ""
    if is_list and conditions(question, rows) != []:
        return listed_by_conditions(question, rows, about), ""
    if WHO.search(question) and not WITH.search(ALL.sub(" ", question)):
        named = strict_conditions(question, rows, about, empty=(*EMPTY, EARNS))
        if named and not (
            AND.search(question) and any(", " in each.text for each in named)
        ):  # of two teams, or either?
            return rows_that_meet(named, rows), ""
    return said_rows(question, rows, is_strict=not is_list), ""


def _rows_with(headers: Set[str], chunks: Sequence[Chunk]) -> Iterator[Row]:
    """Yield the rows of a document that have most of these headers, and rows below those in which few cells are filled.

    Lines between rows end a table.
    """
    end, is_inside = 0, False
    for chunk in chunks:
        for line in chunk.text[max(0, end - chunk.start) :].strip("\n").split("\n"):
            cells = parse_row(line) or []
            own = {header for header, _ in cells}
            is_inside = len(headers & own) * 2 > len(headers) or (is_inside and bool(own) and own <= headers | {""})
            if is_inside and own - {""}:
                yield cells, chunk
        end = chunk.end


def _rows(chunk: Chunk) -> Iterator[Cells]:
    """Yield the table rows of a chunk."""
    return filter(None, map(parse_row, chunk.text.split("\n")))
