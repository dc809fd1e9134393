"""Convert a file's bytes to plain text: PDF, Word, HTML, Markdown and text.

The content decides the format; the name only breaks ties. Every parser returns text with `\n` as the only line end
and no control characters but `\n` and `\t`, so offsets into it are unambiguous.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from store.errors import UnreadableDocument
from store.ingest.document import ParsedDocument, ParseSteps, finish
from store.ingest.sniff import detect_format
from store.limits import DEFAULT_LIMITS, Limits
from store.names import clean_name

PARSERS = {  # by format: the module whose function `parse_FORMAT` reads it, imported when it is needed
    "pdf": "pdf",
    "docx": "office.docx",
    "xlsx": "office.xlsx",
    "pptx": "office.pptx",
    "epub": "web.epub",
    "html": "web.html",
    "image": "ocr.image",
    "markdown": "markdown_file",
    "csv": "csv_file",
    "text": "text",
}


def parse(data: bytes, name: str, limits: Limits = DEFAULT_LIMITS) -> ParsedDocument:
    """Return the text of a file's bytes; `name` is for its extension and for messages, and is never opened.

    Raises UnreadableDocument if there is no readable text, DocumentTooLarge if there is too much, and no other error,
    whatever the bytes.
    """
    return finish(parse_steps(data, name, limits))


def parse_steps(
    data: bytes, name: str, limits: Limits = DEFAULT_LIMITS, skipped_pages: frozenset[int] = frozenset()
) -> ParseSteps:
    """Do what `parse` does, with a step for each page of a PDF or picture; it can be closed at each.

    skipped_pages  of a PDF, from 0: they are not read, and count as damaged
    """
    name = clean_name(name)
    kind = detect_format(data, name)
    read: Any = getattr(import_module(f"{__name__}.{PARSERS[kind]}"), f"parse_{kind}")
    parsed = read(data, name, limits, skipped_pages) if kind == "pdf" else read(data, name, limits)
    document = parsed if isinstance(parsed, ParsedDocument) else (yield from parsed)
    limits.check_characters(len(document.text), name)
    if not document.text.strip():
        raise UnreadableDocument(f"{name} contains no text.")
    return document


def read_file(path: Path, name: str, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return a file's bytes; `name` is for messages. Raises UnreadableDocument or DocumentTooLarge."""
    try:
        with path.open("rb") as file:
            limits.check_file(os.fstat(file.fileno()).st_size, name)
            data = file.read(limits.max_file_bytes + 1)
    except OSError as error:
        raise UnreadableDocument(f"{name} cannot be opened ({error.strerror}).") from error
    limits.check_file(len(data), name)  # again: it may have grown
    return data
