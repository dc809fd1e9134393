"""Detect a file's format from its first bytes, because downloads often have the wrong extension."""

import io
import re
import zipfile
from pathlib import PurePath

from store.errors import UnreadableDocument

UNSUPPORTED = {  # rejected by name: 'a PNG picture' helps more than 'invalid PDF'
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"RIFF": "a picture, sound or video",
    b"II*\0": "a TIFF picture",
    b"MM\0*": "a TIFF picture",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old (.doc) or password-protected Office file; save it as .docx",
    b"{\\rtf": "an RTF file; save it as .docx",
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"\x7fELF": "a program",
    b"SQLite format 3": "a database",
    b"%!PS": "a PostScript file; save it as PDF",
}
UNSUPPORTED_ARCHIVES = {
    "xl/workbook.xml": "an Excel file",
    "ppt/presentation.xml": "a PowerPoint file",
    "content.xml": "an OpenDocument file; save it as .docx",
    "META-INF/container.xml": "an EPUB book",
}
HTML_NAMES = {".html", ".htm", ".xhtml"}
HTML_START = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?(<!--(?:(?!-->).)*-->\s*)*(<!doctype\s+html|<html[\s>])", re.I | re.S
)
TAG = re.compile(rb"<\0?[a-z!/]", re.I)  # the NUL: UTF-16


def detect_format(data: bytes, name: str) -> str:
    """Return 'pdf', 'docx', 'html' or 'text' for the bytes of a file called `name`.

    Raises UnreadableDocument if it is empty or of an unsupported format. 'text' is only a guess: it may be binary.
    """
    suffix = PurePath(name).suffix.lower()
    head = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if not data.strip():
        raise UnreadableDocument(f"{name} is empty.")
    if head.startswith(b"%PDF-") or (suffix == ".pdf" and b"%PDF-" in head):
        return "pdf"
    if data.startswith(b"PK\x03\x04") or data.startswith(b"PK\x05\x06"):
        return _detect_archive_format(data, name)
    for magic, description in UNSUPPORTED.items():
        if data.startswith(magic):
            raise UnreadableDocument(f"{name} is {description}.")
    if HTML_START.match(data[:4096]) or (suffix in HTML_NAMES and TAG.search(data)):
        return "html"
    return "text"


def _detect_archive_format(data: bytes, name: str) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError) as error:
        raise UnreadableDocument(f"{name} is a damaged Word file or ZIP archive.") from error
    if "word/document.xml" in members:
        return "docx"
    descriptions = (text for member, text in UNSUPPORTED_ARCHIVES.items() if member in members)
    raise UnreadableDocument(f"{name} is {next(descriptions, 'a ZIP archive')}.")
