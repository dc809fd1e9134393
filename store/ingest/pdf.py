"""PDF, with pypdfium2: the text layer of every page, and where each page begins.

A scanned page is a picture and has no text layer; a file of such pages is refused with the reason, and one with
some of them is read with a warning.
"""

import threading
from contextlib import closing

import pypdfium2 as pdfium
from pypdfium2.raw import FPDF_ERR_PASSWORD

from store.errors import UnreadableDocument
from store.ingest.document import ParsedDocument, ParseLimits
from store.ingest.text import normalize

BETWEEN_PAGES = "\n\n"
_PDFIUM = threading.Lock()  # PDFium itself is global and serves one thread at a time


def parse_pdf(data: bytes, name: str, limits: ParseLimits) -> ParsedDocument:
    """Return the pages' text, two line ends apart.

    Raises UnreadableDocument if the file is encrypted, damaged or scanned, DocumentTooLarge past the text limit.
    """
    try:
        with _PDFIUM:
            pages, broken = _texts_of_pages(data, name, limits)
    except pdfium.PdfiumError as error:
        if error.err_code == FPDF_ERR_PASSWORD:
            raise UnreadableDocument(f"{name} is encrypted; remove its password first.") from error
        raise UnreadableDocument(f"{name} is a damaged PDF: it cannot be opened.") from error
    if pages and broken == len(pages):
        raise UnreadableDocument(f"{name} is a damaged PDF: none of its pages can be read.")
    if not any(pages):
        raise UnreadableDocument(f"{name} has no text layer: it looks scanned and needs OCR (text recognition) first.")
    starts, character = [], 0
    for page in pages:
        starts.append(character)
        character += len(page) + len(BETWEEN_PAGES)
    blank = pages.count("") - broken
    remarks = (
        f"{blank} of {len(pages)} pages have no text; if they are scanned, they need OCR" if blank else "",
        f"{broken} of {len(pages)} pages are damaged and could not be read" if broken else "",
    )
    return ParsedDocument(BETWEEN_PAGES.join(pages), tuple(starts), ". ".join(filter(None, remarks)))


def _texts_of_pages(data: bytes, name: str, limits: ParseLimits) -> tuple[list[str], int]:
    """Return the text of each page, and how many are damaged: those have none."""
    texts, length, broken = list[str](), 0, 0
    with pdfium.PdfDocument(data) as document:
        for number in range(len(document)):
            try:
                with closing(document[number]) as page, closing(page.get_textpage()) as layer:
                    length += layer.count_chars()
                    limits.check_text(length, name)
                    texts.append(normalize(layer.get_text_range()).strip())
            except pdfium.PdfiumError:
                texts.append("")
                broken += 1
    return texts, broken
