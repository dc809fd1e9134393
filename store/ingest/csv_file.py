"""Parse CSV and TSV files: a line about the table, then one line per row with the header in every cell."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from store.errors import DocumentTooLarge
from store.ingest.document import ParsedDocument
from store.ingest.text import decode, normalize
from store.limits import Limits
from store.markdown import PERIOD, VALUE, format_table

DELIMITERS = ",;\t|"
SEPARATOR_LINE = re.compile(r"sep=(.)\n")  # Excel's
NUM_SAMPLE_ROWS = 50
MAX_SAMPLE_CHARS = 100_000
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


def _read(text: str, delimiter: str) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    return (row for row in reader if any(row))


def _find_delimiter(text: str) -> str:
    """Return the delimiter by which most rows at the start have equally many cells, as many as possible."""

    def fit(delimiter: str) -> tuple[float, int]:
        widths = [len(row) for row in islice(_read(text[:MAX_SAMPLE_CHARS], delimiter), NUM_SAMPLE_ROWS)]
        usual = max(set(widths), key=widths.count, default=1)
        return (widths.count(usual) / len(widths), usual) if usual > 1 else (0, 0)

    return max(DELIMITERS, key=fit)


def _format(rows: Iterator[list[str]], name: str, limits: Limits) -> str:
    """Return all rows as text, after titles above the header and a line about the table."""
    sample = list(islice(rows, NUM_SAMPLE_ROWS))
    width = max(map(len, sample), default=0)
    titles = []
    while len(sample) > 1 and width > 1 and sum(map(bool, sample[0])) == 1 and sum(map(bool, sample[1])) != 1:
        titles.append(" ".join(sample.pop(0)).strip())
    header = sample.pop(0) if len(sample) > 1 and _is_header(sample) else []
    parts: list[str] = []
    num_rows = num_chars = num_cells = 0
    for batch in _batches(chain(sample, rows)):
        num_rows += len(batch)
        num_cells += len(batch) * max(map(len, [header, *batch]))
        if num_cells > MAX_CELLS:
            raise DocumentTooLarge(f"{name} has over {MAX_CELLS:,} cells, which is the limit.")
        parts.append(format_table([header, *batch] if header else batch, has_header=bool(header), has_groups=False))
        num_chars += len(parts[-1]) + 1
        limits.check_characters(num_chars, name)
    columns = f"the columns {_name_columns(header)}" if header else f"{width} {'column' if width == 1 else 'columns'}"
    about = f"Table with {num_rows:,} {'row' if num_rows == 1 else 'rows'} and {columns}."
    return "\n".join([*titles, about, *parts])


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
