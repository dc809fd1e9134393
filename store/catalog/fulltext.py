"""A document's text put together again from its chunks, and the stretch of it around one of them.

Chunks are slices that may overlap, and only white space lies outside them. That white space is kept beside each chunk
(its `gap`), so the text comes back as it was parsed, up to the end of its last chunk. Libraries of an earlier version
kept no gaps: there a gap is filled to its length, so every offset still holds.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from store.ingest.document import ParsedDocument
from store.types import Chunk, Document, Excerpt

BESIDE = 1500  # characters shown before and behind a passage where there are no pages
LONGEST_PAGE = 6000  # characters shown before and behind a passage at most, where there are
SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A chunk as its text needs it: `gap` is the white space between all before it and it; None if unknown."""

    start: int
    text: str
    gap: str | None


def join_chunks(slices: Iterable[ChunkText], start: int = 0) -> str:
    """Return the text from character `start` to the end of the last slice; `text[a.start - start:]` begins with a.text.

    slices  in reading order
    """
    parts: list[str] = []
    at = start
    for each in slices:
        if each.start > at:
            parts.append(_between(each.start - at, each.gap))
            at = each.start
        fresh = each.text[at - each.start :]
        parts.append(fresh)
        at += len(fresh)
    return "".join(parts)


def gaps_before(text: str, chunks: Sequence[Chunk]) -> list[str]:
    """Return the white space before each chunk that no chunk holds; '' where chunks touch or overlap."""
    ends = [0, *(chunk.end for chunk in chunks)]
    return [text[end : chunk.start] for end, chunk in zip(ends, chunks, strict=False)]


def make_chunks(document: Document, owner: str, parsed: ParsedDocument, spans: Sequence[tuple[int, int]]) -> list[Chunk]:
    """Return the chunks at these places of a document's text; `owner` makes their ids differ from an earlier cut's."""
    return [
        Chunk(
            id=f"{owner}-{number}",
            document_id=document.id,
            document_name=document.name,
            index=number,
            page=parsed.page_of(start),
            start=start,
            end=end,
            text=parsed.text[start:end],
        )
        for number, (start, end) in enumerate(spans)
    ]


def estimate_page_starts(pages: int | None, places: Sequence[tuple[int, int | None]], length: int) -> tuple[int, ...]:
    """Return where pages begin as far as chunks tell, for a document of an earlier version: late by part of a chunk.

    places  (start, page) of each chunk, in reading order
    length  of the text, in characters
    """
    known = [page or 1 for _, page in places]
    firsts = (bisect_left(known, page) for page in range(1, (pages or 0) + 1))
    starts = [places[first][0] if first < len(places) else length for first in firsts]
    return (0, *starts[1:]) if starts else ()


def excerpt_span(chunk: Chunk, page_starts: Sequence[int], length: int) -> tuple[int, int]:
    """Return which characters to show around a chunk: its pages, or some text on both sides where there are none."""
    beside = LONGEST_PAGE if page_starts else BESIDE
    start, end = max(0, chunk.start - beside), min(length, chunk.end + beside)
    if page_starts:
        start = max([start, *(page for page in page_starts if page <= chunk.start)])
        end = min([end, *(page for page in page_starts if page >= chunk.end)])
    return start, end


def make_excerpt(chunk: Chunk, text: str, start: int, page_starts: Sequence[int], length: int) -> Excerpt:
    """Return a chunk in its surroundings: `text` begins at character `start` of a document of `length` characters.

    Where a page or the document goes on, the text begins and ends with a whole word.
    """
    end = start + len(text)
    cut_before = start > 0 and start not in page_starts
    cut_after = end < length and end not in page_starts
    first, last = 0, len(text.rstrip())  # a chunk ends with no white space
    if cut_before and (space := SPACE.search(text, 0, chunk.start - start)):
        first = space.end()
    if cut_after and (spaces := list(SPACE.finditer(text[:last], chunk.end - start))):
        last = spaces[-1].start()
    own = chunk.start - start - first
    pages = [(max(0, at - start - first), number) for number, at in enumerate(page_starts, 1) if at < start + last]
    shown = tuple(dict(pages).items())  # of the pages that end before the text, the last one is where it begins
    return Excerpt(chunk, text[first:last], own, own + len(chunk.text), cut_before, cut_after, shown)


def _between(length: int, gap: str | None) -> str:
    if gap is not None and len(gap) >= length:
        return gap[len(gap) - length :]
    return " " if length == 1 else "\n" * length
