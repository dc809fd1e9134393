"""Errors that the page shows as they are; anything else is a bug and keeps its traceback."""


class KVScopeError(Exception):
    """Base of every error meant for a person. `hint` is one sentence that says what to do next."""

    hint = ""

    def __str__(self) -> str:
        return f"{super().__str__()} {self.hint}".strip()


class UnreadableDocument(KVScopeError):
    """The file cannot be turned into text: empty, encrypted, binary, torn, or of another kind than it says."""

    hint = "Pick a PDF, DOCX, Markdown, HTML or text file that holds text."


class NoSuchDocument(KVScopeError):
    hint = "It was deleted or cut anew meanwhile; look at the list of documents again."


class DocumentTooLarge(KVScopeError):
    hint = "Split the file and add the parts."


class FolderInUse(KVScopeError):
    hint = "Close the other KVScope, or start this one with another --data folder."


class FolderUnusable(KVScopeError):
    hint = "Make the folder writable, with some room in it, or give another one with --data."


class StoreFull(KVScopeError):
    """No room left on the disk, or the folder turned read-only. What was stored before is untouched."""

    hint = "Free some disk space, then try again; nothing that was stored is lost."
