"""Parse HTML with BeautifulSoup and markdownify: the visible text as Markdown, with headings and tables.

Pictures and link targets are left out: they cost tokens and answer no question.
"""

import re
from collections import Counter
from contextlib import suppress
from typing import Any

from bs4 import BeautifulSoup, ParserRejectedMarkup
from bs4.element import PreformattedString
from markdownify import MarkdownConverter

from store.errors import UnreadableDocument
from store.ingest.document import ParsedDocument, check_text_length
from store.ingest.text import decode, normalize

INVISIBLE_TAGS = ["script", "style", "template", "noscript", "title", "meta", "link", "base", "svg", "iframe", "object"]
CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.I)
WIDE = re.compile(r"utf.?(16|32)", re.I)  # contradicts a declaration that is readable as ASCII
BLANK_LINES = re.compile(r"\n[ \t]*(\n[ \t]*)+\n")


class _Markdown(MarkdownConverter):
    """markdownify with numbered list items in linear time: it counts the siblings before each item."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._num_items = Counter[int]()  # seen so far, by id of the list

    def convert_li(self, el: Any, text: str, parent_tags: set[str]) -> str:
        index = self._num_items[id(el.parent)]
        self._num_items[id(el.parent)] += 1
        el.find_previous_siblings = lambda name: range(index)
        return str(super().convert_li(el, text, parent_tags))  # type: ignore[misc]  # not in its stubs


def parse_html(data: bytes, name: str) -> ParsedDocument:
    """Return the page as Markdown. Raises UnreadableDocument, or DocumentTooLarge if its source is too long."""
    source = _decode_html(data, name)
    check_text_length(len(source), name)
    return ParsedDocument(html_to_markdown(source, name))


def html_to_markdown(source: str, name: str) -> str:
    """Return HTML as Markdown; if it is nested too deeply for that, its text with a line per element."""
    end = source.rfind(">") + 1  # unterminated tags after it would make the parser quadratic
    source = source[:end] + source[end:].replace("<", "&lt;")
    try:
        soup = BeautifulSoup(source, "html.parser")
    except (ParserRejectedMarkup, RecursionError) as error:
        raise UnreadableDocument(f"{name} is HTML that cannot be read ({error}).") from error
    for tag in soup.find_all(INVISIBLE_TAGS):
        tag.decompose()  # the head stays: an unclosed one contains the body
    for comment in soup.find_all(string=lambda string: isinstance(string, PreformattedString)):
        comment.extract()
    try:
        text = _Markdown(
            heading_style="ATX",
            bullets="-",
            strip=["a", "img"],
            escape_asterisks=False,
            escape_underscores=False,
            table_infer_header=True,
        ).convert_soup(soup)
    except RecursionError:
        text = soup.get_text("\n")
    return BLANK_LINES.sub("\n\n", normalize(text)).strip()


def _decode_html(data: bytes, name: str) -> str:
    declared = CHARSET.search(data[:4096])
    if declared and not WIDE.match(declared[1].decode()):
        with suppress(LookupError, ValueError):  # wrong declarations are common
            return data.decode(declared[1].decode())
    return decode(data, name)
