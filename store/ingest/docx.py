"""Word (.docx), with mammoth: to HTML, then the way of HTML, so that headings and tables survive alike.

A .docx is a ZIP archive of XML. Three things are refused before mammoth sees it: an archive that unpacks to more than
the limit, one that declares XML entities (a bomb, or a way to other files), and an encrypted one.
"""

import io
import zipfile
import zlib
from xml.parsers.expat import ExpatError
from xml.sax import SAXException

import mammoth

from store.errors import DocumentTooLarge, UnreadableDocument
from store.ingest.document import ParsedDocument, ParseLimits
from store.ingest.html import html_to_markdown

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    ExpatError,
    SAXException,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    EOFError,
    OSError,
    NotImplementedError,
    RecursionError,
    RuntimeError,
)  # all that mammoth and zipfile were seen to raise on damaged files; a fuzzing test keeps the list honest


def parse_docx(data: bytes, name: str, limits: ParseLimits) -> ParsedDocument:
    """Return a Word file's text as Markdown, without pictures and page numbers (a .docx has no fixed pages).

    Raises UnreadableDocument if it is damaged, DocumentTooLarge if it unpacks to more than `limits` allow.
    """
    try:
        _check_archive(data, name, limits)
        html = mammoth.convert_to_html(
            io.BytesIO(data), convert_image=_no_pictures, include_embedded_style_map=False
        ).value
    except DAMAGE as error:
        raise UnreadableDocument(f"{name} is a damaged Word file ({type(error).__name__}).") from error
    limits.check_text(len(html), name)
    return ParsedDocument(html_to_markdown(html, name))


def _check_archive(data: bytes, name: str, limits: ParseLimits) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)  # zipfile reads no byte more than it declares
        if unpacked > limits.unpacked_bytes:
            raise DocumentTooLarge(
                f"{name} unpacks to {unpacked / 2**20:.0f} MB; the limit is {limits.unpacked_bytes / 2**20:.0f} MB."
            )
        for member in members:  # any of them may be named as the text; in UTF-16 every other byte is 0
            if b"<!ENTITY" in archive.read(member).replace(b"\0", b""):
                raise UnreadableDocument(
                    f"{name} declares XML entities, which may unpack without end. No Word file needs them; "
                    "if an SVG picture in it does, take that out."
                )


def _no_pictures(image: object) -> list:
    return []
