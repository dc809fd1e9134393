"""Detect a file's format from its first bytes, because downloads often have the wrong extension."""

import io
import re
import zipfile
from pathlib import PurePath

from store.errors import UnreadableDocument

UNSUPPORTED = {  # rejected by name: 'a RAR archive' helps more than 'invalid PDF'
    b"GIF8": "a GIF picture; save it as PNG",
    b"RIFF": "a sound or video",
    b"{\\rtf": "an RTF file; save it as .docx",
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"\x7fELF": "a program",
    b"SQLite format 3": "a database",
    b"%!PS": "a PostScript file; save it as PDF",
}
PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"II*\0", b"MM\0*")  # PNG, JPEG, and TIFF of two byte orders
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # a file system in a file: old and encrypted Office files
COMPOUND_STREAMS = {
    "EncryptedPackage": "password-protected; remove its password first",
    "WordDocument": "an old Word file; save it as .docx",
    "Workbook": "an old Excel file; save it as .xlsx",
    "PowerPoint Document": "an old PowerPoint file; save it as .pptx",
    "__substg1.0": "an Outlook message; save it as HTML or text",
}
ARCHIVES = {
    "word/document.xml": "docx",
    "xl/workbook.xml": "xlsx",
    "ppt/presentation.xml": "pptx",
    "META-INF/container.xml": "epub",
}
UNSUPPORTED_ARCHIVES = {
    "xl/workbook.bin": "a binary Excel file; save it as .xlsx",
    "content.xml": "an OpenDocument file; save it as .docx, .xlsx or .pptx",
}
TEXT_FORMATS = {".md": "markdown", ".markdown": "markdown", ".csv": "csv", ".tsv": "csv", ".tab": "csv"}
HTML_NAMES = {".html", ".htm", ".xhtml"}
HTML_START = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?(<!--(?:(?!-->).)*-->\s*)*(<!doctype\s+html|<html[\s>])", re.I | re.S
)
TAG = re.compile(rb"<\0?[a-z!/]", re.I)  # the NUL: UTF-16


def detect_format(data: bytes, name: str) -> str:
    """Return the format, a key of `PARSERS`, for the bytes of a file called `name`.

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
    if data.startswith(PICTURES) or (data.startswith(b"RIFF") and data[8:12] == b"WEBP"):
        return "image"
    if data.startswith(COMPOUND):
        raise UnreadableDocument(f"{name} is {_describe_compound(data)}.")
    for magic, description in UNSUPPORTED.items():
        if data.startswith(magic):
            raise UnreadableDocument(f"{name} is {description}.")
    if HTML_START.match(data[:4096]) or (suffix in HTML_NAMES and TAG.search(data)):
        return "html"
    return TEXT_FORMATS.get(suffix, "text")


def _describe_compound(data: bytes) -> str:
    names = ((name.encode("utf-16-le"), description) for name, description in COMPOUND_STREAMS.items())
    unknown = "an old or password-protected Office file; save it as .docx, .xlsx or .pptx without a password"
    return next((description for name, description in names if name in data), unknown)


def _detect_archive_format(data: bytes, name: str) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError) as error:
        raise UnreadableDocument(f"{name} is a damaged Office file or ZIP archive.") from error
    for member, format_ in ARCHIVES.items():
        if member in members:
            return format_
    descriptions = (text for member, text in UNSUPPORTED_ARCHIVES.items() if member in members)
    raise UnreadableDocument(f"{name} is {next(descriptions, 'a ZIP archive')}.")
