"""Parse HTML with BeautifulSoup and markdownify: the visible text as Markdown, with title, headings, lists and tables.

Pictures and link targets are left out: they cost tokens and answer no question; an e-mail address or phone number may.
Menus, banners and footers of a page that marks its main part are left out, too, see `store.ingest.web.frame`.
"""

import re
from collections import Counter
from contextlib import suppress
from typing import Any

from bs4 import BeautifulSoup, ParserRejectedMarkup, Tag
from bs4.element import PreformattedString
from markdownify import MarkdownConverter

from store.errors import UnreadableDocument
from store.ingest.document import ParsedDocument
from store.ingest.text import BOMS, decode, normalize, superscript
from store.ingest.web.frame import remove_frame, write_addresses
from store.ingest.web.html_tables import dissolve_layout_tables, join_rows, lift_captions, table_to_markdown
from store.limits import Limits
from store.markdown import LIST_ITEM

INVISIBLE_TAGS = ["script", "style", "template", "noscript", "title", "meta", "link", "base", "svg", "iframe", "object"]
INVISIBLE_TAGS += ["select", "datalist"]  # what could be chosen
BLOCK_TAGS = ["main", "header", "footer", "aside", "nav", "form", "fieldset", "figure", "details", "summary", "address"]
CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.I)
WIDE = re.compile(r"utf.?(16|32)", re.I)  # contradicts a declaration that is readable as ASCII
LATIN_1 = {"iso-8859-1", "iso8859-1", "latin-1", "latin1", "us-ascii", "ascii"}  # browsers read cp1252 instead
LINE_END = re.compile(r"(?<![ \t])[ \t]+$", re.M)  # not from each blank of a run, which takes its square
LABEL_START, LABEL_END = "\ue000", "\ue001"  # around the number of a paragraph or item, as Word computes it
LABEL = re.compile(f"{LABEL_START}([^{LABEL_START}{LABEL_END}\n]*){LABEL_END}")
BLANK_LINES = re.compile(r"\n[ \t]*(\n[ \t]*)+\n")
LOOSE_ITEM = re.compile(rf"(?m)^({LIST_ITEM.pattern}.*)\n\n(?={LIST_ITEM.pattern})")  # a blank line follows it


class _Markdown(MarkdownConverter):
    """markdownify with the tables of `store.markdown`, plain text in their cells, and terms with their definitions."""

    def __init__(self) -> None:
        super().__init__(
            heading_style="ATX",
            bullets="-",
            strip=["a", "img"],
            wrap=True,  # without a width: one line per paragraph
            wrap_width=None,
            escape_asterisks=False,
            escape_underscores=False,
            strip_pre=None,  # see convert_pre
        )
        self._num_items = Counter[int]()  # seen so far, by id of the list
        self._cells: dict[int, str] = {}  # text by id of the cell

    def convert_li(self, el: Any, text: str, parent_tags: set[str]) -> str:
        """Number an item in linear time: markdownify counts the siblings before each item."""
        if "td" in parent_tags or "th" in parent_tags:
            return f" {text.strip()};"
        text = text.strip()
        first = next((child for child in el.children if isinstance(child, Tag) or child.strip()), None)
        if first is None or first.name in ("ul", "ol"):
            return f"{text}\n"  # the item of a list inside, without a text of its own
        if label := LABEL.match(text):
            indented = text[label.end() :].strip().replace("\n", "\n  ")
            return f"{label[1]} {indented}\n"
        index = self._num_items[id(el.parent)]
        self._num_items[id(el.parent)] += 1
        el.find_previous_siblings = lambda name: range(index)
        return str(super().convert_li(el, text, parent_tags))  # type: ignore[misc]  # not in its stubs

    def convert_b(self, el: Any, text: str, parent_tags: set[str]) -> str:
        """Return bold text plain in headings and cells, which are known to be important."""
        return text if "_inline" in parent_tags else str(super().convert_b(el, text, parent_tags))  # type: ignore[misc]

    def convert_em(self, el: Any, text: str, parent_tags: set[str]) -> str:
        return text if "_inline" in parent_tags else str(super().convert_em(el, text, parent_tags))  # type: ignore[misc]

    def convert_pre(self, el: Any, text: str, parent_tags: set[str]) -> str:
        """Strip blank lines around in linear time: markdownify's pattern tries every blank inside, too."""
        num_blank = len(text) - len(text.lstrip(" \n"))
        text = text[text.rfind("\n", 0, num_blank) + 1 :].rstrip(" \n")
        return str(super().convert_pre(el, text, parent_tags))  # type: ignore[misc]  # not in its stubs

    def convert_sup(self, el: Any, text: str, parent_tags: set[str]) -> str:
        """Keep exponents and marks of notes apart from the number or word before them: '10⁶', 'in 2019[1]'."""
        if el.find("a") is not None and text.strip().isdecimal():
            return f"[{text.strip()}]"
        return superscript(text)

    convert_strong = convert_b
    convert_i = convert_em

    def convert_input(self, el: Any, text: str, parent_tags: set[str]) -> str:
        if el.get("type") not in ("checkbox", "radio"):
            return text
        return "[x] " if el.has_attr("checked") else "[ ] "

    def convert_dt(self, el: Any, text: str, parent_tags: set[str]) -> str:
        return f"\n- {' '.join(text.split())}:"

    def convert_dd(self, el: Any, text: str, parent_tags: set[str]) -> str:
        return f" {' '.join(text.split())} "

    def convert_tr(self, el: Any, text: str, parent_tags: set[str]) -> str:
        return text

    def convert_td(self, el: Any, text: str, parent_tags: set[str]) -> str:
        if "table" not in parent_tags:
            return text
        self._cells[id(el)] = text.strip().rstrip(";")
        return ""

    convert_th = convert_td

    def convert_table(self, el: Any, text: str, parent_tags: set[str]) -> str:
        """Return the caption and any text outside of cells, then the rows."""
        table = table_to_markdown(el, self._cells)
        if "td" in parent_tags or "th" in parent_tags:
            return f" {text.strip()} {join_rows(table)} "
        return "\n\n" + "\n".join(filter(None, [text.strip(), table])) + "\n\n"


def parse_html(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    """Return the page as Markdown. Raises UnreadableDocument, or DocumentTooLarge if its source is too long."""
    source, warning = _decode_html(data, name)
    limits.check_characters(len(source), name)
    soup = parse_soup(source, name)
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    write_addresses(soup)
    remove_frame(soup)
    text = soup_to_markdown(soup)
    if not text or not title or soup.find("h1") or text.lstrip("# ").startswith(title):
        return ParsedDocument(text, warning=warning)
    return ParsedDocument(f"# {normalize(title)}\n\n{text}", warning=warning)


def html_to_markdown(source: str, name: str) -> str:
    """Return all of an HTML source as Markdown, but its title."""
    return soup_to_markdown(parse_soup(source, name))


def parse_soup(source: str, name: str) -> BeautifulSoup:
    """Return the elements of an HTML source. Raises UnreadableDocument."""
    end = source.rfind(">") + 1
    source = source[:end] + source[end:].replace("<", "&lt;")  # the parser would swallow an unterminated tag
    try:
        return BeautifulSoup(source, "lxml")  # knows which end tags may be left out
    except (ParserRejectedMarkup, RecursionError) as error:
        raise UnreadableDocument(f"{name} is HTML that cannot be read ({error}).") from error


def soup_to_markdown(soup: BeautifulSoup) -> str:
    """Return elements as Markdown; if they are nested too deeply for that, their text with a line per element."""
    for tag in soup.find_all(INVISIBLE_TAGS):
        tag.decompose()  # the head stays: an unclosed one contains the body
    for comment in soup.find_all(string=lambda string: isinstance(string, PreformattedString)):
        comment.extract()
    for tag in soup.find_all(BLOCK_TAGS):
        tag.name = "div"
    lift_captions(soup)
    dissolve_layout_tables(soup)
    try:
        text = _Markdown().convert_soup(soup)
    except RecursionError:
        text = soup.get_text("\n")
    text = LABEL.sub(r"\1 ", normalize(text))
    text = BLANK_LINES.sub("\n\n", LINE_END.sub("", text)).strip()
    return LOOSE_ITEM.sub(r"\1\n", text)  # so that a list is one paragraph, and rarely split into chunks


def lower_headings(soup: BeautifulSoup) -> None:
    """Put all headings a level below the document's title, which has the class 'title' if it is one of them."""
    for heading in soup.find_all(["h1", "h2", "h3", "h4", "h5"]):
        if heading.get("class") != ["title"]:
            heading.name = f"h{int(heading.name[1]) + 1}"


def _decode_html(data: bytes, name: str) -> tuple[str, str]:
    """Return what `decode` returns, by the page's own declaration if it has a valid one."""
    declared = CHARSET.search(data[:4096])
    encoding = declared[1].decode().lower() if declared else ""
    has_mark = any(data.startswith(mark) for mark in BOMS)
    if encoding and not has_mark and not WIDE.match(encoding):
        with suppress(LookupError, ValueError):  # wrong declarations are common
            return data.decode("cp1252" if encoding in LATIN_1 else encoding), ""
    return decode(data, name)
