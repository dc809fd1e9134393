"""Tables that span two columns of text, or are next to one."""

from collections.abc import Sequence
from itertools import pairwise

from store.ingest.pdf.aligned import MAX_ROW_DISTANCE, TIGHT, find_aligned, row_distance
from store.ingest.pdf.lines import Segment, rows_of
from store.ingest.pdf.page import Rule
from store.ingest.pdf.tables import MIN_ROWS, Table
from store.markdown import VALUE

MAX_CELL_WIDTH = 0.75  # of a column of text; a wider segment is a line of it

Row = list[Segment]


def cells_across(segments: Sequence[Segment], gutter: float, rules: Sequence[Rule]) -> list[Segment]:
    """Return the cells of tables without lines between their columns that go across a gutter between columns of text.

    Their rows have at least three cells, or two if lines across the gutter are near them; none is as wide as a line of
    the text.
    """
    x0 = min((segment.x0 for segment in segments), default=gutter)
    x1 = max((segment.x1 for segment in segments), default=gutter)
    right = [segment for segment in segments if segment.x0 >= gutter]
    lines = [segment for segment in right if _is_line(segment, gutter, x1)] or right
    margin = min((line.x0 for line in lines), default=gutter)
    runs: list[list[Row]] = [[]]
    for row in rows_of(segments):
        has_line = any(_is_line(segment, x0, gutter) or _is_line(segment, gutter, x1) for segment in row)
        if has_line or (runs[-1] and row_distance(runs[-1][-1], row) >= MAX_ROW_DISTANCE):
            runs.append([])
        if not has_line:
            runs[-1].append(row)
    heights = [rule.top for rule in rules if rule.x0 < gutter < rule.x1]
    return [cell for run in runs for row in _rows_across(run, gutter, margin, heights) for cell in row]


def _is_line(segment: Segment, x0: float, x1: float) -> bool:
    """Return whether a segment is as wide as the lines of a column."""
    return x0 <= segment.x0 and segment.x1 <= x1 and segment.x1 - segment.x0 > MAX_CELL_WIDTH * (x1 - x0)


def _rows_across(run: list[Row], gutter: float, margin: float, heights: Sequence[float]) -> list[Row]:
    """Return the rows of a table among successive rows of short texts; `heights` are those of lines across the gutter.

    None if there are two tables, one on each side: labels start at the margin of the column on the right.
    """
    ruled = [any(abs(height - row[0].baseline) < 2 * row[0].size for height in heights) for row in run]
    across = [
        number
        for number, row in enumerate(run)
        if len(row) > 1 and (ruled[number] or (len(row) > 2 and _is_across(row, gutter)))
    ]
    num_labels = sum(not ruled[number] and _has_label(run[number], margin) for number in across)
    if len(across) < MIN_ROWS or num_labels > len(across) / 2:
        return []
    start, end = across[0], across[-1] + 1
    while start and len(run[start - 1]) > 1:
        start -= 1
    while end < len(run) and row_distance(run[end - 1], run[end]) <= TIGHT:
        end += 1
    return run[start:end]


def _is_across(row: Row, gutter: float) -> bool:
    return min(cell.x0 for cell in row) < gutter < max(cell.x1 for cell in row)


def _has_label(row: Row, margin: float) -> bool:
    """Return whether a table can start at a margin: the row has a text there, not a number."""
    return any(abs(cell.x0 - margin) < 2 * cell.size and not VALUE.match(cell.text) for cell in row)


def is_table_beside(segments: Sequence[Segment], text: Sequence[Segment], rules: Sequence[Rule]) -> bool:
    """Return whether a column has a table without lines between its columns that the text beside it is no part of.

    The lines of such a text are evenly spaced and do not share the baselines of the table's rows.
    """
    rows = rows_of(segments)
    for table in find_aligned(rows, rules):
        if not isinstance(table, Table):
            continue
        inside = [row[0].baseline for row in rows if len(row) > 1 and table.top < row[0].baseline < table.bottom]
        lines = [row[0].baseline for row in rows_of(text) if table.top < row[0].baseline < table.bottom]
        gaps = [below - above for above, below in pairwise(lines)]
        num_wide = sum(gap > TIGHT * min(gaps) for gap in gaps)
        num_aligned = sum(any(abs(line - baseline) < 1 for line in lines) for baseline in inside)
        if max(num_wide, num_aligned) < len(inside) / 2:
            return True
    return False
