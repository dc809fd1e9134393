"""Put the parts of a page into reading order: column by column, between parts that span the columns."""

from collections.abc import Sequence
from itertools import groupby
from statistics import median

from store.ingest.pdf.across import cells_across, is_table_beside
from store.ingest.pdf.aligned import MAX_ROW_DISTANCE, TABLE_CAPTION
from store.ingest.pdf.lines import Segment, is_right_to_left, rows_of
from store.ingest.pdf.page import Rule
from store.ingest.pdf.tables import Table

MIN_LINES = 3  # of prose in each column
MIN_PROSE_CHARS = 12  # in a line; entries of a table are shorter
MIN_CELLS = 3  # of a row that is one of a table
MAX_DIGITS = 0.3  # of its characters
MIN_LOWER = 2  # lines that start in lower case: they go on with a sentence
NUM_BINS = 500  # over the width of a region
MAX_GUTTERS = 8  # candidates that are tried per region
MAX_BOXES = 1_000  # of a region with columns; a page with more has no running text, and takes long to search
MAX_IMBALANCE = 2.0  # between the ends of two columns, in font sizes
MIN_HEADING_SIZE = 1.15  # of a heading above columns, relative to the text


Box = Segment | Table


def reading_order(boxes: Sequence[Box], rules: Sequence[Rule] = (), depth: int = 4) -> list[list[Box]]:
    """Return regions in reading order, each of which is read row by row."""
    for gutter in _gutters(boxes) if depth and len(boxes) <= MAX_BOXES else []:
        bands = _bands(boxes, gutter, rules)
        left = [box for band, _ in bands for box in band if box.x1 <= gutter]
        right = [box for band, _ in bands for box in band if box.x0 >= gutter]
        if not _are_columns(left, right, rules):
            continue
        regions: list[list[Box]] = [[]]
        for band, below in bands:
            sides = [[box for box in band if box.x1 <= gutter], [box for box in band if box.x0 >= gutter]]
            if all(sides):
                sides = sides[::-1] if is_right_to_left("".join(box.text for box in band)) else sides
                regions += [region for side in sides for region in reading_order(side, rules, depth - 1)]
                regions.append([])
            else:
                regions[-1] += band
            if below:
                regions[-1].append(below)
        return [region for region in regions if region]
    return [list(boxes)]


def _gutters(boxes: Sequence[Box]) -> list[float]:
    """Return x positions that few boxes cover but many do on both sides, those that the fewest cover first.

    The lines of a column cover the gaps between the columns of a table in it, but not those beside it.
    """
    if len(boxes) < 2 * MIN_LINES:
        return []
    start, end = min(box.x0 for box in boxes), max(box.x1 for box in boxes)
    step = (end - start) / NUM_BINS or 1.0
    changes = [0] * (NUM_BINS + 2)
    for box in boxes:
        num_lines = len(box.rows) if isinstance(box, Table) else 1
        changes[round((box.x0 - start) / step)] += num_lines
        changes[round((box.x1 - start) / step)] -= num_lines
    cover, most_left = [0], [0]
    for change in changes:
        cover.append(cover[-1] + change)
        most_left.append(max(most_left[-1], cover[-1]))
    most_right = [0]
    for count in reversed(cover):
        most_right.append(max(most_right[-1], count))
    depths = [
        min(before, after) - here for before, after, here in zip(most_left, most_right[:0:-1], cover, strict=True)
    ]
    runs = [
        (key, list(run))
        for key, run in groupby(range(len(depths)), key=lambda index: (cover[index], -depths[index]))
        if -key[1] >= MIN_LINES
    ]
    runs.sort(key=lambda run: (run[0], -len(run[1])))
    return [start + (run[0] + run[-1] - 1) / 2 * step for _, run in runs[:MAX_GUTTERS]]


def _bands(boxes: Sequence[Box], gutter: float, rules: Sequence[Rule]) -> list[tuple[list[Box], Box | None]]:
    """Return the boxes beside the gutter from top to bottom, in bands that end above a box that spans it."""
    size = median(box.size for box in boxes)
    cells = cells_across([box for box in boxes if isinstance(box, Segment)], gutter, rules)
    tables: list[Box] = [*cells, *[box for box in boxes if isinstance(box, Table) and box.x0 < gutter < box.x1]]
    cell_ids = set(map(id, cells))
    spanning = [
        box
        for box in boxes
        if id(box) in cell_ids or _spans(box, boxes, gutter, size) or _is_caption(box, boxes, tables)
    ]
    spanning.sort(key=lambda box: box.top)
    bands: list[tuple[list[Box], Box | None]] = [([], box) for box in spanning] + [([], None)]
    number, ids = 0, set(map(id, spanning))
    for box in sorted(boxes, key=lambda box: box.top + box.bottom):
        if id(box) in ids:
            continue
        while number < len(spanning) and box.top + box.bottom > spanning[number].top + spanning[number].bottom:
            number += 1
        bands[number][0].append(box)
    return bands


def _spans(box: Box, boxes: Sequence[Box], gutter: float, size: float) -> bool:
    """Return whether a box crosses the gutter, or is a heading in large type with nothing beside it."""
    if box.x0 < gutter < box.x1:
        return True
    if box.size < MIN_HEADING_SIZE * size:
        return False
    is_left = box.x1 <= gutter
    beside = [other for other in boxes if (other.x1 <= gutter) != is_left]
    above = [other for other in beside if other.bottom <= box.top]
    below = [other for other in beside if other.top >= box.bottom]
    if not above or len(above) + len(below) < len(beside):
        return False
    if below:
        return True
    ends = [other.bottom for other in boxes if other.bottom <= box.top and (other.x1 <= gutter) == is_left]
    is_balanced = abs(max(ends, default=0.0) - max(other.bottom for other in above)) < MAX_IMBALANCE * size
    return is_balanced and any(other.top > box.top and other.x0 < gutter < other.x1 for other in boxes)


def _is_caption(box: Box, boxes: Sequence[Box], tables: Sequence[Box]) -> bool:
    """Return whether a box is the caption above one of the tables, with nothing beside it."""
    return (
        bool(TABLE_CAPTION.match(box.text))
        and any(0 < table.top - box.bottom < MAX_ROW_DISTANCE * box.size for table in tables)
        and not any(other is not box and other.top < box.bottom and other.bottom > box.top for other in boxes)
    )


def _are_columns(left: Sequence[Box], right: Sequence[Box], rules: Sequence[Rule]) -> bool:
    """Return whether both sides of a gutter are running text, or one is and the other has a table beside it."""
    is_prose = _is_prose(left), _is_prose(right)
    if all(is_prose) and not _are_cells(left, right):
        return True
    return (is_prose[0] and _is_beside(right, left, rules)) or (is_prose[1] and _is_beside(left, right, rules))


def _is_beside(boxes: Sequence[Box], text: Sequence[Box], rules: Sequence[Rule]) -> bool:
    """Return whether boxes have a table that the text beside them is no part of."""
    segments, lines = ([box for box in side if isinstance(box, Segment)] for side in (boxes, text))
    return len(segments) < len(boxes) or is_table_beside(segments, lines, rules)


def _are_cells(left: Sequence[Box], right: Sequence[Box]) -> bool:
    """Return whether most rows with a part on each side of a gutter have three parts or more, as those of a table."""
    ids = set(map(id, left))
    rows = rows_of(box for box in (*left, *right) if isinstance(box, Segment))
    shared = [row for row in rows if len({id(box) in ids for box in row}) == 2]
    num_cells = sum(len(row) >= MIN_CELLS for row in shared)
    return num_cells >= MIN_LINES and 2 * num_cells > len(shared)


def _is_prose(boxes: Sequence[Box]) -> bool:
    """Return whether boxes are lines of running text, rather than cells of a table."""
    rows = rows_of(box for box in boxes if isinstance(box, Segment))
    texts = [" ".join(segment.text for segment in row) for row in rows]
    lines = [text for text in texts if len(text) >= MIN_PROSE_CHARS and not _is_numeric(text)]
    is_cased = any(line.upper() != line.lower() for line in lines)
    num_lower = sum(line[0].islower() for line in lines)
    return len(lines) >= MIN_LINES and 2 * len(lines) > len(texts) and (num_lower >= MIN_LOWER or not is_cased)


def _is_numeric(text: str) -> bool:
    return sum(character.isdigit() for character in text) > MAX_DIGITS * len(text)
