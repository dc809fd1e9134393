"""Make chunks of a document's text, reassemble the text from them, and take the excerpt around one of them.

Chunks are slices that may overlap, and only white space lies outside of them. That white space is stored with the
chunk that follows (its `gap`), so the parsed text can be restored up to the end of its last chunk. Libraries of an
earlier version have no gaps: there each gap is filled to its length, so that every offset still holds.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from textwrap import shorten

from store.ingest.document import ParsedDocument
from store.markdown import contexts_at
from store.names import split_suffix
from store.types import Chunk, Document, Excerpt

CONTEXT_CHARS = 1500  # shown on each side of a chunk if the document has no pages
MAX_PAGE_CHARS = 6000  # shown at most on each side of a chunk if it has
MAX_TITLE_CHARS = 100  # of each part of a context
SPACE = re.compile(r"\s+")


def make_chunks(document: Document, owner: str, parsed: ParsedDocument, spans: list[tuple[int, int]]) -> list[Chunk]:
    """Return the chunks at these spans of a document's text, with ids that start with `owner`."""
    text = parsed.text
    contexts = contexts_at(text, [start for start, _ in spans])
    return [
        Chunk(
            f"{owner}-{index}",
            document.id,
            document.name,
            index,
            parsed.page_of(start),
            start,
            end,
            text[start:end],
            _format_context(document.name, titles),
        )
        for index, ((start, end), titles) in enumerate(zip(spans, contexts, strict=True))
    ]


def _format_context(name: str, titles: Sequence[str]) -> str:
    """Return the context of a chunk on one line: 'report-2023 > Annual report > Outlook'."""
    parts = [split_suffix(name)[0], *titles]
    return " > ".join(shorten(" ".join(part.split()), MAX_TITLE_CHARS, placeholder=" …") for part in parts)


def gaps_before(text: str, chunks: Sequence[Chunk]) -> list[str]:
    """Return the white space before each chunk that is in no chunk; '' where chunks touch or overlap."""
    ends = [0, *(chunk.end for chunk in chunks)]
    return [text[end : chunk.start] for end, chunk in zip(ends, chunks, strict=False)]


def join_chunks(chunks: Iterable[tuple[int, str, str | None]]) -> str:
    """Return a document's text from its chunks in reading order, each as (start, text, gap or None if unknown)."""
    parts: list[str] = []
    end = 0
    for start, text, gap in chunks:
        gap_length = start - end  # negative where chunks overlap
        if gap_length > 0:
            parts.append(gap or (" " if gap_length == 1 else "\n" * gap_length))
        parts.append(text[max(0, -gap_length) :])
        end = start + len(text)
    return "".join(parts)


def estimate_page_starts(num_pages: int | None, chunks: list[tuple[int, int | None]], length: int) -> tuple[int, ...]:
    """Return the first character of each page as the chunks' (start, page) tell it, late by up to a chunk.

    For texts of `length` characters that an earlier version stored.
    """
    if not num_pages:
        return ()
    pages = [page or 1 for _, page in chunks]
    starts = [*(start for start, _ in chunks), length]
    return (0, *(starts[bisect_left(pages, page)] for page in range(2, num_pages + 1)))


def take_excerpt(chunk: Chunk, document: ParsedDocument) -> Excerpt:
    """Return a chunk with its pages, or the text on both sides if there are none, without partial words at the ends."""
    text = document.text
    page_starts = document.page_starts
    context = MAX_PAGE_CHARS if page_starts else CONTEXT_CHARS
    start = max(0, chunk.start - context, *(page for page in page_starts if page <= chunk.start))
    end = min(len(text), chunk.end + context, *(page for page in page_starts if page >= chunk.end))
    truncated_before = start > 0 and start not in page_starts
    truncated_after = end < len(text) and end not in page_starts
    if truncated_before and (space := SPACE.search(text, start, chunk.start)):
        start = space.end()
    end = chunk.end + len(text[chunk.end : end].rstrip())
    if truncated_after and (spaces := list(SPACE.finditer(text, chunk.end, end))):
        end = spaces[-1].start()
    # All pages that begin before the excerpt map to its first character; `dict` keeps the last of them.
    pages = tuple({max(0, at - start): page for page, at in enumerate(page_starts, 1) if at < end}.items())
    return Excerpt(
        chunk, text[start:end], chunk.start - start, chunk.end - start, truncated_before, truncated_after, pages
    )
