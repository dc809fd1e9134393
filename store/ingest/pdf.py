"""Parse PDF files with pypdfium2: the text layer of each page, and where each page begins."""

import threading
from contextlib import closing
from itertools import accumulate

import pypdfium2 as pdfium
from pypdfium2.raw import FPDF_ERR_PASSWORD

from store.errors import UnreadableDocument
from store.ingest.document import ParsedDocument, check_text_length
from store.ingest.text import normalize

PAGE_SEPARATOR = "\n\n"
_PDFIUM_LOCK = threading.Lock()  # PDFium has global state and is not thread-safe


def parse_pdf(data: bytes, name: str) -> ParsedDocument:
    """Return the text of all pages, separated by blank lines.

    Raises UnreadableDocument if the file is encrypted, damaged or scanned, DocumentTooLarge above the text limit.
    """
    try:
        with _PDFIUM_LOCK:
            texts = _page_texts(data, name)
    except pdfium.PdfiumError as error:
        if error.err_code == FPDF_ERR_PASSWORD:
            raise UnreadableDocument(f"{name} is encrypted; remove its password first.") from error
        raise UnreadableDocument(f"{name} is a damaged PDF: it cannot be opened.") from error
    num_blank = texts.count("")
    num_damaged = texts.count(None)
    pages = [text or "" for text in texts]
    if pages and num_damaged == len(pages):
        raise UnreadableDocument(f"{name} is a damaged PDF: none of its pages can be read.")
    if not any(pages):
        raise UnreadableDocument(f"{name} has no text layer: it looks scanned and needs OCR (text recognition) first.")
    ends = accumulate(len(page) + len(PAGE_SEPARATOR) for page in pages[:-1])
    warnings = []
    if num_blank:
        warnings.append(f"{num_blank} of {len(pages)} pages have no text; if they are scanned, they need OCR.")
    if num_damaged:
        warnings.append(f"{num_damaged} of {len(pages)} pages are damaged and could not be read.")
    return ParsedDocument(PAGE_SEPARATOR.join(pages), (0, *ends), " ".join(warnings))


def _page_texts(data: bytes, name: str) -> list[str | None]:
    """Return the text of each page; None for a damaged one."""
    texts: list[str | None] = []
    length = 0
    with pdfium.PdfDocument(data) as document:
        for index in range(len(document)):
            try:
                with closing(document[index]) as page, closing(page.get_textpage()) as text_layer:
                    length += text_layer.count_chars()
                    check_text_length(length, name)
                    texts.append(normalize(text_layer.get_text_range()).strip())
            except pdfium.PdfiumError:
                texts.append(None)
    return texts
