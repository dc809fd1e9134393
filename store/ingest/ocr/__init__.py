"""Recognize the text of pictures and scanned pages (OCR) with rapidocr, if it is installed.

Its models are in its wheel: nothing is downloaded. They know Latin, Greek, Chinese and Japanese letters, but none of
Cyrillic, Arabic or Korean.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pypdfium2 as pdfium
from PIL import Image

from store.ingest.ocr.layout import Line, arrange, is_sideways
from store.ingest.text import normalize

INSTALL = "install it with: pip install -r requirements-ocr.txt"
RESOLUTION = 200  # dots per inch at which pages are rendered
MAX_SIDE = 2000  # pixels that rapidocr looks at; larger pictures are scaled down
MAX_ASPECT = 8  # of a picture's sides; rapidocr enlarges the shorter one to 736 pixels, and the other one with it
MAX_THREADS = 4  # each reserves memory
NUM_ORIENTED = 7  # lines that tell whether a page is upside down


def available() -> bool:
    """Return whether rapidocr is installed."""
    return find_spec("rapidocr") is not None


def warning(num_pages: int) -> str:
    """Return the sentence to show for a document with recognized pages."""
    pages = "1 page" if num_pages == 1 else f"{num_pages} pages"
    return f"The text of {pages} was recognized (OCR) and may contain errors."


def recognize(image: Image.Image) -> list[str]:
    """Return the lines of a picture in reading order, '' between paragraphs, and tables as `format_table` has them.

    A page that was scanned sideways or upside down is rotated first. A picture of one colour has no lines.
    """
    image = image.convert("RGB")
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    if image.getcolors(1):  # one colour: a blank page
        return []
    image = _widen(image)
    engine = _engine()
    lines = _find_lines(engine, image)
    if is_sideways(lines):
        image = image.transpose(Image.Transpose.ROTATE_90)
        lines = _find_lines(engine, image)
    if _is_upside_down(engine, image, lines):
        lines = _find_lines(engine, image.transpose(Image.Transpose.ROTATE_180))
    return [normalize(line) for line in arrange(lines)]


def recognize_pdf_pages(data: bytes, page_indices: Iterable[int]) -> Iterator[list[str]]:
    """Yield what `recognize` returns for each of these pages of a PDF, from 0; no lines if one cannot be drawn."""
    for index in page_indices:
        try:
            image = _draw(data, index)
        except (pdfium.PdfiumError, ValueError):  # the latter if it is cropped to nothing
            yield []
        else:
            yield recognize(image)


def _draw(data: bytes, page_index: int) -> Image.Image:
    with pdfium.PdfDocument(data) as document, closing(document[page_index]) as page:
        scale = min(RESOLUTION / 72, MAX_SIDE / max(*page.get_size(), 1))
        with closing(page.render(scale=scale)) as bitmap:
            return bitmap.to_pil().copy()


def _widen(image: Image.Image) -> Image.Image:
    """Return a picture with white space around it if it is very narrow or flat."""
    longest = max(image.size)
    if longest <= MAX_ASPECT * min(image.size):
        return image
    width, height = (max(side, 2 * longest // MAX_ASPECT) for side in image.size)
    canvas = Image.new("RGB", (width, height), "white")
    canvas.paste(image, ((width - image.width) // 2, (height - image.height) // 2))
    return canvas


@lru_cache(maxsize=1)
def _engine() -> Any:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime sends usage data from when it is imported
    from rapidocr import RapidOCR  # noqa: PLC0415  # optional, and takes a second

    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.max_side_len": MAX_SIDE,
            "Global.use_cls": False,
            "EngineConfig.onnxruntime.intra_op_num_threads": min(MAX_THREADS, os.cpu_count() or 1),
        }
    )


def _find_lines(engine: Any, image: Image.Image) -> list[Line]:
    result = engine(np.asarray(image)[:, :, ::-1])  # BGR
    if result.txts is None:
        return []
    return [Line.from_corners(corners, text) for corners, text in zip(result.boxes, result.txts, strict=True)]


def _is_upside_down(engine: Any, image: Image.Image, lines: list[Line]) -> bool:
    """Return whether most of the longest lines are, in the eyes of a classifier that is wrong about single ones."""
    longest = sorted(lines, key=lambda line: line.left - line.right)[:NUM_ORIENTED]
    num_turned = 0
    for line in longest:
        crop = np.asarray(image.crop((line.left, line.top, line.right, line.bottom)))[:, :, ::-1]
        result = engine(crop, use_det=False, use_cls=True, use_rec=False)
        num_turned += result.cls_res[0][0] == "180"
    engine.update_params(use_det=True, use_cls=False, use_rec=True)
    return num_turned * 2 > len(longest)
