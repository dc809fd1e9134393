"""Turn the rows of a region into blocks: headings, paragraphs, list items and tables."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from store.ingest.pdf.aligned import CAPTION, LEADER, MAX_ROW_DISTANCE, Item
from store.ingest.pdf.lines import BREAK, Segment, is_right_to_left
from store.ingest.pdf.tables import Table

BULLETS = "\u2022\u25cf\u25cb\u25e6\u25aa\u25ab\u25a0\u25a1\u2023\u2043\u2219\u00b7\u2713\u2714\u27a2\u25ba\u25b6"
BULLETS += "\uf0b7\uf0a7\uf0d8\uf076\uf0fc\uf02d"  # of the fonts Symbol and Wingdings
LONE_BULLETS = ("o", "\u00a7")  # what Word's second and third bullet are in other fonts
BULLET = re.compile(rf"[{BULLETS}]\s*(?=\S)")
MARKER = re.compile(r"(?:[-\u2013\u2014*]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)])\s+(?=\S)")
DASH = re.compile(r"[-\u2013\u2014*]\s")
CLAUSE = re.compile(r"(?:\d{1,2}(?:\.\d{1,2})+\.?|\u00a7+\s?\d+\w?|\[\d+\]|\(\d+\))\s+(?=\S)")  # starts a paragraph
NUMBERED = re.compile(r"(?:\u00a7\s?)?(\d{1,2}(?:\.\d{1,2})*)\.?\s+(?=\S)")  # a heading, if it is bold or large
PLAIN_NUMBER = re.compile(r"(\d{1,2})\s+(?=[^\W\d_])(?![a-z])")  # of a list item, if others follow
SENTENCE_END = re.compile(r"[.!?:;\u3002\uff01\uff1f][\"'\u201d\u201c\u2019)\]]*$")
AMOUNT = re.compile(r"\d[.,]\d\d\b")
MAX_LEADING = 1.35  # distance of baselines inside a paragraph, relative to the usual
WIDE_GAP = 2.0  # in font sizes: such a row is a line of its own, as of a label and a value
MAX_STRETCH = 3.0  # in a justified line, of its widest space relative to its narrowest and to the font size
INDENT = 0.8  # of a paragraph's first line, in font sizes
MAX_INDENT = 5.0
FULL_WIDTH = 0.6  # of the region: line ends of a block that is narrower are kept
MIN_HEADING_SIZE = 1.14  # relative to the text
MAX_HEADING_CHARS = 150
MAX_BOLD_HEADING_CHARS = 100  # in the size of the text; more is a bold paragraph
MAX_HEADING_LINES = 3
MAX_LINES = 8  # of a block, in which the item before the next one is
MIN_ITEMS = 2  # within it
ITEM_IN_TEXT = re.compile(r"(?<!\S)\((\d{1,2}|[A-Za-z])\) ")  # not 'clause 4(a)'
MIN_NUMBERED = 3  # lines that begin with 1, 2, 3 without a dot: a list


@dataclass(frozen=True, slots=True)
class Style:
    """What is usual in a document."""

    size: float = 10.0  # of the font
    bold: bool = False
    leading: float = 1.2  # distance of baselines, in font sizes


@dataclass(slots=True)
class Block:
    """A part of a page. Its text has BREAK where a line ended, and a line end where that must stay."""

    kind: str  # 'heading', 'paragraph', 'list' or 'table'
    text: str
    size: float = 0.0
    bold: bool = False
    table: Table | None = None


@dataclass(slots=True)
class _Line:
    text: str
    x0: float
    x1: float
    baseline: float
    size: float
    bold: bool
    first_width: float  # of the first word
    text_x0: float  # of the text after a list marker, or of the last segment
    is_spaced: bool  # has a wide gap
    marker: str  # with which it starts, without white space
    is_apart: bool  # whether there is a gap after its first word
    right: float = 0.0  # end of the longest lines around it


def build_blocks(items: Sequence[Item], style: Style) -> list[Block]:
    """Return the blocks of a region's rows and tables."""
    blocks: list[Block] = []
    lines: list[_Line] = []
    for item in [*items, None]:
        if isinstance(item, list):
            lines.append(_make_line(item))
            continue
        blocks += _text_blocks(lines, style)
        lines = []
        if isinstance(item, Table):
            if item.title:
                blocks.append(Block("paragraph", item.title))
            blocks.append(Block("table", "", table=item))
    return blocks


def _make_line(row: Sequence[Segment]) -> _Line:
    """Return the line of a row's segments. Right-to-left lines are mirrored, so that all lines start at the left."""
    text = " ".join(segment.text for segment in row)
    is_rtl = is_right_to_left(text)
    main = max(row, key=lambda segment: len(segment.text))
    words = [word for segment in row for word in segment.words]
    sides = [(-word.x1, -word.x0) if is_rtl else (word.x0, word.x1) for word in words]
    marker = _marker(row)
    num_marked = _num_marker_words(marker, [word.text for word in words])
    gaps = [after[0] - before[1] for before, after in pairwise(sides[num_marked:])]
    widest, narrowest = max(gaps, default=0.0), min(gaps, default=0.0)
    is_stretched = len(gaps) > 1 and widest < MAX_STRETCH * min(narrowest, main.size)
    is_spaced = widest > WIDE_GAP * main.size and not is_stretched
    last = row[-1].words[0]
    return _Line(
        text,
        min(x0 for x0, _ in sides),
        max(x1 for _, x1 in sides),
        main.baseline,
        main.size,
        all(segment.bold for segment in row),
        sides[0][1] - sides[0][0],
        (-last.x1 if is_rtl else last.x0) if is_spaced else sides[num_marked][0],
        is_spaced,
        marker,
        len(row) > 1 and len(row[0].words) == 1,
    )


def _marker(row: Sequence[Segment]) -> str:
    """Return the list marker or the number that a row starts with; '' if there is none."""
    text = " ".join(segment.text for segment in row)
    match = BULLET.match(text) or MARKER.match(text) or CLAUSE.match(text)
    if match:
        return match[0].strip()
    return row[0].text if len(row) > 1 and row[0].text in LONE_BULLETS else ""


def _num_marker_words(marker: str, words: Sequence[str]) -> int:
    """Return how many of a line's words make its marker; 0 if nothing follows or no space does."""
    rest, number = marker.replace(" ", ""), 0
    while rest and rest.startswith(words[number]) and number < len(words) - 1:
        rest, number = rest[len(words[number]) :], number + 1
    return 0 if rest else number


def _text_blocks(lines: list[_Line], style: Style) -> list[Block]:
    """Return the blocks of lines without tables between them."""
    if not lines:
        return []
    _set_right(lines, style)
    _mark_plain_numbers(lines)
    groups: list[list[_Line]] = []
    texts: list[str] = []
    for line in lines:
        separator = _separator(groups[-1], line, style) if groups else ""
        if separator:
            groups[-1].append(line)
            texts[-1] += separator + line.text
        else:
            groups.append([line])
            texts.append(line.text)
    blocks: list[Block] = []
    indents: list[float] = []
    for text, group in zip(texts, groups, strict=True):
        kind = _kind(text, group, style)
        if kind == "list":
            indents = [indent for indent in indents if indent < group[0].x0 - INDENT * group[0].size]
            text = "  " * len(indents) + _item_text(text, group[0].marker)
            indents.append(group[0].x0)
        else:
            indents = []
        if kind == "heading":
            text = text.replace("\n", BREAK)
        blocks.append(Block(kind, text, group[0].size, group[0].bold))
    return blocks


def _set_right(lines: Sequence[_Line], style: Style) -> None:
    """Set where the longest lines around each line end: those of its paragraph if it is wide, else of the region."""
    left, right = min(line.x0 for line in lines), max(line.x1 for line in lines)
    start = 0
    for index in range(1, len(lines) + 1):
        if index < len(lines) and _is_close(lines[index - 1], lines[index], style):
            continue
        part = lines[start:index]
        end = max(line.x1 for line in part)
        is_wide = end - min(line.x0 for line in part) >= FULL_WIDTH * (right - left)
        for line in part:
            line.right = end if is_wide else right
        start = index


def _mark_plain_numbers(lines: Sequence[_Line]) -> None:
    """Set the markers of list items whose numbers have no dot: lines with the same start that count up.

    They count from 1, or if they stand apart from the text, from another number: the list began on the page before.
    """
    items: list[_Line] = []
    first = 1
    for line in lines:
        number = PLAIN_NUMBER.match(line.text)
        if number is None or line.is_spaced:
            continue
        is_next = bool(items) and int(number[1]) == first + len(items)
        if is_next and abs(line.x0 - items[0].x0) < INDENT * line.size:
            items.append(line)
            for position, item in enumerate(items if len(items) >= MIN_NUMBERED else (), start=first):
                item.marker = str(position)
        elif number[1] == "1" or (line.is_apart and not items):
            items, first = [line], int(number[1])


def counts_on(text: str, following: str) -> bool:
    """Return whether a sentence with '(a) ...; (b) ...;' goes on with the next of these."""
    items, first = ITEM_IN_TEXT.findall(text), ITEM_IN_TEXT.match(following)
    if len(items) < MIN_ITEMS or first is None or text.rstrip()[-1:] not in (";", ","):
        return False
    counted = [_ordinal(item) for item in (*items, first[1])]
    return items[0] in ("1", "a", "A") and counted == list(range(counted[0], counted[0] + len(counted)))


def _ordinal(item: str) -> int:
    """Return the number of an item, or that of its letter."""
    return int(item) if item.isdecimal() else ord(item.lower())


def _is_close(line: _Line, following: _Line, style: Style) -> bool:
    """Return whether the distance and size of two lines allow them to be one paragraph."""
    distance = following.baseline - line.baseline
    is_same_size = abs(line.size - following.size) <= 0.1 * line.size
    return is_same_size and distance <= MAX_LEADING * style.leading * line.size


def _separator(group: Sequence[_Line], line: _Line, style: Style) -> str:
    """Return what joins a line to the lines of a block: BREAK, or a line end that stays; '' if it starts a block."""
    first, last = group[0], group[-1]
    is_open = not SENTENCE_END.search(last.text)
    goes_on = is_open and line.text[0].islower()
    if not _is_close(last, line, style):
        is_near = line.baseline - last.baseline < MAX_ROW_DISTANCE * line.size and abs(line.size - last.size) < 0.5
        return BREAK if goes_on and is_near and not line.marker and not _fits(last, line) else ""
    if LEADER.search(last.text) and LEADER.search(line.text):
        return "\n"
    if last.bold != line.bold and not (goes_on and not _fits(last, line)):
        return ""
    if counts_on(" ".join(each.text for each in group[-MAX_LINES:]), line.text):
        return BREAK
    is_list = bool(first.marker)
    if line.marker:
        is_sure = BULLET.match(line.marker) or is_list or not is_open or _fits(last, line) or line.x0 > last.x0 + 1
        if is_sure or (NUMBERED.match(line.text) and (line.bold or line.size > MIN_HEADING_SIZE * style.size)):
            return ""
    if LEADER.search(last.text) or LEADER.search(line.text):
        return "\n"
    if last.is_spaced or line.is_spaced:
        is_wrapped = not line.is_spaced and abs(line.x0 - last.text_x0) < 3
        return BREAK if is_wrapped else "\n"
    if is_list:
        is_inside = line.x0 > first.x0 + 0.3 * line.size
        return BREAK if is_inside or not _fits(last, line) else ""
    shift = (line.x0 - last.x0) / line.size
    if INDENT < shift < MAX_INDENT and (not is_open or _fits(last, line)):
        return ""
    has_hanging_indent = len(group) > 1 and group[1].x0 > first.x0 + INDENT * line.size
    if has_hanging_indent and abs(line.x0 - first.x0) < 1:
        return ""
    if _fits(last, line):
        return "\n" if is_open else ""
    return BREAK


def _fits(line: _Line, following: _Line) -> bool:
    """Return whether the first word of the following line would have had room on a line: so it ended on purpose."""
    return line.right - line.x1 > following.first_width + 0.75 * line.size


def _kind(text: str, group: Sequence[_Line], style: Style) -> str:
    """Return the kind of block that lines make."""
    if _is_heading(text, group, style):
        return "heading"
    marker = group[0].marker
    return "list" if marker and (marker in LONE_BULLETS or not CLAUSE.match(text)) else "paragraph"


def _is_heading(text: str, group: Sequence[_Line], style: Style) -> bool:
    first = group[0]
    if (
        len(text) > MAX_HEADING_CHARS
        or len(group) > MAX_HEADING_LINES
        or any(line.is_spaced for line in group)
        or BULLET.match(text)
        or DASH.match(text)
        or CAPTION.match(text)
        or not any(character.isalpha() for character in text)
    ):
        return False
    if first.size >= MIN_HEADING_SIZE * style.size:
        return True
    is_bold = first.bold and not style.bold and first.size > 0.95 * style.size
    is_short = len(text) <= MAX_BOLD_HEADING_CHARS and "\n" not in text
    return is_bold and is_short and not text.endswith((".", ",", ";")) and not AMOUNT.search(text)


def _item_text(text: str, marker: str) -> str:
    """Return a list item's text after '- ', or after its number or letter."""
    rest = text[len(marker) :].lstrip(" " + BREAK)
    if marker.isdecimal():
        return f"{marker}. {rest}"
    return f"{marker} {rest}" if any(character.isalnum() for character in marker.strip("o")) else f"- {rest}"
