"""From the bytes of a file to one plain text: PDF, Word, HTML, Markdown and text.

What a file is, its content decides; its name only breaks ties. Every reader gives text with `\n` as the only
line end and no control character but `\n` and `\t`, so offsets into it mean the same everywhere.
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

    name  as the person knows the file; for its extension and for messages, never opened

    Raises UnreadableDocument for what holds no readable text, and DocumentTooLarge past one of `limits`; no
    other error, whatever the bytes.
    """
    limits = limits or ParseLimits()
    name = clean_name(name)
    limits.check_file(len(data), name)
    document = PARSERS[detect_format(data, name)](data, name, limits)
    limits.check_text(len(document.text), name)
    if not document.text.strip():
        raise UnreadableDocument(f"{name} holds no text.")
    return document


def read_file(path: Path, name: str, limits: ParseLimits) -> bytes:
    """Return a file's bytes; `name` is for messages. Raises UnreadableDocument or DocumentTooLarge."""
    try:
        with path.open("rb") as file:
            limits.check_file(os.fstat(file.fileno()).st_size, name)
            data = file.read(limits.file_bytes + 1)  # it may have grown since
    except OSError as error:
        raise UnreadableDocument(f"{name} cannot be opened ({error.strerror}).") from error
    limits.check_file(len(data), name)
    return data


__all__ = ["ParseLimits", "ParsedDocument", "parse", "read_file"]
