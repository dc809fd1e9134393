"""Parse Excel files (.xlsx) with openpyxl: a heading per visible sheet, and each row with its table's header.

Hidden sheets, rows and columns are left out. openpyxl reads cell by cell, which needs little memory, but it knows no
merged cells and nothing that is hidden; these are looked up in the XML.
"""

import io
import re
import zipfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from openpyxl import load_workbook
from openpyxl.utils import range_boundaries

from store.errors import DocumentTooLarge
from store.ingest.archive import check_archive
from store.ingest.document import ParsedDocument, reading
from store.ingest.office.number_format import display
from store.ingest.tables import Merge, fill_merged, format_grid, mark_group
from store.ingest.text import normalize
from store.limits import Limits
from store.markdown import PERIOD, VALUE

MAX_CELLS = 1_000_000  # with a value
MAX_VISITED = 20_000_000  # cells, with the blank ones in between
MAX_COLUMNS = 16_384  # of a sheet
MAX_MERGES = 10_000  # merged ranges of a sheet; others keep their text in the first cell
MERGED = re.compile(rb'<(?:\w+:)?mergeCell\b[^<>]*?\bref="([A-Z]+\d+:[A-Z]+\d+)"')
TAG = re.compile(rb"<(?:\w+:)?(row|col)\b([^<>]*)>")
ATTRIBUTE = re.compile(rb'\b(\w+)="(\w+)"')
FILTER = b"filterColumn"  # an element of a filter that is switched on
UNCOMPUTED = re.compile(  # a formula without a value; t="str" is one with an empty text
    rb'<(?:\w+:)?c\b(?![^<>]*\bt="str")[^<>]*><(?:\w+:)?f(?:\s[^<>]*)?(?:/>|>[^<]*</(?:\w+:)?f>)'
    rb"\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v></(?:\w+:)?v>)?</(?:\w+:)?c>"
)


@dataclass(slots=True)
class _Row:
    """A row that is not blank."""

    number: int  # from 0
    num_blank: int  # rows right before it
    cells: list[str]
    is_bold: bool  # all cells, and none a number
    has_dates: bool


def parse_xlsx(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    """Return the tables of all visible sheets. Raises UnreadableDocument if damaged, DocumentTooLarge above a limit."""
    with reading(name, "Excel file"):
        check_archive(data, name)
        return _Reader(data, name, limits).read()


@dataclass(frozen=True, slots=True)
class _Hidden:
    """The hidden rows and columns of a sheet, from 0."""

    rows: frozenset[int]
    columns: frozenset[int]


class _Reader:
    """Reads one workbook and counts its cells, the formulas without a value, and what is hidden."""

    def __init__(self, data: bytes, name: str, limits: Limits) -> None:
        self._data = data
        self._name = name
        self._limits = limits
        self._num_cells = self._num_visited = self._num_uncomputed = 0
        self._num_hidden = {"row": 0, "column": 0}  # that have text
        self._formulas: Any = None  # the workbook with formulas in place of values, if it is needed

    def read(self) -> ParsedDocument:
        workbook = load_workbook(io.BytesIO(self._data), read_only=True, data_only=True)
        visible = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
        parts: list[str] = []
        num_chars = 0
        for sheet in visible:
            if text := self._read_sheet(sheet):
                parts.append(normalize(f"## {sheet.title}\n\n{text}"))
                num_chars += len(parts[-1]) + 2
                self._limits.check_characters(num_chars, self._name)
        warnings = []
        if hidden := [sheet.title for sheet in workbook.worksheets if sheet not in visible]:
            sheets = "hidden sheet was" if len(hidden) == 1 else "hidden sheets were"
            warnings.append(normalize(f"{len(hidden)} {sheets} left out: {', '.join(hidden)}."))
        if hidden_parts := [f"{n} hidden {name}{'s' * (n > 1)}" for name, n in self._num_hidden.items() if n]:
            were = "was" if sum(self._num_hidden.values()) == 1 else "were"
            warnings.append(f"{' and '.join(hidden_parts)} {were} left out.")
        if self._num_uncomputed:
            cells = "cell has" if self._num_uncomputed == 1 else "cells have"
            warnings.append(
                f"{self._num_uncomputed} {cells} a formula without a computed value; save the file in Excel first."
            )
        return ParsedDocument("\n\n".join(parts), warning=" ".join(warnings))

    def _read_sheet(self, sheet: Any) -> str:
        with zipfile.ZipFile(io.BytesIO(self._data)) as archive:
            source = archive.read(sheet._worksheet_path)  # openpyxl has no public name for it
            tables = [archive.read(name) for name in archive.namelist() if name.startswith("xl/tables/")]
        hidden = _find_hidden(source, is_filtered=any(FILTER in part for part in (source, *tables)))
        merges = [_parse_merge(match[1].decode()) for match in MERGED.finditer(source)][:MAX_MERGES]
        rows = list(self._rows(sheet, hidden, has_uncomputed=bool(UNCOMPUTED.search(source))))
        return "\n\n".join(_format_block(block, merges) for block in _split(rows))

    def _rows(self, sheet: Any, hidden: _Hidden, has_uncomputed: bool) -> Iterator[_Row]:
        """Yield the rows that have text in cells that are not hidden."""
        num_blank, hidden_columns = 0, set[int]()
        sheet.reset_dimensions()  # they are often wrong
        formulas: Iterator[Any] = iter(())
        if has_uncomputed:
            self._formulas = self._formulas or load_workbook(io.BytesIO(self._data), read_only=True)
            self._formulas[sheet.title].reset_dimensions()
            formulas = self._formulas[sheet.title].iter_rows(values_only=True)
        for number, cells in enumerate(sheet.iter_rows()):
            texts = [display(cell.value, cell.number_format) if cell.value is not None else "" for cell in cells]
            for column, formula in enumerate(next(formulas, ())):
                if formula is not None and not texts[column]:
                    texts[column] = str(getattr(formula, "text", formula))
                    self._num_uncomputed += 1
            self._count(texts)
            if number in hidden.rows:
                self._num_hidden["row"] += any(texts)
                continue
            hidden_columns |= {column for column in hidden.columns if any(texts[column : column + 1])}
            texts = ["" if column in hidden.columns else text for column, text in enumerate(texts)]
            if any(text.strip() for text in texts):
                values = [cell for cell, text in zip(cells, texts, strict=True) if text]
                is_bold = all(isinstance(cell.value, str) and cell.font.b for cell in values)
                yield _Row(number, num_blank, texts, is_bold, any(isinstance(cell.value, date) for cell in values))
                num_blank = 0
            else:
                num_blank += 1
        self._num_hidden["column"] += len(hidden_columns)

    def _count(self, texts: Sequence[str]) -> None:
        self._num_cells += sum(map(bool, texts))
        self._num_visited += len(texts) + 1
        if self._num_cells > MAX_CELLS or self._num_visited > MAX_VISITED:
            raise DocumentTooLarge(f"{self._name} has over {MAX_CELLS:,} cells, which is the limit.")


def _parse_merge(reference: str) -> Merge:
    left, top, right, bottom = range_boundaries(reference)
    return Merge(top - 1, left - 1, bottom - 1, right - 1)


def _find_hidden(source: bytes, is_filtered: bool) -> _Hidden:
    """Return what a sheet hides; what a filter or a collapsed group hides is only out of view for a while."""
    rows, columns = set[int](), set[int]()
    for tag in TAG.finditer(source):
        if b"hidden" not in tag[2]:
            continue
        values = dict(ATTRIBUTE.findall(tag[2]))
        if values.get(b"hidden") not in (b"1", b"true") or int(values.get(b"outlineLevel", b"0")):
            continue
        if tag[1] == b"col":
            columns.update(range(int(values[b"min"]) - 1, min(int(values[b"max"]), MAX_COLUMNS)))
        elif b"r" in values and not is_filtered:
            rows.add(int(values[b"r"]) - 1)
    return _Hidden(frozenset(rows), frozenset(columns))


def _split(rows: Sequence[_Row]) -> list[list[_Row]]:
    """Return the tables of a sheet, which blank rows separate; a row of numbers after one blank row goes on with it."""
    blocks: list[list[_Row]] = []
    for row in rows:
        if blocks and (row.num_blank == 0 or (row.num_blank == 1 and _continues(row, blocks[-1]))):
            blocks[-1].append(row)
        else:
            blocks.append([row])
    return blocks


def _continues(row: _Row, block: Sequence[_Row]) -> bool:
    columns = {column for other in block for column, text in enumerate(other.cells) if text}
    used = {column for column, text in enumerate(row.cells) if text}
    numbers = [text for text in row.cells if VALUE.match(text) and not PERIOD.fullmatch(text)]
    return bool(numbers) and len(used) > 1 and used <= columns


def _format_block(block: Sequence[_Row], merges: Sequence[Merge]) -> str:
    """Return a table, or the lines of a single column."""
    if all(sum(map(bool, row.cells)) == 1 for row in block):
        return "\n".join(" ".join("".join(row.cells).split()) for row in block)
    left = min(next(column for column, text in enumerate(row.cells) if text) for row in block)
    width = max(len(row.cells) for row in block)
    grid = [(row.cells + [""] * (width - len(row.cells)))[left:] for row in block]
    index_of = {row.number: index for index, row in enumerate(block)}
    numbers = list(index_of)
    inside = [
        Merge(
            index_of[merge.top],
            merge.left - left,
            bisect_right(numbers, merge.bottom) - 1,
            min(merge.right, width - 1) - left,
        )
        for merge in merges
        if merge.top in index_of and left <= merge.left < width
    ]
    num_headers = _count_header_rows(block, inside)
    fill_merged(grid, inside, num_headers)
    for row, cells in list(zip(block, grid, strict=True))[num_headers or 1 :]:
        if row.is_bold and not any(cells[1:]):
            mark_group(cells)
    return format_grid(grid, num_headers)


def _count_header_rows(block: Sequence[_Row], merges: Sequence[Merge]) -> int | None:
    """Return how many rows at the start are titles or header; None if formatting does not tell."""
    num_titles = next(index for index, row in enumerate(block) if sum(map(bool, row.cells)) > 1)
    first = block[num_titles]
    num = 1
    for merge in sorted(merges, key=lambda merge: merge.top):
        if num_titles <= merge.top < num_titles + num and merge.right > merge.left:
            num = max(num, merge.bottom + 2 - num_titles)  # a header below that of merged columns
    if num > 1 and num_titles + num < len(block):
        return num_titles + num
    others = block[num_titles + 1 :]
    is_bold = first.is_bold and not all(row.is_bold for row in others)
    is_calendar = first.has_dates and not any(row.has_dates for row in others)
    return num_titles + 1 if others and (is_bold or is_calendar) else None
