"""Convert a file's bytes to plain text: PDF, Word, HTML, Markdown and text.

The content decides the format; the name only breaks ties. Every parser returns text with `\n` as the only line end
and no control characters but `\n` and `\t`, so offsets into it are unambiguous.
"""

import os
from collections.abc import Callable
from pathlib import Path

from store.errors import DocumentTooLarge, UnreadableDocument
from store.ingest.csv_file import parse_csv
from store.ingest.document import ParsedDocument, ParseSteps, check_text_length
from store.ingest.markdown_file import parse_markdown
from store.ingest.ocr.image import parse_image
from store.ingest.office.docx import parse_docx
from store.ingest.office.pptx import parse_pptx
from store.ingest.office.xlsx import parse_xlsx
from store.ingest.pdf import parse_pdf
from store.ingest.sniff import detect_format
from store.ingest.text import parse_text
from store.ingest.web.epub import parse_epub
from store.ingest.web.html import parse_html
from store.names import clean_name

MAX_FILE_BYTES = 50 * 2**20
PARSERS: dict[str, Callable[[bytes, str], ParsedDocument | ParseSteps]] = {
    "pdf": parse_pdf,
    "docx": parse_docx,
    "xlsx": parse_xlsx,
    "pptx": parse_pptx,
    "epub": parse_epub,
    "html": parse_html,
    "image": parse_image,
    "markdown": parse_markdown,
    "csv": parse_csv,
    "text": parse_text,
}


def parse(data: bytes, name: str) -> ParsedDocument:
    """Return the text of a file's bytes; `name` is for its extension and for messages, and is never opened.

    Raises UnreadableDocument if there is no readable text, DocumentTooLarge if there is too much, and no other error,
    whatever the bytes.
    """
    steps = parse_steps(data, name)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def parse_steps(data: bytes, name: str) -> ParseSteps:
    """Do what `parse` does, with a step for each page of a PDF or picture; it can be closed at each."""
    name = clean_name(name)
    parsed = PARSERS[detect_format(data, name)](data, name)
    document = parsed if isinstance(parsed, ParsedDocument) else (yield from parsed)
    check_text_length(len(document.text), name)
    if not document.text.strip():
        raise UnreadableDocument(f"{name} contains no text.")
    return document


def read_file(path: Path, name: str) -> bytes:
    """Return a file's bytes; `name` is for messages. Raises UnreadableDocument or DocumentTooLarge."""
    try:
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableDocument(f"{name} cannot be opened ({error.strerror}).") from error
    if len(data) > MAX_FILE_BYTES:
        raise DocumentTooLarge(
            f"{name} has {size_bytes / 2**20:.1f} MB, and the limit is {MAX_FILE_BYTES / 2**20:.1f} MB."
        )
    return data
