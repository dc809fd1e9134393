"""The text in which needles hide: a file of the reader's, or the sample documents that come with KVScope.

RULER uses essays that may not be shipped. Any English prose does: the longer, the fewer passages are alike.
"""

import re
from itertools import islice
from pathlib import Path

from assets import ASSETS
from bench.errors import InvalidDataset

SAMPLES = ASSETS / "samples"
MAX_CHARS = 4_000_000  # characters of a file that are read; a context of 128K tokens needs about 600,000
_TABLE = re.compile(r"^\s*\|.*$", re.MULTILINE)
_MARKS = re.compile(r"^[ \t]*(#+|[-*+>]|\d{1,3}\.)[ \t]+|[*`]+", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])")  # not behind 'e.g.', where a small letter goes on


def read_haystack(path: Path | None) -> str:
    """Return the text of a file without Markdown marks and tables, or of the sample documents when `path` is None.

    A short text is no error: the generator goes round it. Raises BadData for a file that holds no UTF-8 text.
    """
    if path is None:
        files = sorted([*SAMPLES.glob("*.md"), *SAMPLES.glob("*.txt")])
        return strip_markdown("\n\n".join(file.read_text(encoding="utf-8") for file in files))
    try:
        with path.open(encoding="utf-8") as file:
            text = strip_markdown(file.read(MAX_CHARS))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDataset(f"{path} cannot be read as a haystack: {error}.") from error
    if not text:
        raise InvalidDataset(f"{path} holds no text for a haystack.")
    return text


def strip_markdown(text: str) -> str:
    """Return the prose of a Markdown text: without headings' and lists' marks, emphasis and tables."""
    return _MARKS.sub("", _TABLE.sub("", text)).strip()


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, each with single spaces."""
    return [sentence for sentence in _END.split(" ".join(text.split())) if sentence]


def take_words(found: list[str], start: int, most: int) -> list[str]:
    """Return `most` words of the sentences from number `start` on, going round when they end."""

    def around():
        while True:
            for number in range(len(found)):
                yield from found[(start + number) % len(found)].split()

    return list(islice(around(), most))
