"""Headings of Word files that are only bold: short paragraphs in bold above text, which may be numbered."""

from bs4 import BeautifulSoup, Tag

from store.ingest.web.html import LABEL

HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
MAX_HEADING_CHARS = 100
MIN_TEXT_CHARS = 60  # of a paragraph below a heading that does not end a sentence
SENTENCE_ENDS = (".", "!", "?", "\u2026", ":", ";", ",", "\u3002", "\uff01", "\uff1f")


def mark_bold_headings(soup: BeautifulSoup) -> None:
    """Turn paragraphs that serve as headings into ones, a level below the last heading that has a style.

    A line in bold above a table is its caption, and lines of an address or form are no headings.
    """
    level = 2  # the first one is the document's title, if any is
    for tag in soup.body.find_all(["p", "ol", *HEADINGS], recursive=False) if soup.body else []:
        items = tag.find_all("li", limit=2)
        if tag.name in HEADINGS:
            level = min(int(tag.name[1]) + 1, len(HEADINGS))
        elif len(items) < 2 and _is_bold(tag) and _is_short(tag) and _starts_text(tag.find_next_sibling()):
            tag.name = f"h{level}"
            for numbered in items:
                numbered.unwrap()


def _is_bold(tag: Tag) -> bool:
    texts = [text for text in tag.find_all(string=True) if LABEL.sub("", text).strip()]
    return bool(texts) and all(text.find_parent("strong") for text in texts)


def _is_short(tag: Tag) -> bool:
    text = tag.get_text().strip()
    has_words = any(character.isalpha() for character in text)
    return has_words and len(text) <= MAX_HEADING_CHARS and not text.endswith(SENTENCE_ENDS) and not tag.find("br")


def _starts_text(tag: Tag | None) -> bool:
    if tag is None or tag.name != "p":
        return tag is not None and tag.name in ("ul", "ol")
    text = tag.get_text().strip()
    return not _is_bold(tag) and (text.endswith(SENTENCE_ENDS) or len(text) >= MIN_TEXT_CHARS)
