"""The result of parsing a file, and what all parsers need: steps, and one error for damaged files."""

from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from store.errors import KVScopeError, UnreadableDocument
from store.types import Progress


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The text of a file, and where its pages begin."""

    text: str
    page_starts: tuple[int, ...] = ()  # first character of each page, ascending; empty without pages
    warning: str = ""  # sentences for the user, e.g. about pages without text
    recognized_pages: int = 0  # whose text was recognized (OCR), when the file was parsed

    def page_of(self, character: int) -> int | None:
        """Return the page, from 1, of a character of the text; None without pages."""
        return bisect_right(self.page_starts, character) or None


ParseSteps = Generator[Progress, None, ParsedDocument]  # the pages read so far; returns the document


def finish(steps: ParseSteps) -> ParsedDocument:
    """Take all steps; return the document."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


@contextmanager
def reading(name: str, kind: str) -> Iterator[None]:
    """Raise UnreadableDocument, 'is a damaged `kind`', for the many errors of libraries on damaged files."""
    try:
        yield
    except (KVScopeError, MemoryError):
        raise
    except Exception as error:
        raise UnreadableDocument(f"{name} is a damaged {kind} ({type(error).__name__}).") from error
