"""Split a text into chunks of a bounded number of tokens, at the ends of paragraphs, lines and sentences.

The splitter (semantic-text-splitter) holds the GIL while it works, so a long text is passed in sections of whole
paragraphs: a book of 20 million characters then neither freezes the UI nor needs more memory than a section.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from semantic_text_splitter import TextSplitter
from tokenizers import Tokenizer

from store.types import Document

MAX_SECTION_CHARS = 32_000  # takes about a fifth of a second
BOUNDARIES = (r"\n\s*\n", r"\n", r"[.!?]\s+|[\u3002\uff01\uff1f]", r"\s+")  # after a paragraph, line, sentence, word


@dataclass(frozen=True)
class ChunkConfig:
    """Chunk size and overlap."""

    tokens: int = 512  # at most in a chunk, without special ones
    overlap: int = 50  # at most repeated from the previous chunk, in whole sentences

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"tokens must be at least 1, got {self.tokens}")
        if not 0 <= self.overlap < self.tokens:
            raise ValueError(f"overlap must lie in [0, {self.tokens}), got {self.overlap}")


def chunk_config_of(document: Document) -> ChunkConfig:
    """Return the config a document was chunked with; the default if it was not recorded."""
    if document.chunk_tokens is None or document.chunk_overlap is None:
        return ChunkConfig()
    return ChunkConfig(document.chunk_tokens, document.chunk_overlap)


def split(text: str, tokenizer: Tokenizer, config: ChunkConfig) -> list[tuple[int, int]]:
    """Return the chunks of a text as (start, end) characters: `text[start:end]` is the chunk.

    Starts and ends ascend strictly, no chunk is empty or has white space at its ends, and only white space lies
    outside of all chunks. A single character with more tokens than allowed is a chunk nevertheless.
    """
    return [span for spans in split_sections(text, tokenizer, config) for span in spans]


def split_sections(text: str, tokenizer: Tokenizer, config: ChunkConfig) -> Iterator[list[tuple[int, int]]]:
    """Yield the chunks that `split` returns, those of one section at a time."""
    splitter = _splitter(tokenizer, config)
    for start, end in sections(text):
        chunks = splitter.chunk_indices(text[start:end])
        yield [(start + offset, start + offset + len(chunk)) for offset, chunk in chunks]


def sections(text: str, max_chars: int = MAX_SECTION_CHARS) -> Iterator[tuple[int, int]]:
    """Yield spans of at most `max_chars` characters that cover the text, each ending with a paragraph.

    If the second half of a section has no such end it ends with a line, a sentence or a word, else anywhere.
    """
    start = 0
    while len(text) - start > max_chars:
        candidates = (_last_boundary(pattern, text, start, max_chars) for pattern in BOUNDARIES)
        end = next(filter(None, candidates), start + max_chars)
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


def _last_boundary(pattern: str, text: str, start: int, max_chars: int) -> int | None:
    matches = re.compile(pattern).finditer(text, start + max_chars // 2, start + max_chars)
    return max((match.end() for match in matches), default=None)


@lru_cache(maxsize=4)
def _splitter(tokenizer: Tokenizer, config: ChunkConfig) -> TextSplitter:
    """Return a splitter; building one serialises the tokenizer: 0.25 s for a vocabulary of 49,152."""
    if tokenizer.truncation is not None or tokenizer.padding is not None:
        tokenizer = Tokenizer.from_str(tokenizer.to_str())
        tokenizer.no_truncation()  # with it, token counts would saturate and chunks grow without limit
        tokenizer.no_padding()
    return TextSplitter.from_huggingface_tokenizer(tokenizer, config.tokens, overlap=config.overlap)
