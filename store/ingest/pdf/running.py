"""Drop running headers and footers, and page numbers."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from store.ingest.pdf.lines import Segment, build_segments, rows_of
from store.ingest.pdf.page import Word

MAX_LINES = 4  # of a header or footer
MAX_ROW_DISTANCE = 2.2  # between a table's header and its next row, in font sizes
MAX_SHIFT = 4.0  # points between positions that are the same
MAX_SIZE = 1.15  # relative to the text; a larger line is a heading, which can differ in its number only
MARGIN = 0.12  # of the page's height: further inside, pages that are alike are filled-in forms
ROMAN = "[ivxlc]{1,7}"
PAGE_NUMBER = re.compile(
    rf"[-\u2013\u2014|\[(]?\s*(?:(?:page|seite|p\.|s\.|blatt)\s*)?(?:\d{{1,4}}|{ROMAN})"
    rf"(?:\s*(?:of|von|/|out of)\s*\d{{1,4}})?\s*[-\u2013\u2014|\])]?",
    re.I,
)
DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Line:
    """One of a page's outermost lines."""

    text: str
    distance: float  # from the page's edge
    step: int  # the distance in steps of MAX_SHIFT
    size: float
    num_segments: int
    is_marginal: bool
    indexes: tuple[int, ...]  # of its words


def without_running_lines(pages: Sequence[Sequence[Word]], heights: Sequence[float], body: float) -> list[list[Word]]:
    """Return the words of each page without headers, footers and page numbers; `body` is the text's font size.

    A header or footer is a line among a page's outermost ones that another page has at the same height, digits aside.
    """
    all_rows = [rows_of(build_segments(words)) for words in pages]
    kept = [list(words) for words in pages]
    for is_footer in (False, True):
        margins = [_outer_lines(rows, height, is_footer) for rows, height in zip(all_rows, heights, strict=True)]
        alike = Counter(key for lines in margins for key in {(_shape(line.text), line.step) for line in lines})
        exact = Counter(key for lines in margins for key in {(line.text, line.step) for line in lines})
        for number, lines in enumerate(margins):
            is_running = [_is_running(line, alike, exact, len(pages), body) for line in lines]
            for index, line in enumerate(lines):
                below = index + 1
                is_table = not is_footer and below < len(lines) and _is_table(line, lines[below])
                if not is_running[index] or (is_table and not is_running[below]):  # a table's header stays
                    break
                rest = [word for word in kept[number] if word.index not in line.indexes]
                if not rest and not PAGE_NUMBER.fullmatch(line.text):
                    break
                kept[number] = rest
    return kept


def _outer_lines(rows: Sequence[list[Segment]], height: float, is_footer: bool) -> list[_Line]:
    """Return the first or last lines of a page, the outermost first."""
    lines = []
    for row in rows[: -MAX_LINES - 1 : -1] if is_footer else rows[:MAX_LINES]:
        distance = height - row[0].baseline if is_footer else row[0].baseline
        lines.append(
            _Line(
                " ".join(segment.text for segment in row),
                distance,
                round(distance / MAX_SHIFT),
                max(segment.size for segment in row),
                len(row),
                distance < MARGIN * height,
                tuple(word.index for segment in row for word in segment.words),
            )
        )
    return lines


def _is_running(line: _Line, alike: Counter, exact: Counter, num_pages: int, body: float) -> bool:
    if not line.is_marginal or PAGE_NUMBER.fullmatch(line.text):
        return line.is_marginal
    steps = range(line.step - 1, line.step + 2)
    if line.size > MAX_SIZE * body:
        return sum(exact[line.text, step] for step in steps) >= max(3, num_pages / 2)
    return sum(alike[_shape(line.text), step] for step in steps) > 1


def _is_table(line: _Line, below: _Line) -> bool:
    """Return whether a page's first lines are rows of a table."""
    is_near = below.distance - line.distance < MAX_ROW_DISTANCE * line.size
    return is_near and line.num_segments > 1 and below.num_segments > 1


def _shape(text: str) -> str:
    return DIGITS.sub("0", text)
