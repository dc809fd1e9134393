"""EPUB books: chapters in reading order below the book's title."""

import pytest

from store.errors import UnreadableDocument
from store.ingest import parse
from tests.support.files import zipped

CONTAINER = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>Tides</dc:title><dc:creator>Ada Moor</dc:creator></metadata>
<manifest><item id="n" href="nav.xhtml" properties="nav"/>
<item id="b" href="b.xhtml"/><item id="a" href="a%201.xhtml"/>
</manifest><spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/>
<itemref idref="gone"/></spine></package>"""
PARTS = {
    "META-INF/container.xml": CONTAINER,
    "OPS/book.opf": PACKAGE,
    "OPS/nav.xhtml": "<nav>contents</nav>",
    "OPS/a 1.xhtml": "<html><head><title>Tides</title></head><h1>One</h1><h2>Part</h2><p>first</p></html>",
    "OPS/b.xhtml": "<html><head><title>Two</title></head><body><p>second</p></body></html>",
}


def test_chapters_are_sections_below_the_title_in_reading_order():
    text = parse(zipped(PARTS), "a.epub").text
    assert text.split("\n\n") == ["# Tides", "Ada Moor", "## One", "### Part", "first", "## Two", "second"]


@pytest.mark.parametrize(
    "part, content, reason",
    [
        ("OPS/book.opf", "<!DOCTYPE d [<!ENTITY e 'x'>]><package/>", "declares XML entities"),
        ("OPS/book.opf", "<torn", "a damaged EPUB book"),
        ("OPS/book.opf", PACKAGE.replace("itemref", "other"), "contains no text"),
        ("META-INF/encryption.xml", '<CipherReference URI="OPS/b.xhtml"/>', "is copy-protected"),
    ],
)
def test_books_without_readable_chapters_are_rejected(part, content, reason):
    with pytest.raises(UnreadableDocument, match=reason):
        parse(zipped({**PARTS, part: content}), "a.epub")
