"""Parse Word files (.docx): mammoth converts them to HTML, which is then parsed as HTML is.

A .docx is a ZIP archive of XML. Rejected before mammoth reads it: an archive that unpacks to more than the limit, and
one that declares XML entities, which can expand without end, or read other files.
"""

import io
import zipfile

import mammoth

from store.errors import DocumentTooLarge, KVScopeError, UnreadableDocument
from store.ingest.document import ParsedDocument, check_text_length
from store.ingest.html import html_to_markdown

MAX_UNPACKED_BYTES = 300 * 2**20  # of all parts together: a small archive can unpack to gigabytes


def parse_docx(data: bytes, name: str) -> ParsedDocument:
    """Return a Word file's text as Markdown, without pictures and pages (a .docx has no fixed pages).

    Raises UnreadableDocument if the file is damaged, DocumentTooLarge above a limit.
    """
    try:
        _check_archive(data, name)
        result = mammoth.convert_to_html(
            io.BytesIO(data), convert_image=lambda image: [], include_embedded_style_map=False
        )
    except KVScopeError:
        raise
    except Exception as error:  # zipfile, the XML parser and mammoth raise many types on damaged files
        raise UnreadableDocument(f"{name} is a damaged Word file ({type(error).__name__}).") from error
    check_text_length(len(result.value), name)
    return ParsedDocument(html_to_markdown(result.value, name))


def _check_archive(data: bytes, name: str) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)  # zipfile reads no more than declared
        if unpacked > MAX_UNPACKED_BYTES:
            raise DocumentTooLarge(
                f"{name} unpacks to {unpacked / 2**20:.0f} MB; the limit is {MAX_UNPACKED_BYTES / 2**20:.0f} MB."
            )
        for member in members:  # any of them can be the main part; UTF-16 adds zero bytes
            if b"<!ENTITY" in archive.read(member).replace(b"\0", b""):
                raise UnreadableDocument(
                    f"{name} declares XML entities, which can expand without end. Word files do not need them; "
                    "if an SVG picture in the file uses them, remove it."
                )
