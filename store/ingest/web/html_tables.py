"""Tables of HTML: which ones are only layout, and the rows of the others with merged cells repeated."""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, groupby, islice

from bs4 import BeautifulSoup, Tag

from store.ingest.tables import Merge, fill_merged, format_grid, mark_group
from store.markdown import parse_row

CELLS = ["td", "th"]
PARTS = ["caption", "thead", "tbody", "tfoot", "tr", *CELLS]
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
BLOCKS = ["p", "div", "ul", "ol", "dl", "pre", "table", *HEADINGS]
NUMBER = re.compile(r"(?!(?:19|20)\d\d\b)\W*\d[\d.,]*\W*")  # but no year
MAX_NESTING = 5  # tables around one with data; beyond, all are layout
MAX_BLOCKS = 5  # in a cell of a table with data
MAX_CELL_CHARS = 1000
MAX_CHECKED = 1000  # cells; the first ones tell whether a table is layout
MAX_SPAN = 50  # rows or columns that a cell covers
MAX_CELLS = 100_000  # of a table with merged cells; in a larger one each cell counts once


def dissolve_layout_tables(soup: BeautifulSoup) -> None:
    """Turn tables that only arrange text into plain elements."""
    around: dict[int, tuple[Tag, ...]] = {}  # tables around an element, outermost first, by its id
    parts: defaultdict[int, list[Tag]] = defaultdict(list)  # by the id of their table
    layouts: list[Tag] = []
    for element in soup.find_all(True):
        tables = around.get(id(element.parent), ())
        if element.name == "table":
            if len(tables) > MAX_NESTING or _is_layout(element):
                layouts.append(element)
            tables = (*tables[-MAX_NESTING:], element)
        elif tables and element.name in PARTS:
            parts[id(tables[-1])].append(element)
        if tables:
            around[id(element)] = tables
    for table in layouts:
        for part in [table, *parts[id(table)]]:
            part.name = "div"


def lift_captions(soup: BeautifulSoup) -> None:
    """Put the caption of a figure that stands below its table above it."""
    for caption in soup.find_all("figcaption"):
        above = caption.find_previous_sibling()
        if above is not None and (above.name == "table" or above.find("table", recursive=False)):
            above.insert_before(caption.extract())


def table_to_markdown(table: Tag, texts: dict[int, str]) -> str:
    """Return a table, given the text of each cell by its id."""
    rows = _rows(table)
    num_headers = _num_header_rows(rows)
    grid, merges = _grid(rows, texts)
    fill_merged(grid, merges, num_headers)
    for index in range(num_headers or 1, len(rows)):
        cells = [cell for cell in rows[index] if cell.get_text(strip=True)]
        if not any(grid[index][1:]) and cells and (cells[0].name == "th" or _is_bold(cells)):
            mark_group(grid[index])
    return format_grid(grid, num_headers)


def join_rows(table: str) -> str:
    """Return a table on one line, for the cell of a table around it."""
    rows = [parse_row(line) or [("", line)] for line in table.split("\n")]
    return "; ".join(", ".join(": ".join(filter(None, cell)) for cell in row) for row in rows)


def _is_layout(table: Tag) -> bool:
    if table.get("role") in ("presentation", "none"):
        return True
    rows = _rows(table)
    if rows and (_num_header_rows(rows) or any(cell.name == "th" for row in rows for cell in row)):
        return False
    if len(rows) < 2 or max(map(len, rows)) < 2:
        return True
    for cell in islice(chain.from_iterable(rows), MAX_CHECKED):
        blocks = cell.find_all(BLOCKS)
        if len(blocks) > MAX_BLOCKS or any(block.name in HEADINGS or block.name == "table" for block in blocks):
            return True
        if len(cell.get_text()) > MAX_CELL_CHARS:
            return True
    return False


def _closest(element: Tag, *names: str) -> Tag | None:
    """Return the nearest element of these names around one; faster than `find_parent`."""
    parent = element.parent
    while parent is not None and parent.name not in names:
        parent = parent.parent
    return parent


def _rows(table: Tag) -> list[list[Tag]]:
    """Return the cells of each row, without those of tables inside."""
    cells = [cell for cell in table.find_all(CELLS) if _closest(cell, "table") is table]
    return [list(row) for _, row in groupby(cells, key=lambda cell: id(cell.parent))]


def _num_header_rows(rows: Sequence[Sequence[Tag]]) -> int | None:
    """Return how many rows at the start are titles or header; None if the elements do not tell."""
    min_cells = min(2, max(map(len, rows)))  # of a row that is no title
    num_titles = next(index for index, row in enumerate(rows) if len(row) >= min_cells)
    below = rows[num_titles:]
    num = next((index for index, row in enumerate(below) if not _is_header(row, min_cells)), len(below))
    if num == 0 and len(below) > 2 and _names_parts(below[1], below[0]):
        num = 2
    elif num == 0 and len(below) > 1 and _is_bold(below[0]) and not _is_bold(below[1]):
        num = 1
    if 0 < num < len(below):
        return num_titles + num
    return 0 if any(cell.name == "th" for row in below for cell in row) else None


def _is_header(row: Sequence[Tag], min_cells: int) -> bool:
    head = _closest(row[0], "thead", "table")
    is_in_head = head is not None and head.name == "thead"
    return is_in_head or (len(row) >= min_cells and all(cell.name == "th" for cell in row))


def _names_parts(row: Sequence[Tag], above: Sequence[Tag]) -> bool:
    """Return whether a row has a name, no number, for each column below the wide cells of the row above, and no more.

    If all cells above are wide, only a bold row is known to name them.
    """
    is_part = [
        width > 1
        for cell in above
        if (width := _span(cell, "colspan")) > 1 or _span(cell, "rowspan") == 1
        for _ in range(width)
    ]
    texts = [cell.get_text(strip=True) for cell in row]
    if any(_span(cell, "colspan") > 1 for cell in row) or list(map(bool, texts)) != is_part or not any(is_part):
        return False
    is_all_wide = all(_span(cell, "colspan") > 1 for cell in above)
    return (not is_all_wide or _is_bold(row)) and not any(map(NUMBER.fullmatch, texts))


def _is_bold(row: Sequence[Tag]) -> bool:
    texts = [text for cell in row for text in cell.find_all(string=True) if text.strip()]
    return bool(texts) and all(text.find_parent(["b", "strong"]) for text in texts)


def _grid(rows: Sequence[Sequence[Tag]], texts: dict[int, str]) -> tuple[list[list[str]], list[Merge]]:
    """Return equally long rows of texts, and which of their cells are merged."""
    max_span = MAX_SPAN if sum(map(len, rows)) <= MAX_CELLS else 1
    grid: list[list[str]] = []
    merges: list[Merge] = []
    below: dict[int, int] = {}  # rows that cells above still cover, by column
    for top, row in enumerate(rows):
        line: list[str] = []
        covered, below = below, {column: num - 1 for column, num in below.items() if num > 1}
        for cell in row:
            while len(line) in covered:
                line.append("")
            width, height = (
                min(_span(cell, "colspan"), max_span),
                min(_span(cell, "rowspan"), max_span, len(rows) - top),
            )
            merges.append(Merge(top, len(line), top + height - 1, len(line) + width - 1))
            below |= dict.fromkeys(range(len(line), len(line) + width), height - 1) if height > 1 else {}
            line += [texts.get(id(cell), "")] + [""] * (width - 1)
        grid.append(line)
    width = max(max(map(len, grid), default=0), max((merge.right + 1 for merge in merges), default=0))
    return [line + [""] * (width - len(line)) for line in grid], [
        merge for merge in merges if merge.right > merge.left or merge.bottom > merge.top
    ]


def _span(cell: Tag, name: str) -> int:
    value = str(cell.get(name, "1")).strip()
    return max(int(value), 1) if value.isdecimal() and len(value) < 9 else 1
