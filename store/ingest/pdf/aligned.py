"""Tables without lines between their columns, found by cells that are aligned over several rows."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest

from store.ingest.pdf.lines import BREAK, Segment
from store.ingest.pdf.page import Rule
from store.ingest.pdf.tables import MAX_HEADER_ROWS, MIN_ROWS, Table, combine_header
from store.markdown import VALUE

Gap = tuple[float, float]
Item = list[Segment] | Table

MIN_COLUMNS = 3  # two if horizontal lines frame the table
MIN_GAP = 0.6  # between columns, in font sizes
MAX_ROW_DISTANCE = 2.6  # between baselines, in font sizes
MAX_SINGLE_WIDTH = 0.5  # of the region: a wider row without gaps is text
MIN_HEADING_SIZE = 1.08  # of text between two tables, relative to theirs
MIN_HEADING_DISTANCE = 1.15  # of bold text below a table, relative to the least distance of its rows
MAX_MEAN_CHARS = 45  # of a cell; more is text in columns
MIN_LEADING = 0.9  # distance of baselines, in font sizes; rows that are closer are not lines of one column
TIGHT = 1.35  # distance of baselines, in font sizes, of lines in one cell
MAX_TIGHT = 0.9  # the same, relative to the distance of rows of single lines
TIGHT_LINES = 1.6
MAX_MARGIN_SHIFT = 1.0  # points between the starts of a cell's lines
LEADER = re.compile(r"(?:\. ?){4,}|(?:\u2026 ?){2,}|(?:_ ?){4,}")  # in tables of contents and forms
CAPTION = re.compile(r"(?:table|tabelle|tab\.|figure|fig\.|abbildung|abb\.|chart|exhibit)\s*[A-Z]?\d", re.I)
TABLE_CAPTION = re.compile(r"(?:table|tabelle|tab\.)\s*[A-Z]?\d", re.I)
ADDRESS = re.compile(r"@|\bwww\.|\b(?:tel|fax|phone|telefon|e-?mail|iban|bic|swift|hrb|ust|vat|ceo)\b", re.I)
NUMBERING = re.compile(r"(?:\d+|[A-Z])(?:\.\d+)*\.?")


def find_aligned(rows: Sequence[list[Segment]], rules: Sequence[Rule]) -> list[Item]:
    """Return the rows of a region, with those that make a table replaced by it."""
    width = max(row[-1].x1 for row in rows) - min(row[0].x0 for row in rows) if rows else 0.0
    items: list[Item] = []
    group: list[list[Segment]] = []
    for row in _lift_cells(_untangled(rows)):
        is_text = _is_text(row, width) or (bool(group) and _is_heading(group, row))
        if group and (is_text or not _is_near(group[-1], row)):
            items += _table_in(group, rules)
            group = []
        if is_text:
            items.append(row)
        else:
            group.append(row)
    return items + (_table_in(group, rules) if group else [])


def _untangled(rows: Sequence[list[Segment]]) -> list[list[Segment]]:
    """Return rows with the n-th lines of cells side by side, where cells of fewer lines are centred beside others."""
    result: list[list[Segment]] = []
    start = 0
    for index in range(1, len(rows) + 1):
        if index < len(rows) and row_distance(rows[index - 1], rows[index]) < MIN_LEADING:
            continue
        tangle = rows[start:index]
        start = index
        if len(tangle) == 1:
            result += tangle
            continue
        gaps = _gaps(tangle)
        columns = [
            [segment for row in tangle for segment in row if _column(segment, gaps) == column]
            for column in range(len(gaps) + 1)
        ]
        result += [_on_one_line(list(filter(None, row))) for row in zip_longest(*columns)]
    return result


def _lift_cells(rows: list[list[Segment]]) -> list[list[Segment]]:
    """Return rows with cells that are centred beside the lines of another cell moved up to its first line."""
    rows = list(rows)
    for index in range(1, len(rows)):
        for segment in rows[index] if len(rows[index]) > 1 else []:
            others = [other for other in rows[index] if other is not segment]
            above, below = (_count_lines(rows, index, segment, others, step) for step in (-1, 1))
            if above and above == below and not _goes_on(rows, index - above, segment):
                rows[index - above] = _on_one_line(rows[index - above] + others)
                rows[index] = [segment]
                break
    return rows


def _goes_on(rows: Sequence[list[Segment]], index: int, segment: Segment) -> bool:
    """Return whether a line goes on with the one before it, which has something beside it: with a list item's first."""
    if index == 0 or len(rows[index - 1]) == 1 or row_distance(rows[index - 1], rows[index]) >= TIGHT_LINES:
        return False
    return any(abs(other.x0 - segment.x0) <= MAX_MARGIN_SHIFT for other in rows[index - 1])


def _count_lines(
    rows: Sequence[list[Segment]], index: int, segment: Segment, others: Sequence[Segment], step: int
) -> int:
    """Return how many rows before or after one have nothing but another line of a segment's cell, beside the others."""
    count = 0
    for number in range(index + step, len(rows) if step > 0 else -1, step):
        row, near = rows[number], rows[number - step]
        is_tight = abs(row_distance(near, row)) < TIGHT_LINES
        is_beside = all(other.x0 > row[0].x1 or other.x1 < row[0].x0 for other in others)
        if len(row) > 1 or not is_tight or not is_beside or abs(row[0].x0 - segment.x0) > MAX_MARGIN_SHIFT:
            break
        count += 1
    return count


def _on_one_line(row: list[Segment]) -> list[Segment]:
    """Return segments as a row, all on the highest baseline among them."""
    baseline = min(segment.baseline for segment in row)
    return [replace(segment, baseline=baseline) for segment in sorted(row, key=lambda segment: segment.x0)]


def row_distance(above: list[Segment], row: list[Segment]) -> float:
    """Return the distance of two rows' baselines in font sizes."""
    return (row[0].baseline - above[0].baseline) / max(row[0].size, above[0].size)


def _is_near(above: list[Segment], row: list[Segment]) -> bool:
    return row_distance(above, row) < MAX_ROW_DISTANCE


def _is_heading(rows: Sequence[list[Segment]], row: list[Segment]) -> bool:
    """Return whether a row is a heading below the rows of a table, not one of them: larger, or bold and apart."""
    above = rows[-1]
    if len(row) > 1 or row[0].size > MIN_HEADING_SIZE * above[0].size:
        return len(row) == 1
    usual = min((row_distance(*pair) for pair in pairwise(rows)), default=MAX_ROW_DISTANCE)
    return row[0].bold and not above[0].bold and row_distance(above, row) > MIN_HEADING_DISTANCE * usual


def _is_text(row: list[Segment], width: float) -> bool:
    """Return whether a row is no part of a table."""
    text = " ".join(segment.text for segment in row)
    is_wide = len(row) == 1 and row[0].x1 - row[0].x0 > MAX_SINGLE_WIDTH * width
    is_caption = len(row) == 1 and bool(CAPTION.match(text))
    return is_wide or bool(LEADER.search(text)) or is_caption


def _table_in(rows: list[list[Segment]], rules: Sequence[Rule]) -> list[Item]:
    """Return rows that are close to each other, with those that share at least two gaps as a table."""
    x0, x1 = min(row[0].x0 for row in rows), max(row[-1].x1 for row in rows)
    top, bottom = rows[0][0].top, rows[-1][0].bottom
    lines = sorted(
        rule.top
        for rule in rules
        if rule.top == rule.bottom
        and top - rows[0][0].size < rule.top < bottom + rows[-1][0].size
        and min(rule.x1, x1) - max(rule.x0, x0) > 0.5 * (x1 - x0)
    )
    is_framed = len(lines) > 1 and lines[-1] - lines[0] > rows[0][0].size
    min_columns = MIN_COLUMNS - 1 if is_framed else MIN_COLUMNS
    wide = [index for index, row in enumerate(rows) if len(row) >= min_columns]
    if len(wide) < MIN_ROWS - is_framed:
        return list(rows)
    num_spanning, gaps = _best_gaps([rows[index] for index in wide], MIN_ROWS - is_framed)
    if len(gaps) < min_columns - 1:
        return list(rows)
    first, last = wide[0], wide[-1]
    while first and len(rows[first - 1]) > 1 and wide[0] - first < MAX_HEADER_ROWS - 1:
        first -= 1
    while last + 1 < len(rows) and _fits(rows[last], rows[last + 1], gaps):
        last += 1
    body = rows[first : last + 1]
    start = wide[num_spanning] - first
    table = _build(body, gaps, start, [line for line in lines if body[0][0].bottom <= line <= body[-1][0].top])
    if _is_contents(table) or _mean_chars(table) > MAX_MEAN_CHARS:
        return list(rows)
    if _is_address(table):
        columns = [
            [segment for row in body for segment in row if _column(segment, gaps) == c] for c in range(len(gaps) + 1)
        ]
        return [*rows[:first], *[[segment] for column in columns for segment in column], *rows[last + 1 :]]
    return [*rows[:first], table, *rows[last + 1 :]]


def _best_gaps(rows: Sequence[list[Segment]], min_rows: int) -> tuple[int, list[Gap]]:
    """Return how many rows from the top have cells over several columns, and the gaps between the columns below."""
    choices = []
    for num_spanning in range(min(MAX_HEADER_ROWS, len(rows))):
        gaps = _gaps(rows[num_spanning:])
        is_whole = len(gaps) < max(map(len, rows[num_spanning:]))  # a text over two columns makes gaps of its own
        if not num_spanning or len(rows) - num_spanning >= (1 if is_whole else min_rows):
            choices.append((is_whole, len(gaps), -num_spanning, gaps))
    _, _, skipped, gaps = max(choices)
    return -skipped, gaps


def _gaps(rows: Sequence[list[Segment]]) -> list[Gap]:
    """Return the horizontal intervals that no segment of the rows covers, between segments."""
    gaps: list[Gap] = []
    end = None
    for segment in sorted((segment for row in rows for segment in row), key=lambda segment: segment.x0):
        if end is not None and segment.x0 - end > MIN_GAP * segment.size:
            gaps.append((end, segment.x0))
        end = segment.x1 if end is None else max(end, segment.x1)
    return gaps


def _fits(above: list[Segment], row: list[Segment], gaps: Sequence[Gap]) -> bool:
    """Return whether a row after the last full one belongs to the table: two cells, or a cell's next line."""
    is_next_line = row[0].text[0].islower() and row_distance(above, row) <= TIGHT
    return (len(row) > 1 or is_next_line) and not any(_crosses(segment, gaps) for segment in row)


def _crosses(segment: Segment, gaps: Sequence[Gap]) -> bool:
    return any(segment.x0 < start and segment.x1 > end for start, end in gaps)


def _column(segment: Segment, gaps: Sequence[Gap]) -> int:
    centre = segment.x0 if _crosses(segment, gaps) else (segment.x0 + segment.x1) / 2
    return sum(centre > (start + end) / 2 for start, end in gaps)


def _build(rows: Sequence[list[Segment]], gaps: list[Gap], start: int, lines: Sequence[float]) -> Table:
    """Return the table of rows; `start` is the first one without cells over several columns."""
    num_header, has_header = _header_rows(rows, start, lines)
    header = [_spread(row, gaps, rows) for row in rows[:num_header]]
    cells: list[list[str]] = []
    pitch = min((row_distance(*pair) for pair in pairwise(rows) if min(map(len, pair)) >= MIN_COLUMNS), default=0.0)
    tight = max(TIGHT, MAX_TIGHT * pitch)
    for above, row in pairwise([*rows[num_header - 1 : num_header], *rows[num_header:]]):
        texts = [""] * (len(gaps) + 1)
        for segment in row:
            column = _column(segment, gaps)
            texts[column] = " ".join(filter(None, [texts[column], segment.text]))
        is_cut_off = any(above[0].baseline < line < row[0].baseline for line in lines)
        if cells and not is_cut_off and row_distance(above, row) <= tight and _continues(texts, cells[-1]):
            cells[-1] = [BREAK.join(filter(None, pair)) for pair in zip(cells[-1], texts, strict=True)]
        else:
            cells.append(texts)
    segments = [segment for row in rows for segment in row]
    return Table(
        [combine_header(header), *cells],
        gaps,
        has_header,
        min(segment.x0 for segment in segments),
        rows[0][0].top,
        max(segment.x1 for segment in segments),
        rows[-1][0].bottom,
    )


def _header_rows(rows: Sequence[list[Segment]], start: int, lines: Sequence[float]) -> tuple[int, bool | None]:
    """Return the number of header rows, at least 1, and whether they are a header for sure."""
    above_line = sum(row[0].baseline < lines[0] for row in rows) if 0 < len(lines) < len(rows) / 2 else 0
    if 0 < above_line <= MAX_HEADER_ROWS:
        return above_line, True
    is_bold = [all(segment.bold for segment in row) for row in rows]
    num_bold = is_bold.index(False) if False in is_bold else 0
    if 0 < num_bold <= MAX_HEADER_ROWS:
        return num_bold, True
    return (start + 1, True) if start else (1, None)


def _spread(row: list[Segment], gaps: Sequence[Gap], rows: Sequence[list[Segment]]) -> list[str]:
    """Return a header row's text for each column; a text over several columns goes to each of them."""
    texts = [""] * (len(gaps) + 1)
    is_below = any(len(above) > len(gaps) for above in rows[: rows.index(row)])  # further lines of its header's cells
    if is_below or len(row) >= len(gaps):
        for segment in row:
            column = _column(segment, gaps)
            texts[column] = " ".join(filter(None, [texts[column], segment.text]))
        return texts
    for column in range(len(texts)):
        inside = [segment for other in rows for segment in other if _column(segment, gaps) == column]
        inside = [segment for segment in inside if not _crosses(segment, gaps)]
        x0, x1 = min(segment.x0 for segment in inside), max(segment.x1 for segment in inside)
        nearest = min(row, key=lambda segment: abs(segment.x0 + segment.x1 - x0 - x1))
        if column or (nearest.x0 < x1 and nearest.x1 > x0):
            texts[column] = nearest.text
    return texts


def _continues(texts: Sequence[str], above: Sequence[str]) -> bool:
    """Return whether a row holds further lines of the cells above it, rather than cells of its own."""
    if sum(map(bool, texts)) >= sum(map(bool, above)):
        return False
    has_values = any(VALUE.match(text) and VALUE.match(other) for text, other in zip(texts, above, strict=True))
    is_open = above[0].count("(") > above[0].count(")")  # 'Junior (under' goes on with '18)'
    return not has_values and (not texts[0] or texts[0][0].islower() or is_open)


def _is_contents(table: Table) -> bool:
    """Return whether rows are a table of contents: numbered titles with ascending page numbers."""
    pages = [row[-1] for row in table.rows if row[-1]]
    if not all(page.isdecimal() and len(page) < 5 for page in pages):
        return False
    numbers = [int(page) for page in pages]
    return numbers == sorted(numbers) and all(NUMBERING.fullmatch(row[0]) for row in table.rows if row[0])


def _is_address(table: Table) -> bool:
    """Return whether rows are blocks of contact data side by side."""
    return not table.has_header and sum(bool(ADDRESS.search(cell)) for row in table.rows for cell in row) > 1


def _mean_chars(table: Table) -> float:
    texts = [cell for row in table.rows for cell in row if cell]
    return sum(map(len, texts)) / len(texts)
