"""What the library accepts. Each limit is a setting of `backend.runtime.settings`; docs/limits.md lists them."""

from dataclasses import dataclass
from math import ceil

from store.errors import DocumentTooLarge, LibraryFull


@dataclass(frozen=True)
class Limits:
    """The limits on documents, and the errors above them: each names the limit, its flag and the remedy."""

    max_file_mib: int = 50
    max_pages: int = 20_000  # of a PDF or presentation
    max_ocr_pages: int = 100  # scanned ones of a PDF whose text is recognized; each takes 5 to 15 seconds
    max_picture_pages: int = 200  # of a picture file; each takes seconds
    max_characters: int = 20_000_000  # of a text, and of an HTML file's source
    max_documents: int = 10_000

    @property
    def max_file_bytes(self) -> int:
        return self.max_file_mib * 2**20

    @property
    def most_pages(self) -> int:
        """The most pages that a file of any format may have."""
        return max(self.max_pages, self.max_picture_pages)

    def check_file(self, size_bytes: int, name: str) -> None:
        """Raise DocumentTooLarge if a file is too large."""
        if size_bytes > self.max_file_bytes:
            size = f"{ceil(10 * size_bytes / 2**20) / 10} MiB, and the limit is {self.max_file_mib} MiB"
            raise DocumentTooLarge(f"{name} is {size} (--max-file-mib).")

    def check_pages(self, pages: int, name: str) -> None:
        """Raise DocumentTooLarge if a document has too many pages."""
        if pages > self.max_pages:
            raise DocumentTooLarge(f"{name} has {pages:,} pages, and the limit is {self.max_pages:,} (--max-pages).")

    def check_picture_pages(self, pages: int, name: str) -> None:
        """Raise DocumentTooLarge if a picture file has too many pages."""
        if pages > self.max_picture_pages:
            limit = f"{self.max_picture_pages:,} for text recognition (--max-picture-pages)"
            raise DocumentTooLarge(f"{name} has {pages:,} pages, and the limit is {limit}.")

    def ocr_warning(self, pages: int) -> str:
        """Return the sentence to show for a document with this many scanned pages above the limit."""
        unread = "1 scanned page was" if pages == 1 else f"{pages:,} scanned pages were"
        return f"{unread} not read; the limit is {self.max_ocr_pages:,} (--max-ocr-pages)."

    def check_characters(self, characters: int, name: str) -> None:
        """Raise DocumentTooLarge if a text is too long; parsers call it before the expensive work."""
        if characters > self.max_characters:
            limit = f"{self.max_characters:,} characters, which is the limit (--max-characters)"
            raise DocumentTooLarge(f"The text of {name} has over {limit}.")

    def check_documents(self, documents: int) -> None:
        """Raise LibraryFull if there are too many documents."""
        if documents > self.max_documents:
            raise LibraryFull(f"The limit of {self.max_documents:,} documents (--max-documents) is reached.")


DEFAULT_LIMITS = Limits()
