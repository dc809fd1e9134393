"""Parse pictures (PNG, JPEG, TIFF, WebP) by recognizing their text; each picture of a TIFF file is a page."""

import io
from itertools import accumulate

from PIL import Image, ImageOps

from store.errors import DocumentTooLarge, UnreadableDocument
from store.ingest.document import ParsedDocument, ParseSteps, reading
from store.ingest.ocr import INSTALL, available, recognize, warning
from store.limits import Limits
from store.types import Progress

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
MAX_PIXELS = 80_000_000  # of a page; a sheet of A3 at 600 dots per inch has 70 million
PAGE_SEPARATOR = "\n\n"


def parse_image(data: bytes, name: str, limits: Limits) -> ParseSteps:
    """Return the recognized text; yield a step before each page.

    Raises UnreadableDocument without text or rapidocr, else DocumentTooLarge.
    """
    if not available():
        raise UnreadableDocument(f"{name} is a picture and needs text recognition; {INSTALL}.")
    pages: list[str] = []
    with reading(name, "picture"), _open(data, name) as image:
        num_pages = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
        limits.check_picture_pages(num_pages, name)
        for index in range(num_pages):
            yield Progress("parsed", index, num_pages)
            image.seek(index)
            _check_size(image, name)
            pages.append("\n".join(recognize(_flatten(image))).strip())
    if not any(pages):
        raise UnreadableDocument(f"{name} is a picture in which no text was found.")
    starts = accumulate((len(page) + len(PAGE_SEPARATOR) for page in pages[:-1]), initial=0)
    return ParsedDocument(PAGE_SEPARATOR.join(pages), tuple(starts), warning(len(pages)), len(pages))


def _open(data: bytes, name: str) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise DocumentTooLarge(f"{name} has over {MAX_PIXELS:,} pixels, which is the limit.") from error
    _check_size(image, name)
    return image


def _check_size(image: Image.Image, name: str) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise DocumentTooLarge(f"{name} has over {MAX_PIXELS:,} pixels, which is the limit.")


def _flatten(image: Image.Image) -> Image.Image:
    """Return a picture upright as its camera says, and on white where it is transparent."""
    upright = ImageOps.exif_transpose(image)
    if not upright.has_transparency_data:
        return upright
    layer = upright.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
