"""Reassemble a document's text from its chunks, and take the excerpt around one of them.

Chunks are slices that may overlap, and only white space lies outside of them. That white space is stored with the
chunk that follows (its `gap`), so the parsed text can be restored up to the end of its last chunk. Libraries of an
earlier version have no gaps: there each gap is filled to its length, so that every offset still holds.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from store.ingest.document import ParsedDocument
from store.types import Chunk, Document, Excerpt

CONTEXT_CHARS = 1500  # shown on each side of a chunk if the document has no pages
MAX_PAGE_CHARS = 6000  # shown at most on each side of a chunk if it has
SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A chunk's text, and the white space between the previous chunks and it (None if unknown)."""

    start: int
    text: str
    gap: str | None


def join_chunks(chunks: Iterable[ChunkText], start: int = 0) -> str:
    """Return the document's text from character `start` to the end of the last chunk.

    chunks  in reading order
    """
    parts: list[str] = []
    end = start
    for chunk in chunks:
        if chunk.start > end:
            parts.append(_fill_gap(chunk.start - end, chunk.gap))
            end = chunk.start
        parts.append(chunk.text[end - chunk.start :])
        end += len(parts[-1])
    return "".join(parts)


def gaps_before(text: str, chunks: Sequence[Chunk]) -> list[str]:
    """Return the white space before each chunk that is in no chunk; '' where chunks touch or overlap."""
    ends = [0, *(chunk.end for chunk in chunks)]
    return [text[end : chunk.start] for end, chunk in zip(ends, chunks, strict=False)]


def make_chunks(
    document: Document, owner: str, parsed: ParsedDocument, spans: Sequence[tuple[int, int]]
) -> list[Chunk]:
    """Return the chunks at these spans of a document's text, with ids that start with `owner`."""
    return [
        Chunk(
            id=f"{owner}-{index}",
            document_id=document.id,
            document_name=document.name,
            index=index,
            page=parsed.page_of(start),
            start=start,
            end=end,
            text=parsed.text[start:end],
        )
        for index, (start, end) in enumerate(spans)
    ]


def estimate_page_starts(
    num_pages: int | None, chunks: Sequence[tuple[int, int | None]], length: int
) -> tuple[int, ...]:
    """Return the first character of each page as the chunks tell it: late by up to a chunk.

    Documents of an earlier version need it.

    chunks  (start, page) of each, in reading order
    length  characters of the text
    """
    pages = [page or 1 for _, page in chunks]
    firsts = (bisect_left(pages, page) for page in range(1, (num_pages or 0) + 1))
    starts = [chunks[first][0] if first < len(chunks) else length for first in firsts]
    return (0, *starts[1:]) if starts else ()


def excerpt_span(chunk: Chunk, page_starts: Sequence[int], length: int) -> tuple[int, int]:
    """Return the (start, end) to show around a chunk: its pages, or text on both sides if there are none."""
    context = MAX_PAGE_CHARS if page_starts else CONTEXT_CHARS
    start = max(0, chunk.start - context)
    end = min(length, chunk.end + context)
    if page_starts:
        start = max([start, *(page for page in page_starts if page <= chunk.start)])
        end = min([end, *(page for page in page_starts if page >= chunk.end)])
    return start, end


def make_excerpt(chunk: Chunk, text: str, start: int, page_starts: Sequence[int], length: int) -> Excerpt:
    """Return a chunk's excerpt, without the partial words at a truncated end.

    text    the document from character `start` on, as given by `excerpt_span`
    length  characters of the document
    """
    end = start + len(text)
    truncated_before = start > 0 and start not in page_starts
    truncated_after = end < length and end not in page_starts
    first = 0
    last = len(text.rstrip())  # a chunk never ends with white space
    if truncated_before and (space := SPACE.search(text, 0, chunk.start - start)):
        first = space.end()
    if truncated_after and (spaces := list(SPACE.finditer(text[:last], chunk.end - start))):
        last = spaces[-1].start()
    # All pages that begin before the excerpt map to its first character; `dict` keeps the last of them.
    pages = {max(0, at - start - first): page for page, at in enumerate(page_starts, 1) if at < start + last}
    return Excerpt(
        chunk,
        text[first:last],
        chunk.start - start - first,
        chunk.end - start - first,
        truncated_before,
        truncated_after,
        tuple(pages.items()),
    )


def _fill_gap(length: int, gap: str | None) -> str:
    if gap is not None and len(gap) >= length:
        return gap[len(gap) - length :]
    return " " if length == 1 else "\n" * length
