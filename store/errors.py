"""Errors with a message for the user. Any other exception is a bug and keeps its traceback."""


class KVScopeError(Exception):
    """Base of every error shown to the user. `hint` is one sentence that says what to do next."""

    hint = ""

    def __str__(self) -> str:
        return f"{super().__str__()} {self.hint}".strip()


class UnreadableDocument(KVScopeError):
    hint = "Pick a PDF, Word, Excel, PowerPoint, EPUB, HTML, Markdown, CSV, text or image file that contains text."


class NoSuchDocument(KVScopeError):
    hint = "It was deleted or re-indexed in the meantime; refresh the list of documents."


class DocumentTooLarge(KVScopeError):
    hint = "Split the file and add the parts."


class LibraryFull(KVScopeError):
    hint = "Delete documents that are no longer needed, or start KVScope with a larger limit."


class FolderInUse(KVScopeError):
    """`url` is the address of the server that uses the folder; empty if there is none."""

    hint = "Close the other KVScope, or start this one with another --data-dir folder."

    def __init__(self, message: str, url: str = "") -> None:
        super().__init__(message)
        self.url = url


class FolderUnusable(KVScopeError):
    hint = "Make the folder writable and free some disk space, or choose another one with --data-dir."


class NewerLibrary(KVScopeError):
    hint = "Update KVScope, or choose another folder with --data-dir; nothing was changed."


class StoreFull(KVScopeError):
    """The disk is full or the folder is read-only. Everything stored before is unchanged."""

    hint = "Free some disk space, then try again; no stored data is lost."


class ExportFailed(KVScopeError):
    hint = "Start KVScope once, or run it with --repair, then export the library again."


class KVIndexDamaged(StoreFull):
    hint = "Restart KVScope, which then creates the index of chunk KV again; no document is affected."


class VectorsUnavailable(StoreFull):
    hint = "Start the Chroma server, then try again; nothing was changed, and vectors can always be computed again."


class KVServerUnavailable(KVScopeError):
    hint = "Chunk KV is computed here meanwhile; the connection is tried again."


class LibraryUnavailable(KVScopeError):
    hint = "Documents are safe there; try again when it runs."
