"""What parsing gives, and how much it takes on."""

from bisect import bisect_right
from dataclasses import dataclass

from store.errors import DocumentTooLarge


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The text of a file, and where its pages begin."""

    text: str
    page_starts: tuple[int, ...] = ()  # character where each page begins, ascending; empty if there are no pages
    warning: str = ""  # what a person should know about the text, e.g. pages without any

    @property
    def num_pages(self) -> int | None:
        """Number of pages; None where the format has none."""
        return len(self.page_starts) or None

    def page_of(self, character: int) -> int | None:
        """Return the page, from 1, that holds a character of the text; None where there are no pages."""
        return bisect_right(self.page_starts, character) or None


@dataclass(frozen=True)
class ParseLimits:
    """Past one of these a file is refused, before the work is done rather than after.

    file_bytes      of the file itself
    characters      of its text (for HTML, of its source too)
    unpacked_bytes  of all parts of a Word file together: a small archive can unpack to gigabytes
    """

    file_bytes: int = 50 * 2**20
    characters: int = 20_000_000
    unpacked_bytes: int = 300 * 2**20

    def __post_init__(self) -> None:
        for limit in ("file_bytes", "characters", "unpacked_bytes"):
            if getattr(self, limit) < 1:
                raise ValueError(f"{limit} must be positive, got {getattr(self, limit)}")

    def check_file(self, size_bytes: int, name: str) -> None:
        """Raise DocumentTooLarge if a file of this size is too much."""
        if size_bytes > self.file_bytes:
            raise DocumentTooLarge(
                f"{name} has {size_bytes / 2**20:.1f} MB, and the limit is {self.file_bytes / 2**20:.1f} MB."
            )

    def check_text(self, characters: int, name: str) -> None:
        """Raise DocumentTooLarge if a text of this length is too much."""
        if characters > self.characters:
            raise DocumentTooLarge(f"The text of {name} has over {self.characters:,} characters, which is the limit.")
