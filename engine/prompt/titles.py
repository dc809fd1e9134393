"""The title of a section or table without what precedes its words: '## 2.1 Fees' and 'Table 3: Fees' are 'Fees'."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import shorten

from engine.text import split_words
from store.markdown import HEADING, HEADING_END
from store.names import visible
from store.types import Chunk

MARKER = re.compile(  # of a list item or chapter: '3.', '2.1', 'b)', '\u00a7 4', 'Q:', 'Question 7:', 'Chapter 2:'
    r"(?:(?:[-*+>\u2022\u2013]|\(?\w[.)]|\(?\d{1,3}[.)]|\d{1,2}(?=\s+[^\W\d_])|\d{1,3}(?:\.\d{1,3})+\.?|\u00a7 ?\d+\w?"
    r"|[IVX]{1,5}\.|(?:Q|F|Question|Frage)(?: ?\d{1,3})?[.:)]"
    r"|(?:Chapter|Section|Article|Part|Kapitel|Abschnitt|Artikel|Teil) [\dIVX]{1,5}[.:]?)\s+)+",
    re.I,
)
CAPTION = re.compile(r"(?:Table|Tabelle|Tab\.) \d[\d.]*[.:]? ", re.I)
CAPTION_LEVEL = 7  # below that of any heading
ABOUT = re.compile(r"^about ", re.I)
ARTICLE = re.compile(r"^(?:the|an?|our|my|your|de[rmn]|die|das|unsere?[mnrs]?) ", re.I)
EMPHASIS = "*_` "
MIN_SECTIONS, MAX_SECTIONS = 3, 12
MAX_SECTION_CHARS = 60


@dataclass(frozen=True, slots=True)
class Title:
    """A line without numbering and markup, and the level of a heading, CAPTION_LEVEL, or 0."""

    text: str
    level: int = 0
    has_marker: bool = False


def parse_title(line: str) -> Title:
    """Return what a line says as a title; a marker is one of a list or a chapter."""
    heading, text = HEADING.match(line), _plain(line)
    marker, caption = MARKER.match(text), None if heading else CAPTION.match(text)
    prefix = caption or marker
    text = text[prefix.end() :] if prefix else text
    level = len(heading[1]) if heading else CAPTION_LEVEL if caption else 0
    return Title(text.strip(EMPHASIS).rstrip(".:"), level, bool(marker))


def section_titles(chunks: Iterable[Chunk]) -> tuple[str, ...]:
    """Return the titles of a document's sections, of the highest level that has several; none if there are too many."""
    by_place: dict[int, Title] = {}  # chunks overlap
    for chunk in chunks:
        place = chunk.start
        if "```" in chunk.text:  # comments of code look like headings
            return ()
        for line in chunk.text.split("\n"):
            if HEADING.match(line) and (title := parse_title(line)).text:
                by_place[place] = title
            place += len(line) + 1
    counts = Counter(title.text for title in by_place.values())
    titles = [
        title for title in by_place.values() if counts[title.text] == 1
    ]  # others are of pages or of several parts
    levels = sorted({title.level for title in titles})
    of_level = ([title.text for title in titles if title.level == level] for level in levels)
    found = next((titles for titles in of_level if len(titles) >= MIN_SECTIONS), [])
    return (
        tuple(shorten(title, MAX_SECTION_CHARS, placeholder="\u2026") for title in found)
        if len(found) <= MAX_SECTIONS
        else ()
    )


def topic_words(text: str) -> list[str]:
    """Return the words of a topic or title, without a leading 'About' and article."""
    return split_words(ARTICLE.sub("", ABOUT.sub("", text.strip())))


def is_title_of(line: str, topic: list[str]) -> bool:
    """Return whether a heading or caption has just these words, with or without its number."""
    return topic in (topic_words(parse_title(line).text), topic_words(_plain(line)))


def _plain(line: str) -> str:
    """Return a line without the marks of a heading, emphasis and invisible characters."""
    heading = HEADING.match(line)
    text = heading[2].rstrip(HEADING_END) if heading else line
    return visible(" ".join(text.split())).strip(EMPHASIS)
