"""Parse Word files (.docx): mammoth converts them to HTML, which is then parsed as HTML is.

A .docx is a ZIP archive of XML. Rejected before mammoth reads it: an archive that unpacks to more than the limit, and
one that declares XML entities, which can expand without end, or read other files.
"""

import io

import mammoth

from store.ingest.archive import check_archive
from store.ingest.document import ParsedDocument, check_text_length, reading
from store.ingest.html import html_to_markdown

def parse_docx(data: bytes, name: str) -> ParsedDocument:
    """Return a Word file's text as Markdown, without pictures and pages (a .docx has no fixed pages).

    Raises UnreadableDocument if the file is damaged, DocumentTooLarge above a limit.
    """
    with reading(name, "Word file"):
        check_archive(data, name)
        result = mammoth.convert_to_html(
            io.BytesIO(data), convert_image=lambda image: [], include_embedded_style_map=False
        )
    check_text_length(len(result.value), name)
    return ParsedDocument(html_to_markdown(result.value, name))
