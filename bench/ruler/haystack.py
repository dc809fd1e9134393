"""The haystack: a text file, or our sample documents. RULER's essays may not be redistributed; any prose works."""

import re
from itertools import cycle, islice
from pathlib import Path

from assets import ASSETS
from bench.errors import InvalidDataset

SAMPLES = ASSETS / "samples"
MAX_CHARS = 4_000_000  # read from a file; a context of 128K tokens needs about 600,000
_TABLE = re.compile(r"^\s*\|.*$", re.MULTILINE)
_MARKS = re.compile(r"^[ \t]*(#+|[-*+>]|\d{1,3}\.)[ \t]+|[*`]+", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])")  # not after 'e.g.', where lower case follows


def read_haystack(path: Path | None) -> str:
    """Return the text of a file, or of the sample documents, without Markdown. Raises InvalidDataset without one."""
    if path is None:
        files = sorted([*SAMPLES.glob("*.md"), *SAMPLES.glob("*.txt")])
        return strip_markdown("\n\n".join(file.read_text(encoding="utf-8") for file in files))
    try:
        with path.open(encoding="utf-8") as file:
            text = strip_markdown(file.read(MAX_CHARS))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDataset(f"{path} cannot be read as a haystack: {error}.") from error
    if not text:
        raise InvalidDataset(f"{path} has no text for a haystack.")
    return text


def strip_markdown(text: str) -> str:
    """Remove heading and list marks, emphasis and tables."""
    return _MARKS.sub("", _TABLE.sub("", text)).strip()


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text with single spaces."""
    return [sentence for sentence in _END.split(" ".join(text.split())) if sentence]


def take_words(sentences: list[str], start: int, count: int) -> list[str]:
    """Return `count` words of the sentences from index `start` on, cyclically."""
    cyclic = islice(cycle(sentences), start, None)
    return list(islice((word for sentence in cyclic for word in sentence.split()), count))
