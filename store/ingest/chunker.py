"""Cut a text into chunks of at most so many tokens, at the ends of paragraphs, lines and sentences.

The splitter (semantic-text-splitter) takes the coarsest cut that fits, so a chunk seldom breaks a sentence. It holds
Python's global lock while it works, so a long text goes to it in sections of whole paragraphs: a book of 20 million
characters then neither freezes the page nor needs more memory than a section.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import lru_cache

from semantic_text_splitter import TextSplitter
from tokenizers import Tokenizer

from store.types import Document, Progress

MAX_SECTION_CHARS = 32_000  # characters; about a fifth of a second
BOUNDARIES = tuple(  # the best first: after a paragraph, a line, a sentence, a word
    map(re.compile, (r"\n\s*\n", r"\n", r"[.!?]\s+|[\u3002\uff01\uff1f]", r"\s+"))
)


@dataclass(frozen=True)
class ChunkConfig:
    """tokens   most tokens of a chunk, without special ones
    overlap  most tokens that a chunk repeats from the one before; whole sentences or none"""

    tokens: int = 512
    overlap: int = 50

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"tokens must be at least 1, got {self.tokens}")
        if not 0 <= self.overlap < self.tokens:
            raise ValueError(f"overlap must lie in [0, {self.tokens}), got {self.overlap}")


def chunk_config_of(document: Document) -> ChunkConfig:
    """Return how a document was cut; one from before that was kept counts as cut in the default way."""
    if document.chunk_tokens is None or document.chunk_overlap is None:
        return ChunkConfig()
    return ChunkConfig(document.chunk_tokens, document.chunk_overlap)


def split(text: str, tokenizer: Tokenizer, config: ChunkConfig) -> list[tuple[int, int]]:
    """Return the chunks of a text as (start, end) characters: `text[start:end]` is the chunk.

    Both ends ascend strictly, no chunk is empty or blank at its ends, and only white space lies outside all of them.
    A single character that takes more tokens than a chunk may have is a chunk nevertheless.
    """
    return [span for spans in iter_split(text, tokenizer, config) for span in spans]


def split_with_progress(text: str, tokenizer: Tokenizer, config: ChunkConfig) -> Generator[Progress, None, list[tuple[int, int]]]:
    """Cut a text as `split` does, a section a step; return the chunks."""
    spans: list[tuple[int, int]] = []
    for more in iter_split(text, tokenizer, config):
        spans += more
        yield Progress("chunked", spans[-1][1] if spans else 0, len(text))
    return spans


def iter_split(text: str, tokenizer: Tokenizer, config: ChunkConfig) -> Iterator[list[tuple[int, int]]]:
    """Yield what `split` returns a section at a time, so that others get a turn and a person can cancel."""
    splitter = _splitter(tokenizer, config)
    for start, end in sections(text):
        chunks = splitter.chunk_indices(text[start:end])
        yield [(start + offset, start + offset + len(chunk)) for offset, chunk in chunks]


def sections(text: str, max_chars: int = MAX_SECTION_CHARS) -> Iterator[tuple[int, int]]:
    """Yield spans that cover the text, each of at most `most` characters, ending at the end of a paragraph.

    Without one in the second half of a section it ends with a line, a sentence or a word; without that, anywhere.
    """
    start = 0
    while len(text) - start > max_chars:
        end = next(filter(None, (_last(cut, text, start, max_chars) for cut in BOUNDARIES)), start + max_chars)
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


def _last(pattern: re.Pattern[str], text: str, start: int, most: int) -> int | None:
    ends = [match.end() for match in pattern.finditer(text, start + most // 2, start + most)]
    return ends[-1] if ends else None


@lru_cache(maxsize=4)
def _splitter(tokenizer: Tokenizer, config: ChunkConfig) -> TextSplitter:
    """Making one writes the tokenizer out and reads it again: a quarter of a second for 49,152 tokens."""
    return TextSplitter.from_huggingface_tokenizer(_counting(tokenizer), config.tokens, overlap=config.overlap)


def _counting(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer without truncation: a truncated count would let a chunk grow without end."""
    if tokenizer.truncation is None and tokenizer.padding is None:
        return tokenizer
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy
