"""Parse PDF files: their text as Markdown, with headings, lists and tables, and where each page begins.

PDFium (pypdfium2) reads words and lines from the pages; pdfplumber finds the tables in them. PDFium has global state:
only one thread of a process may use it, see `store.ingest.isolated`.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import accumulate

import pypdfium2 as pdfium
from pypdfium2 import raw

from store.errors import UnreadableDocument
from store.ingest import ocr
from store.ingest.document import ParsedDocument, ParseSteps
from store.ingest.pdf.assembly import assemble
from store.ingest.pdf.page import Page, read_page
from store.limits import Limits
from store.types import Progress

MAX_LAYOUT_SECONDS = 60  # per document, enough for about 2,000 dense pages; later ones become plain text
PAGE_SEPARATOR = "\n\n"
WRITTEN = {raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP}  # annotations that show text
NEEDS_OCR = f"; a scan needs text recognition (OCR), {ocr.INSTALL}"


def parse_pdf(data: bytes, name: str, limits: Limits, skipped_pages: frozenset[int] = frozenset()) -> ParseSteps:
    """Return the text of all pages as Markdown, separated by blank lines but where a paragraph goes on.

    Yields a step before each page that is read, one when all are, and one after each that is recognized. The skipped
    pages, from 0, count as damaged. Raises UnreadableDocument if the file is encrypted, damaged or scanned,
    DocumentTooLarge above a limit.
    """
    deadline = time.monotonic() + MAX_LAYOUT_SECONDS
    try:
        pages = yield from _read_pages(data, name, limits, deadline, skipped_pages)
    except pdfium.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise UnreadableDocument(f"{name} is encrypted; remove its password first.") from error
        raise UnreadableDocument(f"{name} is a damaged PDF: it cannot be opened.") from error
    num_damaged = pages.count(None)
    blank = [index for index, page in enumerate(pages) if _is_blank(page)]
    if pages and num_damaged == len(pages):
        raise UnreadableDocument(f"{name} is a damaged PDF: none of its pages can be read.")
    texts = assemble([page or Page() for page in pages], deadline)  # first: the time is not for recognition
    recognized = yield from _recognize(data, blank[: limits.max_ocr_pages], len(pages) - len(blank), len(pages))
    unread = len(blank[limits.max_ocr_pages :]) if ocr.available() else 0
    warnings = [limits.ocr_warning(unread)] if unread else []
    if len(blank) + num_damaged == len(pages) and not any(recognized.values()):
        reason = NEEDS_OCR if not ocr.available() else ", and no text was recognized on its pages" if recognized else ""
        raise UnreadableDocument(" ".join([f"{name} has no text layer{reason}.", *warnings]))
    if num_recognized := sum(map(bool, recognized.values())):
        warnings.append(ocr.warning(num_recognized))
    if num_blank := len(blank) - num_recognized - unread:
        have = "has" if num_blank == 1 else "have"
        warnings.append(f"{num_blank} of {len(pages)} pages {have} no text{'' if ocr.available() else NEEDS_OCR}.")
    if num_damaged:
        are = "is" if num_damaged == 1 else "are"
        warnings.append(f"{num_damaged} of {len(pages)} pages {are} damaged and could not be read.")
    texts = [(recognized[i], PAGE_SEPARATOR) if recognized.get(i) else text for i, text in enumerate(texts)]
    ends = accumulate(len(text) + len(separator) for text, separator in texts[:-1])
    text = "".join(part for page in texts for part in page)[: -len(texts[-1][1]) or None]
    return ParsedDocument(text, (0, *ends), " ".join(warnings), num_recognized)


def _recognize(
    data: bytes, indices: Sequence[int], num_done: int, num_pages: int
) -> Generator[Progress, None, dict[int, str]]:
    """Return the recognized text of pages without a text layer, by index; nothing without OCR."""
    recognized: dict[int, str] = {}
    if ocr.available():
        for index, lines in zip(indices, ocr.recognize_pdf_pages(data, indices), strict=True):
            recognized[index] = "\n".join(lines).strip()
            yield Progress("parsed", num_done + len(recognized), num_pages)
    return recognized


def _read_pages(
    data: bytes, name: str, limits: Limits, deadline: float, skipped: frozenset[int]
) -> Generator[Progress, None, list[Page | None]]:
    """Return each page; None for a damaged one. Blank pages are not counted as done: they may be recognized later."""
    pages: list[Page | None] = []
    length = num_blank = 0
    with pdfium.PdfDocument(data) as document:
        num_pages = len(document)
        limits.check_pages(num_pages, name)
        for index in range(num_pages):
            yield Progress("parsed", index - num_blank, num_pages)
            if index in skipped:
                pages.append(None)
                continue
            try:
                with closing(_open_page(document, index)) as page, closing(page.get_textpage()) as text_layer:
                    length += text_layer.count_chars()
                    limits.check_characters(length, name)
                    pages.append(read_page(page, text_layer, time.monotonic() < deadline))
            except pdfium.PdfiumError:
                pages.append(None)
            num_blank += _is_blank(pages[-1])
        yield Progress("parsed", num_pages - num_blank, num_pages)  # what follows is about no single page
    return pages


def _open_page(document: pdfium.PdfDocument, index: int) -> pdfium.PdfPage:
    """Return a page with what is written in its form fields and comments as a part of its text layer.

    A page without a text layer stays as it is: all that it shows is recognized.
    """
    page = document[index]
    if not _has_written_annotations(page):
        return page
    with closing(page.get_textpage()) as text_layer:
        if not text_layer.get_text_range().strip():
            return page
    raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
    page.close()
    return document[index]


def _has_written_annotations(page: pdfium.PdfPage) -> bool:
    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        raw.FPDFPage_CloseAnnot(annotation)
        if kind in WRITTEN:
            return True
    return False


def _is_blank(page: Page | None) -> bool:
    """Return whether a page has no text layer; a damaged one is not blank."""
    return page is not None and not page.plain
