"""The result of parsing a file, and the limits on its size, checked before the expensive work."""

from bisect import bisect_right
from dataclasses import dataclass

from store.errors import DocumentTooLarge

MAX_FILE_BYTES = 50 * 2**20
MAX_CHARACTERS = 20_000_000  # of a text, and of an HTML file's source


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The text of a file, and where its pages begin."""

    text: str
    page_starts: tuple[int, ...] = ()  # first character of each page, ascending; empty without pages
    warning: str = ""  # sentences for the user, e.g. about pages without text

    @property
    def num_pages(self) -> int | None:
        """Number of pages; None if the format has none."""
        return len(self.page_starts) or None

    def page_of(self, character: int) -> int | None:
        """Return the page, from 1, of a character of the text; None without pages."""
        return bisect_right(self.page_starts, character) or None


def check_file_size(size_bytes: int, name: str) -> None:
    """Raise DocumentTooLarge if a file is too large."""
    if size_bytes > MAX_FILE_BYTES:
        raise DocumentTooLarge(
            f"{name} has {size_bytes / 2**20:.1f} MB, and the limit is {MAX_FILE_BYTES / 2**20:.1f} MB."
        )


def check_text_length(characters: int, name: str) -> None:
    """Raise DocumentTooLarge if a text is too long."""
    if characters > MAX_CHARACTERS:
        raise DocumentTooLarge(f"The text of {name} has over {MAX_CHARACTERS:,} characters, which is the limit.")
