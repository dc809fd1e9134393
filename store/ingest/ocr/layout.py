"""Put recognized lines of a page in reading order: columns of prose, rows of tables, paragraphs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan2, cos, sin
from statistics import median
from typing import Any

from store.ingest.tables import format_grid

MIN_COLUMN_LINES = 5  # in each of two columns of prose
MIN_PROSE_ASPECT = 10  # width by height of a line of prose; cells are shorter
MAX_CROSSING = 0.25  # lines across the gap, by lines beside it
MIN_TABLE_ROWS = 3
PARAGRAPH_GAP = 0.7  # of a line's height, between lines


@dataclass(frozen=True, slots=True)
class Line:
    """A text and its place on the page, in pixels."""

    left: float
    top: float
    right: float
    bottom: float
    text: str
    slope: float = 0.0  # angle of its upper edge

    @classmethod
    def from_corners(cls, corners: Any, text: str) -> "Line":
        """Return a line with four corners (x, y), clockwise from the top left one of its text."""
        xs, ys = [float(x) for x, _ in corners], [float(y) for _, y in corners]
        return cls(min(xs), min(ys), max(xs), max(ys), text.strip(), atan2(ys[1] - ys[0], xs[1] - xs[0]))

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def is_sideways(lines: Sequence[Line]) -> bool:
    """Return whether most lines run up or down the page."""
    tall = [line.height > 1.5 * (line.right - line.left) for line in lines if len(line.text) > 2]
    return sum(tall) * 2 > len(tall)


def arrange(lines: Sequence[Line]) -> list[str]:
    """Return the texts of lines in reading order, '' between paragraphs, and rows of tables."""
    return _arrange(_straighten(lines)) if lines else []


def _straighten(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of a skewed scan as if it were straight; each keeps its size."""
    angle = median(line.slope for line in lines)
    straight = []
    for line in lines:
        height = line.height - abs(sin(angle)) * (line.right - line.left)  # the box around a sloping line is higher
        middle = line.middle * cos(angle) - (line.left + line.right) / 2 * sin(angle)
        left = line.left * cos(angle) + line.middle * sin(angle)
        half = max(height, 1) / 2
        straight.append(Line(left, middle - half, left + line.right - line.left, middle + half, line.text))
    return straight


def _arrange(lines: Sequence[Line]) -> list[str]:
    gap = _find_column_gap(lines)
    if gap is None:
        return _join_rows(_rows(lines))
    bands: list[list[Line]] = [[]]
    for line in sorted(lines, key=lambda line: line.middle):
        if line.left < gap < line.right:  # a heading above both columns
            bands += [[line], []]
        else:
            bands[-1].append(line)
    texts: list[str] = []
    for band in bands:
        for side in ([line for line in band if line.right <= gap], [line for line in band if line.right > gap]):
            texts += ["", *_arrange(side)] if side and texts else _arrange(side)
    return texts


def _find_column_gap(lines: Sequence[Line]) -> float | None:
    """Return the middle of the gap between two columns of prose; None if there is none."""
    edges = sorted({line.right for line in lines})
    best, fewest = None, MAX_CROSSING * len(lines)
    for edge in edges:
        right = [line for line in lines if line.left > edge]
        left = [line for line in lines if line.right <= edge]
        num_crossing = len(lines) - len(left) - len(right)
        if (
            min(len(left), len(right)) >= MIN_COLUMN_LINES
            and num_crossing <= fewest
            and all(map(_is_prose, (left, right)))
        ):
            best, fewest = (edge + min(line.left for line in right)) / 2, num_crossing - 1
    return best


def _is_prose(lines: Sequence[Line]) -> bool:
    return median((line.right - line.left) / max(line.height, 1) for line in lines) >= MIN_PROSE_ASPECT


def _rows(lines: Sequence[Line]) -> list[list[Line]]:
    """Return lines side by side as rows, each from left to right."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: line.middle):
        if rows and line.middle - rows[-1][0].middle < 0.5 * min(line.height, rows[-1][0].height):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.left) for row in rows]


def _join_rows(rows: Sequence[list[Line]]) -> list[str]:
    texts: list[str] = []
    index = 0
    while index < len(rows):
        end = index
        while end < len(rows) and len(rows[end]) > 1:
            end += 1
        table = _format_rows(rows[index:end]) if end - index >= MIN_TABLE_ROWS else ""
        if index and rows[index][0].top - rows[index - 1][0].bottom > PARAGRAPH_GAP * rows[index][0].height:
            texts.append("")
        texts.append(table or " ".join(line.text for line in rows[index]))
        index = end if table else index + 1
    return texts


def _format_rows(rows: Sequence[Sequence[Line]]) -> str:
    """Return rows as a table if gaps run between its columns from top to bottom, else ''."""
    spans = sorted((line.left, line.right) for row in rows for line in row)
    columns = [spans[0]]
    for left, right in spans[1:]:
        if left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], right))
        else:
            columns.append((left, right))
    if len(columns) < 2:
        return ""
    grid = [[""] * len(columns) for _ in rows]
    for cells, row in zip(grid, rows, strict=True):
        for line in row:
            column = next(index for index, (left, right) in enumerate(columns) if left <= line.left <= right)
            cells[column] = f"{cells[column]} {line.text}".strip()
    return format_grid(grid)
