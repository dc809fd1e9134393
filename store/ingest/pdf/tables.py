"""Tables whose cells are framed by lines, found with pdfplumber."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pdfplumber.table import cells_to_tables, edges_to_intersections, intersections_to_cells, merge_edges

from store.ingest.pdf.lines import BREAK, build_segments, rows_of
from store.ingest.pdf.page import Rule, Word

TOLERANCE = 3.0  # points between lines that are one, or that meet
MIN_RULE = 6.0  # length in points
MAX_INTERSECTIONS = 5_000  # of lines on a page; the search takes half a second, and four times that for twice as many
MIN_FILLED = 0.25  # of the cells; a grid with fewer is a form or a diagram
MAX_CELL_CHARS = 1_500  # more is a frame around text
MAX_PAIRS = 200_000  # of a horizontal and a vertical line, to be searched for intersections; takes 0.2 s
MAX_HEADER_ROWS = 3
MIN_ROWS = 3  # of a table that is recognised by its text


@dataclass(slots=True)
class Table:
    """Rows of equally many cells, and where they stand. A cell's lines are separated by BREAK."""

    rows: list[list[str]]
    columns: list[tuple[float, float]]  # the gaps between columns, from left to right
    has_header: bool | None  # whether the first row is one; None if the layout does not tell
    x0: float
    top: float
    x1: float
    bottom: float
    title: str = ""  # a first row across all columns
    text: str = ""
    size: float = 0.0


def ruled_tables(words: Sequence[Word], rules: Sequence[Rule]) -> tuple[list[Table], list[Word]]:
    """Return the tables whose cells are framed by lines, and the words outside of them."""
    tables, rest = [], list(words)
    for cells in _grids(rules) if words else []:
        x0, top = min(cell[0] for cell in cells), min(cell[1] for cell in cells)
        x1, bottom = max(cell[2] for cell in cells), max(cell[3] for cell in cells)
        inside = [word for word in rest if _is_in(word, (x0, top, x1, bottom))]
        table = _fill_grid(cells, inside)
        if table:
            tables.append(table)
            indexes = {word.index for word in inside}
            rest = [word for word in rest if word.index not in indexes]
    return tables, rest


def _grids(rules: Sequence[Rule]) -> list[list[tuple[float, float, float, float]]]:
    """Return the cells of each grid of lines as (x0, top, x1, bottom)."""
    edges = [_edge(rule) for rule in rules]
    if not edges:
        return []
    edges = merge_edges(edges, *[TOLERANCE] * 4)
    edges = [edge for edge in edges if edge["x1"] - edge["x0"] + edge["bottom"] - edge["top"] >= MIN_RULE]
    edges += [_edge(rule) for rule in _open_sides(edges)]
    num_vertical = sum(edge["orientation"] == "v" for edge in edges)
    if not 0 < num_vertical * (len(edges) - num_vertical) <= MAX_PAIRS:
        return []
    intersections = edges_to_intersections(edges, TOLERANCE, TOLERANCE)
    if len(intersections) > MAX_INTERSECTIONS:
        return []
    return list(cells_to_tables(intersections_to_cells(intersections)))


def _edge(rule: Rule) -> dict[str, Any]:
    orientation = "v" if rule.x0 == rule.x1 else "h"
    size = dict(width=rule.x1 - rule.x0, height=rule.bottom - rule.top)  # pdfplumber changes them when it joins edges
    return dict(x0=rule.x0, x1=rule.x1, top=rule.top, bottom=rule.bottom, orientation=orientation, **size)


def _open_sides(edges: Sequence[dict]) -> list[Rule]:
    """Return the missing left and right sides of tables with lines between rows and between columns only."""
    vertical = [edge for edge in edges if edge["orientation"] == "v"]
    horizontal = sorted(
        (edge for edge in edges if edge["orientation"] == "h"), key=lambda edge: (round(edge["x0"]), round(edge["x1"]))
    )
    sides = []
    for _, group in groupby(horizontal, key=lambda edge: (round(edge["x0"]), round(edge["x1"]))):
        lines = list(group)
        x0, x1 = lines[0]["x0"], lines[0]["x1"]
        top, bottom = min(line["top"] for line in lines), max(line["top"] for line in lines)
        crossing = [edge for edge in vertical if edge["top"] < bottom - TOLERANCE and edge["bottom"] > top + TOLERANCE]
        if len(lines) > 1 and any(x0 + TOLERANCE < edge["x0"] < x1 - TOLERANCE for edge in crossing):
            sides += [Rule(x, top, x, bottom) for x in (x0, x1) if all(abs(edge["x0"] - x) > 2 for edge in crossing)]
    return sides


def _is_in(word: Word, box: tuple[float, float, float, float]) -> bool:
    x, y = (word.x0 + word.x1) / 2, word.baseline - 0.3 * word.size
    return box[0] <= x < box[2] and box[1] <= y < box[3]


def _fill_grid(cells: Sequence[tuple[float, float, float, float]], words: Sequence[Word]) -> Table | None:
    """Return the table that words in a grid of cells make; None if it is a frame, a form or a diagram."""
    xs = sorted({x for cell in cells for x in (cell[0], cell[2])})
    ys = sorted({y for cell in cells for y in (cell[1], cell[3])})
    num_columns, num_rows = len(xs) - 1, len(ys) - 1
    rows = [[""] * num_columns for _ in range(num_rows)]
    spans, bold = {}, {}
    by_row: dict[int, list[Word]] = {}
    for word in words:
        y = word.baseline - 0.3 * word.size
        by_row.setdefault(sum(y >= line for line in ys) - 1, []).append(word)
    for x0, top, x1, bottom in cells:
        row, column = ys.index(top), xs.index(x0)
        last_row, last_column = ys.index(bottom), xs.index(x1)
        candidates = [word for index in range(row, last_row) for word in by_row.get(index, [])]
        inside = [word for word in candidates if x0 <= (word.x0 + word.x1) / 2 < x1]
        if _has_columns(inside):
            return None
        spans[row, column] = (last_row - row, last_column - column)
        bold[row, column] = all(word.bold for word in inside)
        rows[row][column] = cell_text(inside)
    filled = sum(bool(cell) for row in rows for cell in row)
    if any(len(cell) > MAX_CELL_CHARS for row in rows for cell in row) or filled < MIN_FILLED * len(cells):
        return None
    if any(map(_has_rows, rows)):
        return None
    title = ""
    while num_rows > 1 and spans.get((0, 0)) == (1, num_columns):  # a title, or blank
        title = BREAK.join(filter(None, [title, rows.pop(0)[0]]))
        spans = {(row - 1, column): span for (row, column), span in spans.items() if row}
        bold = {(row - 1, column): is_bold for (row, column), is_bold in bold.items() if row}
        num_rows -= 1
    num_header = _num_spanned_rows(spans, num_columns)
    for (row, column), (height, width) in spans.items():
        is_header = row < num_header
        for other_row in range(row, row + height):
            for other_column in range(column, column + width):
                if is_header or column > 0 or other_column == column:  # a label in the first column is not repeated
                    rows[other_row][other_column] = rows[row][column]
    if sum(map(any, rows)) < 2 or sum(map(any, zip(*rows, strict=True))) < 2:
        return None
    first_row = [is_bold for (row, column), is_bold in bold.items() if row == 0 and rows[0][column]]
    is_all_bold = all(is_bold for (row, column), is_bold in bold.items() if rows[row][column])
    has_header = True if num_header > 1 or (all(first_row) and first_row and not is_all_bold) else None
    if num_header > 1:
        rows = [combine_header(rows[:num_header]), *rows[num_header:]]
    columns = [(x, x) for x in xs[1:-1]]
    return Table(rows, columns, has_header, xs[0], ys[0], xs[-1], ys[-1], title)


def _num_spanned_rows(spans: dict[tuple[int, int], tuple[int, int]], num_columns: int) -> int:
    """Return how many rows the header has that starts with a cell over several columns; 1 if there is none."""
    num_rows = 1
    for row in range(MAX_HEADER_ROWS - 1):
        widths = [width for (other, _), (_, width) in spans.items() if other == row]
        heights = [height for (other, _), (height, _) in spans.items() if other == row]
        if not any(1 < width < num_columns for width in widths):
            break
        num_rows = max(row + 2, row + max(heights))
    last_row = max(row + height for (row, _), (height, _) in spans.items())
    return num_rows if num_rows < last_row and num_rows <= MAX_HEADER_ROWS else 1


def cell_text(words: Iterable[Word]) -> str:
    """Return the text of a cell's words."""
    rows = rows_of(build_segments(words))
    return BREAK.join(" ".join(segment.text for segment in row) for row in rows)


def _has_columns(words: Sequence[Word]) -> bool:
    """Return whether a cell's words are several cells: the grid is a shaded column or a frame, say."""
    rows = rows_of(build_segments(words))
    return sum(len(row) > 1 for row in rows) > max(1, len(rows) / 2)


def _has_rows(row: Sequence[str]) -> bool:
    """Return whether a row is several rows without lines between them: all cells have as many lines, and short ones."""
    cells = [cell.split(BREAK) for cell in row if cell]
    is_wrapped = any(line[0].islower() for lines in cells for line in lines[1:])
    return len(cells) > 1 and len(cells[0]) >= MIN_ROWS and len(set(map(len, cells))) == 1 and not is_wrapped


def combine_header(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one header for several rows: each column's texts from the top, those of cells over it included."""
    return [BREAK.join(dict.fromkeys(filter(None, column))) for column in zip(*rows, strict=True)]
