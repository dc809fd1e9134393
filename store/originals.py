"""The original bytes of PDF files, so that a page can be shown as it looks.

A lost or damaged file costs only the picture: documents, their text and their KV do not depend on it.
"""

import logging
import re
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

from store.atomic import write_atomic

SUFFIX = ".pdf"
DOCUMENT_ID = re.compile("[0-9a-f]{64}")
log = logging.getLogger("kvscope")


class Originals:
    """One file per document in a folder, named by its id, the SHA-256 of its bytes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, document_id: str, data: bytes) -> None:
        """Keep a file; if the disk is full, log that it is not kept."""
        path = self._path(document_id)
        assert path is not None, "the id is the digest of the data"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_atomic(path, data)
        except OSError as error:
            log.warning("the original of a PDF file is not kept, so its pages cannot be shown (%s)", error.strerror)

    def has(self, document_id: str) -> bool:
        """Return whether there is a file, without looking at its bytes."""
        path = self._path(document_id)
        return path is not None and path.is_file()

    def get(self, document_id: str) -> bytes | None:
        """Return a file's bytes; None if it is missing or has other bytes than it had."""
        try:
            data = path.read_bytes() if (path := self._path(document_id)) else b""
        except OSError:
            return None
        return data if sha256(data).hexdigest() == document_id else None

    def delete(self, document_id: str) -> None:
        if path := self._path(document_id):
            path.unlink(missing_ok=True)

    def keep_only(self, document_ids: Collection[str]) -> None:
        """Delete all other files, which interrupted additions and deletions have left."""
        kept = {f"{document_id}{SUFFIX}" for document_id in document_ids}
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def _path(self, document_id: str) -> Path | None:
        """Return a document's file; None for anything but an id, such as a path that a client sent."""
        return self._folder / f"{document_id}{SUFFIX}" if DOCUMENT_ID.fullmatch(document_id) else None
