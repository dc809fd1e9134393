"""Read a page with pypdfium2: words with position, size and weight, and the straight lines that are drawn on it.

Positions are in points from the top left corner of the page, turned so that most of its text is upright.
"""

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from store.ingest.text import normalize

MAX_PAGE_CHARS = 20_000  # a full newspaper page has fewer; more is usually dumped data
MAX_PAGE_LINES = 5_000  # a table of 200 rows and 20 columns, its cells framed one by one, has 4,000 sides that differ
MAX_PAGE_OBJECTS = 50_000  # looked through for lines; takes half a second
BOLD = re.compile(r"bold|black|heavy|demi|CMBX|SFBX|CMSSBX", re.I)
FILL_AND_STROKE = 2  # draws a bold weight that the font lacks
MIN_BOLD_WEIGHT = 600
HYPHEN = "\x02"  # PDFium's mark for the hyphen at a line end
LIGATURES = str.maketrans(
    {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st"}
)
SOFT_HYPHEN = re.compile("\xad(?![\n]|$)")
MAX_GAP = 0.25  # inside a word, in font sizes
MAX_DOT = 8.0  # points
MAX_DOTS = 200  # on a page; more are a diagram
MAX_BULLET_DISTANCE = 2.0  # between a drawn bullet and its text, in font sizes
MAX_COORDINATE = 1e5  # in points; damaged files have others
BORDER = 2.0  # points from the page's edge where lines are its frame


Dot = tuple[float, float, float, float]  # left, top, right, bottom
Place = Callable[[float, float], tuple[float, float]]  # from PDF's coordinates to ours


@dataclass(frozen=True, slots=True)
class Word:
    """Characters without white space between them."""

    text: str
    x0: float
    x1: float
    baseline: float
    size: float
    bold: bool = False
    index: int = 0  # of its first character in the order of the file


@dataclass(frozen=True, slots=True)
class Rule:
    """A straight horizontal or vertical line."""

    x0: float
    top: float
    x1: float
    bottom: float


@dataclass(slots=True)
class Page:
    """What a page shows."""

    height: float = 0.0
    words: list[Word] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    plain: str = ""  # PDFium's own text of the page
    aside: str = ""  # text in other directions, such as a watermark


@dataclass(frozen=True, slots=True)
class _Char:
    text: str
    x: float
    y: float
    box: tuple[float, float, float, float]  # left, bottom, right, top
    direction: tuple[int, int] | None  # of the line it is on; None if oblique
    size: float
    bold: bool


def read_page(page: pdfium.PdfPage, text_layer: pdfium.PdfTextPage, with_layout: bool = True) -> Page:
    """Return a page's content; its plain text only without layout, or if it has too many characters."""
    plain = clean(text_layer.get_text_range().replace("\ufffe", "-\n"))
    if not with_layout or text_layer.count_chars() > MAX_PAGE_CHARS:
        return Page(plain=plain)
    chars = list(_read_chars(text_layer))
    directions = Counter(char.direction for char in chars if char and char.direction)
    cos, sin = directions.most_common(1)[0][0] if directions else (1, 0)

    def turned(x: float, y: float) -> tuple[float, float]:
        return x * cos + y * sin, x * sin - y * cos

    left, bottom, right, top = page.get_bbox()
    corners = [turned(left, bottom), turned(right, top)]
    origin = (min(x for x, _ in corners), min(y for _, y in corners))
    width, height = (max(corner[axis] for corner in corners) - origin[axis] for axis in (0, 1))

    def place(x: float, y: float) -> tuple[float, float]:
        x, y = turned(x, y)
        return x - origin[0], y - origin[1]

    aside = "".join(" " if char is None else "" if char.direction == (cos, sin) else char.text for char in chars)
    upright = [char if char and char.direction == (cos, sin) else None for char in chars]
    words = [word for word in _words(upright, place) if word.text]
    rules, dots = _read_drawings(page, place)
    words = _with_bullets(words, dots)
    rules = [rule for rule in rules if _is_inside(rule, width, height)]
    return Page(height, words, rules, plain, clean(" ".join(aside.split())))


def clean(text: str) -> str:
    """Return text with plain letters for ligatures, without control characters, blanks at its ends and soft hyphens.

    A soft hyphen at a line end becomes a hyphen.
    """
    text = SOFT_HYPHEN.sub("", normalize(_join_surrogates(text)).translate(LIGATURES))
    return text.replace("\xad", "-").strip()


def _join_surrogates(text: str) -> str:
    """Return text with one character for each pair of UTF-16 surrogates."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _read_chars(text_layer: pdfium.PdfTextPage) -> Iterator[_Char | None]:
    """Yield the characters, None for white space."""
    styles: dict[int | None, tuple[tuple[int, int] | None, float, bool]] = {}
    box, matrix, x, y = raw.FS_RECTF(), raw.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
    for index in range(text_layer.count_chars()):
        code = raw.FPDFText_GetUnicode(text_layer, index)
        text = "-" if chr(code) == HYPHEN else chr(code)
        source = raw.FPDFText_GetTextObject(text_layer, index)
        if not source or not text.strip() or not code:
            yield None
            continue
        address = ctypes.cast(source, ctypes.c_void_p).value
        if address not in styles:
            raw.FPDFText_GetMatrix(text_layer, index, matrix)
            size = raw.FPDFText_GetFontSize(text_layer, index) * math.hypot(matrix.c, matrix.d)
            styles[address] = (_direction(matrix.a, matrix.b), size, _is_bold(source))
        raw.FPDFText_GetLooseCharBox(text_layer, index, box)
        raw.FPDFText_GetCharOrigin(text_layer, index, x, y)
        direction, size, bold = styles[address]
        yield _Char(text, x.value, y.value, (box.left, box.bottom, box.right, box.top), direction, size, bold)


def _direction(cos: float, sin: float) -> tuple[int, int] | None:
    """Return the direction of a text as a unit vector along an axis; None if it is oblique."""
    length = math.hypot(cos, sin) or 1.0
    direction = (round(cos / length), round(sin / length))
    is_along_axis = abs(cos / length - direction[0]) < 0.05 and abs(sin / length - direction[1]) < 0.05
    return direction if is_along_axis and any(direction) else None


def _is_bold(text_object: Any) -> bool:
    if raw.FPDFTextObj_GetTextRenderMode(text_object) == FILL_AND_STROKE:
        return True
    font = raw.FPDFTextObj_GetFont(text_object)
    name = ctypes.create_string_buffer(256)
    raw.FPDFFont_GetBaseFontName(font, name, len(name))
    return bool(BOLD.search(name.value.decode(errors="replace"))) or raw.FPDFFont_GetWeight(font) >= MIN_BOLD_WEIGHT


def _words(chars: Sequence[_Char | None], place: Place) -> Iterator[Word]:
    """Yield the words, each of consecutive characters on one line without a wide gap."""
    parts: list[Word] = []
    for index, char in enumerate([*chars, None]):
        part = _place_char(char, place, index) if char else None
        if char and not part:
            continue
        if parts and not (part and _is_same_word(parts, part)):
            yield join_chars(parts)
            parts = []
        if part:
            parts.append(part)


def _place_char(char: _Char, place: Place, index: int) -> Word | None:
    """Return a character as a word; None if it is nowhere near the page."""
    left, bottom, right, top = char.box
    (xa, ya), (xb, yb) = place(left, bottom), place(right, top)
    size = char.size if char.size > 1 else max(abs(ya - yb), 1.0)  # a font of pictures has its own units
    word = Word(char.text, min(xa, xb), max(xa, xb), place(char.x, char.y)[1], size, char.bold, index)
    is_near = all(abs(number) < MAX_COORDINATE for number in (word.x0, word.x1, word.baseline, size))
    return word if is_near else None


def _is_same_word(parts: Sequence[Word], part: Word) -> bool:
    last = parts[-1]
    gap = max(part.x0 - last.x1, last.x0 - part.x1)
    return gap < MAX_GAP * part.size and abs(part.baseline - parts[0].baseline) < 0.5 * part.size


def join_chars(parts: Sequence[Word]) -> Word:
    """Return the word of some characters. Right-to-left ones are put in order, as files can have them either way."""
    first = parts[0]
    is_rtl = all(unicodedata.bidirectional(part.text[0]) in ("R", "AL") for part in parts)
    if is_rtl and parts[0].x0 < parts[-1].x0:
        parts = parts[::-1]
    x0, x1 = min(part.x0 for part in parts), max(part.x1 for part in parts)
    text = clean("".join(part.text for part in parts))
    return Word(text, x0, x1, first.baseline, first.size, first.bold, first.index)


def _is_inside(rule: Rule, width: float, height: float) -> bool:
    """Return whether a line is on the page, and not its frame."""
    if rule.x0 == rule.x1:
        return BORDER < rule.x0 < width - BORDER
    return BORDER < rule.top < height - BORDER


def _read_drawings(page: pdfium.PdfPage, place: Place) -> tuple[list[Rule], list[Dot]]:
    """Return the straight lines among the drawings, sides of rectangles included, and the dots; none if too many."""
    rules: list[Rule] = []
    dots: list[Dot] = []
    num_sides = 0
    for number, item in enumerate(page.get_objects()):
        if number > MAX_PAGE_OBJECTS:
            return [], []
        if item.type != raw.FPDF_PAGEOBJ_PATH or not _is_visible(item):
            continue
        num_sides += raw.FPDFPath_CountSegments(item)
        if num_sides > MAX_PAGE_LINES:
            return [], []
        left, bottom, right, top = item.get_bounds()
        if item.container is None and max(right - left, top - bottom) < MAX_DOT:
            (xa, ya), (xb, yb) = place(left, bottom), place(right, top)
            dots.append((min(xa, xb), min(ya, yb), max(xa, xb), max(ya, yb)))
            continue
        for start, end in _sides(item):
            (xa, ya), (xb, yb) = place(*start), place(*end)
            if abs(ya - yb) < 1 < abs(xa - xb):
                rules.append(Rule(min(xa, xb), (ya + yb) / 2, max(xa, xb), (ya + yb) / 2))
            elif abs(xa - xb) < 1 < abs(ya - yb):
                rules.append(Rule((xa + xb) / 2, min(ya, yb), (xa + xb) / 2, max(ya, yb)))
    return rules, dots if len(dots) <= MAX_DOTS else []


def _with_bullets(words: list[Word], dots: Sequence[Dot]) -> list[Word]:
    """Return words with a bullet before each line that has a drawn one, as browsers make them."""
    result: list[Word] = []
    for before, word in pairwise([None, *words]):
        if word is None:
            continue
        if before is None or abs(before.baseline - word.baseline) > 0.5 * word.size:
            for x0, top, x1, bottom in dots:
                is_beside = 0 < word.x0 - x1 < MAX_BULLET_DISTANCE * word.size
                is_round = abs((x1 - x0) - (bottom - top)) < 1 and x1 - x0 > 0.2 * word.size
                if is_beside and is_round and word.baseline - word.size < top and bottom < word.baseline:
                    result.append(replace(word, text="\u2022", x0=x0, x1=x1))
                    break
        result.append(word)
    return [replace(word, index=index) for index, word in enumerate(result)]


def _is_visible(path: pdfium.PdfObject) -> bool:
    """Return whether a path is drawn, and not just filled with white."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    raw.FPDFPath_GetDrawMode(path, fill, stroke)
    if stroke.value or not fill.value:
        return bool(stroke.value)
    colour = [ctypes.c_uint() for _ in range(4)]
    raw.FPDFPageObj_GetFillColor(path, *colour)
    return any(part.value < 250 for part in colour[:3]) and colour[3].value > 0


def _sides(path: pdfium.PdfObject) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Yield the straight segments of a path, from point to point."""
    matrix = path.get_matrix()
    container = path.container
    while container:
        matrix = matrix.multiply(container.get_matrix())
        container = container.container
    x, y = ctypes.c_float(), ctypes.c_float()
    start = last = (0.0, 0.0)
    for index in range(raw.FPDFPath_CountSegments(path)):
        segment = raw.FPDFPath_GetPathSegment(path, index)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = matrix.on_point(x.value, y.value)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == raw.FPDF_SEGMENT_LINETO:
            yield last, point
        if raw.FPDFPathSegment_GetClose(segment):
            yield point, start
        last = point
