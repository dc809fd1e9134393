"""A page of a PDF as a PNG picture, with a quote marked on it.

PDFium draws the page in a process of its own (`python -m store.ingest.pdf.picture`), because a damaged file can end it:
standard input has a line of JSON with the page and the quote, then the file; standard output is the picture.
"""

import ctypes
import json
import math
import re
import sys
import unicodedata
from collections.abc import Iterator

import pypdfium2 as pdfium
from PIL import Image, ImageChops, ImageDraw
from pypdfium2 import raw

from store.ingest.worker import MEMORY_BYTES, set_limits

WIDTH = 1200  # pixels, unless the page is much longer than wide
MAX_PIXELS = 4_000_000
MAX_CHARS = 50_000  # on the page, that the quote is searched in
MARK = (255, 226, 138)  # multiplied with the page: black text stays black
PIECE_ENDS = re.compile(r"[|;:\n]+|(?<=[.!?])\s")  # tables are read as "header: cell; header: cell"
MIN_PIECE = 3  # letters and digits; shorter ones are found by chance
MAX_DISTANCE = 60  # letters and digits; within a row of a table


def draw_page(data: bytes, page_index: int, quote: str) -> Image.Image:
    """Return the page, from 0, with the quote marked where it is found. Raises PdfiumError or IndexError."""
    page = pdfium.PdfDocument(data)[page_index]
    width, height = page.get_size()
    scale = min(WIDTH / width, (MAX_PIXELS / (width * height)) ** 0.5)
    picture = page.render(scale=scale).to_pil().convert("RGB")
    marks = Image.new("RGB", picture.size, "white")
    draw = ImageDraw.Draw(marks)
    for box in _boxes(page, quote, picture.size):
        draw.rectangle(box, fill=MARK)
    return ImageChops.multiply(picture, marks)


def find_pieces(characters: str, quote: str) -> list[tuple[int, int]]:
    """Return where the quote is in a page's characters: start and end of each part that is found.

    Only letters and digits are compared, since reading rejoins lines and writes tables in another form. If the whole is
    not on the page once, its sentences, and headers and cells of tables, are looked for. Of a part that is there
    several times, the one next to a part that is there once is meant, as in a row of a table, if it is near.
    """
    kept = [(letter, place) for place, each in enumerate(characters) for letter in _letters(each)]
    page, places = "".join(letter for letter, _ in kept), [place for _, place in kept]
    whole = _places(page, _letters(quote))
    parts = [whole] if len(whole) == 1 else [_places(page, _letters(piece)) for piece in PIECE_ENDS.split(quote)]
    single = [part[0] for part in parts if len(part) == 1]
    found = []
    for part in parts:
        nearest = min(part, key=lambda span: _distance(span, single), default=None)
        if nearest and _distance(nearest, single) <= MAX_DISTANCE:
            found.append(nearest)
    return [(places[start], places[end - 1] + 1) for start, end in found]


def _places(page: str, wanted: str) -> list[tuple[int, int]]:
    if len(wanted) < MIN_PIECE:
        return []
    return [(match.start(), match.end()) for match in re.finditer(re.escape(wanted), page)]


def _distance(span: tuple[int, int], single: list[tuple[int, int]]) -> float:
    """Return the letters between a span and the nearest single one."""
    return min((max(start - span[1], span[0] - end, 0) for start, end in single), default=math.inf)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _boxes(page: pdfium.PdfPage, quote: str, size: tuple[int, int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield left, top, right and bottom in pixels of each line of the quote."""
    text_layer = page.get_textpage()
    if not quote.strip() or text_layer.count_chars() > MAX_CHARS:
        return
    codes = (raw.FPDFText_GetUnicode(text_layer, index) for index in range(text_layer.count_chars()))
    characters = "".join(chr(code) if 0 < code < 0xD800 or 0xE000 <= code < 0x110000 else " " for code in codes)
    left, top, right, bottom = (ctypes.c_double() for _ in range(4))
    for start, end in find_pieces(characters, quote):
        for index in range(raw.FPDFText_CountRects(text_layer, start, end - start)):
            raw.FPDFText_GetRect(text_layer, index, left, top, right, bottom)
            x0, y0 = _pixels(page, size, left.value, top.value)
            x1, y1 = _pixels(page, size, right.value, bottom.value)
            yield min(x0, x1) - 1, min(y0, y1) - 1, max(x0, x1) + 1, max(y0, y1) + 1


def _pixels(page: pdfium.PdfPage, size: tuple[int, int], x: float, y: float) -> tuple[int, int]:
    """Return a place in PDF's coordinates as one in the picture, which shows the page turned and cropped."""
    across, down = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
    return across.value, down.value


def main() -> None:
    """Draw the page that standard input names."""
    set_limits(MEMORY_BYTES)
    request = json.loads(sys.stdin.buffer.readline())
    picture = draw_page(sys.stdin.buffer.read(), request["page"], request["quote"])
    picture.save(sys.stdout.buffer, "PNG", compress_level=3)


if __name__ == "__main__":
    main()
