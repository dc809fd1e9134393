"""The result of parsing a file, and the limits on its size."""

from bisect import bisect_right
from dataclasses import dataclass

from store.errors import DocumentTooLarge


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The text of a file, and where its pages begin."""

    text: str
    page_starts: tuple[int, ...] = ()  # first character of each page, ascending; empty without pages
    warning: str = ""  # for the user, e.g. about pages without text

    @property
    def num_pages(self) -> int | None:
        """Number of pages; None if the format has none."""
        return len(self.page_starts) or None

    def page_of(self, character: int) -> int | None:
        """Return the page, from 1, of a character of the text; None without pages."""
        return bisect_right(self.page_starts, character) or None


@dataclass(frozen=True)
class ParseLimits:
    """Sizes above which a file is rejected, checked before the expensive work.

    file_bytes      of the file itself
    characters      of its text, and of an HTML file's source
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
        """Raise DocumentTooLarge if a file is too large."""
        if size_bytes > self.file_bytes:
            raise DocumentTooLarge(
                f"{name} has {size_bytes / 2**20:.1f} MB, and the limit is {self.file_bytes / 2**20:.1f} MB."
            )

    def check_text(self, characters: int, name: str) -> None:
        """Raise DocumentTooLarge if a text is too long."""
        if characters > self.characters:
            raise DocumentTooLarge(f"The text of {name} has over {self.characters:,} characters, which is the limit.")
