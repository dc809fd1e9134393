"""Convert a file's bytes to plain text: PDF, Word, HTML, Markdown and text.

The content decides the format; the name only breaks ties. Every parser returns text with `\n` as the only line end
and no control characters but `\n` and `\t`, so offsets into it are unambiguous.
"""

import os
from collections.abc import Callable
from pathlib import Path

from store.errors import UnreadableDocument
from store.ingest.document import ParsedDocument, ParseLimits
from store.ingest.docx import parse_docx
from store.ingest.html import parse_html
from store.ingest.pdf import parse_pdf
from store.ingest.sniff import detect_format
from store.ingest.text import parse_text
from store.names import clean_name

PARSERS: dict[str, Callable[[bytes, str, ParseLimits], ParsedDocument]] = {
    "pdf": parse_pdf,
    "docx": parse_docx,
    "html": parse_html,
    "text": parse_text,
}


def parse(data: bytes, name: str, limits: ParseLimits | None = None) -> ParsedDocument:
    """Return the text of a file's bytes.

    name  the file's name, for its extension and for messages; it is never opened

    Raises UnreadableDocument if there is no readable text, DocumentTooLarge above one of `limits`, and no other
    error, whatever the bytes.
    """
    limits = limits or ParseLimits()
    name = clean_name(name)
    limits.check_file(len(data), name)
    document = PARSERS[detect_format(data, name)](data, name, limits)
    limits.check_text(len(document.text), name)
    if not document.text.strip():
        raise UnreadableDocument(f"{name} contains no text.")
    return document


def read_file(path: Path, name: str, limits: ParseLimits) -> bytes:
    """Return a file's bytes; `name` is for messages. Raises UnreadableDocument or DocumentTooLarge."""
    try:
        with path.open("rb") as file:
            limits.check_file(os.fstat(file.fileno()).st_size, name)
            data = file.read(limits.file_bytes + 1)  # the file may have grown
    except OSError as error:
        raise UnreadableDocument(f"{name} cannot be opened ({error.strerror}).") from error
    limits.check_file(len(data), name)
    return data


__all__ = ["ParseLimits", "ParsedDocument", "parse", "read_file"]
