"""Find the rows that decide a question about a whole table: search finds the likeliest passages, not all rows.

'Which orders are open?' asks for rows anywhere in a long table, 'Which order was the largest?' for one of them. The
table's words and numbers decide, so all of its passages are read.
"""

from collections.abc import Iterator, Sequence

from engine.prompt.question_kind import QuestionKind, question_kind
from engine.prompt.superlatives import ASKS_WHICH, SUPERLATIVE, extreme_cell
from engine.prompt.table_questions import Cells, filtered_rows, said_rows
from store.markdown import parse_row
from store.types import Chunk, Finder, Hit

MAX_CHUNKS = 500  # of a document whose rows are read: about 10,000 rows
MAX_ROW_CHUNKS = 8  # with rows that a question asks for

Row = tuple[Cells, Chunk]


def with_deciding_rows(finder: Finder, question: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits with the passages before them that have the rows which decide a question, if search found the table.

    As many as there were, unless more passages have rows that a question asks to list.
    """
    is_list = question_kind(question) is QuestionKind.LIST
    found = (
        [hit.chunk for hit in hits if next(_rows(hit.chunk), None)] if is_list or ASKS_WHICH.search(question) else []
    )
    for chunk in found:
        chunks = finder.chunks(chunk.document_id)
        rows = list(_rows_of_table(chunk, chunks)) if 1 < len(chunks) <= MAX_CHUNKS else []
        deciding = _deciding_rows(question, [cells for cells, _ in rows], is_list)
        if deciding:
            first = {rows[index][1].id: Hit(rows[index][1], 0.0, None, False) for index in deciding}
            first = dict(list(first.items())[:MAX_ROW_CHUNKS]) | {
                hit.chunk.id: hit for hit in hits if hit.chunk.id in first
            }
            others = [hit for hit in hits if hit.chunk.id not in first]
            return [*first.values(), *others][: max(len(hits), len(first))]
    return list(hits)


def _deciding_rows(question: str, rows: Sequence[Cells], is_list: bool) -> list[int]:
    """Return the rows that a question asks for: those that it filters, or the one with its superlative."""
    if SUPERLATIVE.search(question):
        extreme = extreme_cell(question, rows, similarities={})
        return [extreme.row] if extreme and extreme.is_certain and not extreme.is_header else []
    filtered = filtered_rows(question, rows) if is_list else []
    return filtered or said_rows(question, rows, is_strict=not is_list)


def _rows_of_table(chunk: Chunk, chunks: Sequence[Chunk]) -> Iterator[Row]:
    """Yield the rows of a document that have most headers of the first row of one of its chunks."""
    headers = {header for header, _ in next(_rows(chunk))}
    end = 0
    for each in chunks:
        for cells in _rows(each, skip=max(0, end - each.start)):
            if len(headers & {header for header, _ in cells}) * 2 > len(headers):
                yield cells, each
        end = each.end


def _rows(chunk: Chunk, skip: int = 0) -> Iterator[Cells]:
    """Yield the table rows of a chunk, without those in the first characters, which the chunk before it has too."""
    for line in chunk.text[skip:].split("\n"):
        if cells := parse_row(line):
            yield cells
