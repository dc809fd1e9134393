"""Parse Word files (.docx): mammoth converts them to HTML, which is then parsed as HTML is.

What mammoth does not know is prepared for it: the numbers of headings and list items, headings of styles with other
names, simple fields, equations, text boxes, and hidden text, which is left out. So is text that tracked changes delete.
"""

import io
import zipfile
from xml.etree import ElementTree

import mammoth
from bs4 import BeautifulSoup

from store.ingest.archive import check_archive
from store.ingest.document import ParsedDocument, reading
from store.ingest.office.word_fields import dissolve_fields, keep_ruby_bases, keep_text_boxes, write_equations
from store.ingest.office.word_headings import mark_bold_headings
from store.ingest.office.word_hidden import remove_hidden
from store.ingest.office.word_numbers import write_numbers
from store.ingest.office.word_styles import Styles
from store.ingest.web.html import LABEL_END, LABEL_START, lower_headings, parse_soup, soup_to_markdown
from store.limits import Limits

DOCUMENT, NUMBERING, STYLES = "word/document.xml", "word/numbering.xml", "word/styles.xml"
MAX_PREPARED_BYTES = 50 * 2**20  # of document.xml; a longer one is read as it is
HIDDEN = "Hidden text was left out."
BLOCKS = ("p", "ol", "ul", "table")
TITLE_STYLE = "p[style-name='Title'] => h1.title:fresh"


def parse_docx(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    """Return a Word file's text as Markdown, without pictures and pages (a .docx has no fixed pages).

    Raises UnreadableDocument if the file is damaged, DocumentTooLarge above a limit.
    """
    with reading(name, "Word file"):
        check_archive(data, name)
        data, style_map, warning = _prepare(data)
        result = mammoth.convert_to_html(
            io.BytesIO(data), convert_image=lambda image: [], include_embedded_style_map=False, style_map=style_map
        )
    limits.check_characters(len(result.value), name)
    soup = parse_soup(result.value, name)
    _mark_notes(soup)
    if soup.find("h1", class_="title"):
        lower_headings(soup)
    mark_bold_headings(soup)
    return ParsedDocument(soup_to_markdown(soup), warning=warning)


def _prepare(data: bytes) -> tuple[bytes, str, str]:
    """Return a .docx with numbers, fields and equations as text, mammoth's rules for its headings, and a warning."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        styles = Styles(ElementTree.fromstring(archive.read(STYLES) if STYLES in sizes else b"<styles/>"))
        headings = [
            f"p[style-name='{style}'] => h{level}:fresh"
            for style, level in styles.heading_names()
            if style and style != "Title" and not set(style) & set("'\\\n")
        ]
        style_map = "\n".join([TITLE_STYLE, *headings])
        if sizes[DOCUMENT] > MAX_PREPARED_BYTES:
            return data, style_map, ""
        document = ElementTree.fromstring(archive.read(DOCUMENT))
        dissolve_fields(document)
        write_equations(document)
        keep_ruby_bases(document)
        keep_text_boxes(document)
        warning = HIDDEN if remove_hidden(document, styles) else ""
        if NUMBERING in sizes:
            write_numbers(document, ElementTree.fromstring(archive.read(NUMBERING)), styles)
        prepared = io.BytesIO()
        with zipfile.ZipFile(prepared, "w") as copy:
            for part in sizes:
                if not part.startswith("word/media/"):
                    copy.writestr(part, ElementTree.tostring(document) if part == DOCUMENT else archive.read(part))
    return prepared.getvalue(), style_map, warning


def _mark_notes(soup: BeautifulSoup) -> None:
    """Write notes with the label of their references, '[1]', below the block that refers to them, not at the end."""
    for link in soup.select("a[href^='#footnote-ref-'], a[href^='#endnote-ref-']"):
        link.decompose()
    notes = soup.select("li[id^='footnote-'], li[id^='endnote-']")
    for index, note in reversed(list(enumerate(notes, start=1))):
        reference = soup.find(id=str(note["id"]).replace("note-", "note-ref-"))
        blocks = reference.find_parents(BLOCKS) if reference else []
        (note.p or note).insert(0, f"{LABEL_START}[{index}]{LABEL_END}")
        if blocks:
            note.name = "div"
            blocks[-1].insert_after(note.extract())
