"""Parse CSV and TSV files: a line about the table, then one line per row with the header in every cell."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from operator import itemgetter

from store.errors import DocumentTooLarge
from store.ingest.document import ParsedDocument
from store.ingest.text import decode, normalize
from store.limits import Limits
from store.markdown import PERIOD, VALUE, format_table

DELIMITERS = ",;\t|"
SEPARATOR_LINE = re.compile(r"sep=(.)\n")  # Excel's
NUM_SAMPLE_ROWS = 50
MAX_SAMPLE_CHARS = 100_000
MIN_USUAL_ROWS = 3  # with more cells than two, for rows of two above them to be labels with a value
BATCH_ROWS = 1000  # formatted at a time
MAX_CELLS = 5_000_000  # with the blank ones of short rows
MAX_NAMED_CHARS = 500  # of the columns named in the first line


def parse_csv(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    """Return the rows of a table. Raises UnreadableDocument if it is not text, DocumentTooLarge above a limit."""
    text, warning = decode(data, name)
    text = normalize(text)
    delimiter = "\t" if name.lower().endswith((".tsv", ".tab")) else ""
    if marked := SEPARATOR_LINE.match(text):
        delimiter, text = marked[1], text[marked.end() :]
    try:
        return ParsedDocument(_format(_read(text, delimiter or _find_delimiter(text)), name, limits), warning=warning)
    except csv.Error:  # a quotation mark that is never closed
        return ParsedDocument(text, warning=warning)


def _read(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with the number of blank ones before it."""
    num_blank = 0
    for row in csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True):
        if any(row):
            yield num_blank, row
        else:
            num_blank += 1


def _find_delimiter(text: str) -> str:
    """Return the delimiter by which most rows at the start have equally many cells, as many as possible."""

    def fit(delimiter: str) -> tuple[float, int]:
        widths = [len(row) for _, row in islice(_read(text[:MAX_SAMPLE_CHARS], delimiter), NUM_SAMPLE_ROWS)]
        usual = max(set(widths), key=widths.count, default=1)
        return (widths.count(usual) / len(widths), usual) if usual > 1 else (0, 0)

    return max(DELIMITERS, key=fit)


def _format(rows: Iterator[tuple[int, list[str]]], name: str, limits: Limits) -> str:
    """Return all rows as text: lines above the first table, then each table after a line about it.

    A blank line ends a table if the header of another one follows.
    """
    sample = list(islice(rows, NUM_SAMPLE_ROWS))
    if 2 * len({number for number, _ in sample}) > len(sample):  # blank lines between rows separate no tables
        sample, rows = [(0, row) for _, row in sample], ((0, row) for _, row in rows)
    parts = _take_lines(sample)
    tables: list[_Table] = []
    num_chars = num_cells = 0
    for _, section in groupby(chain(sample, rows), key=itemgetter(0)):
        rest = (row for _, row in section)
        first = list(islice(rest, NUM_SAMPLE_ROWS))
        has_header = len(first) > 1 and _is_header(first)
        if not tables or (has_header and tables[-1].header and len(first[0]) > 1 and first[0] != tables[-1].header):
            tables.append(_Table(first.pop(0) if has_header else [], max(map(len, first))))
        for batch in _batches(chain(first, rest)):
            num_cells += len(batch) * max(map(len, [tables[-1].header, *batch]))
            if num_cells > MAX_CELLS:
                raise DocumentTooLarge(f"{name} has over {MAX_CELLS:,} cells, which is the limit.")
            num_chars += tables[-1].add(batch)
            limits.check_characters(num_chars, name)
    return "\n".join([*parts, *(str(table) for table in tables)])


class _Table:
    """The rows of a table as text, below a line about it."""

    def __init__(self, header: list[str], width: int) -> None:
        self.header = header
        self._width = width
        self._num_rows = 0
        self._parts: list[str] = []

    def add(self, rows: list[list[str]]) -> int:
        """Add rows; return how many characters they take."""
        has_header = bool(self.header)
        text = format_table([self.header, *rows] if has_header else rows, has_header, has_groups=False)
        self._num_rows += len(rows)
        self._parts.append(text)
        return len(text) + 1

    def __str__(self) -> str:
        columns = f"{self._width} {'column' if self._width == 1 else 'columns'}"
        columns = f"the columns {_name_columns(self.header)}" if self.header else columns
        rows = "row" if self._num_rows == 1 else "rows"
        return "\n".join([f"Table with {self._num_rows:,} {rows} and {columns}.", *self._parts])


def _take_lines(sample: list[tuple[int, list[str]]]) -> list[str]:
    """Remove titles, and labels with a value, from the start of the rows of a wider table, and return them as lines."""
    counts = [sum(map(bool, row)) for _, row in sample]
    usual = max(set(counts) - {1}, key=lambda count: (counts.count(count), count), default=1)
    max_cells = 2 if usual > 2 and counts.count(usual) >= MIN_USUAL_ROWS else min(1, usual - 1)
    lines = []
    while len(sample) > 1 and sample[0][1][0] and sum(map(bool, sample[0][1])) <= max_cells:
        cells = [cell.strip() for cell in sample.pop(0)[1] if cell.strip()]
        lines.append(": ".join([*(cell.removesuffix(":") for cell in cells[:-1]), cells[-1]]))
    return lines


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has a text, or a year, above a column of numbers, or only texts."""
    first, *others = rows
    columns = [[row[index] for row in others if index < len(row)] for index in range(len(first))]
    is_numeric = [sum(map(_is_number, column)) * 2 > len(column) for column in columns]
    is_text = [not _is_number(cell) or bool(PERIOD.fullmatch(cell.strip())) for cell in first]
    return any(text for text, number in zip(is_text, is_numeric, strict=True) if number) or (
        not any(is_numeric) and all(is_text)
    )


def _is_number(cell: str) -> bool:
    return bool(VALUE.match(cell.strip()))


def _batches(rows: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH_ROWS)):
        yield batch


def _name_columns(header: Sequence[str]) -> str:
    names = [" ".join(cell.split()) for cell in header if cell.strip()]
    text = ", ".join(names)
    if len(text) <= MAX_NAMED_CHARS:
        return text
    num_named = text[:MAX_NAMED_CHARS].count(", ")
    return f"{', '.join(names[:num_named])} and {len(names) - num_named} more"
