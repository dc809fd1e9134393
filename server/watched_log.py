"""What followed changes of files in watched folders, and copies of replaced documents, so that it can be undone."""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from uuid import uuid4

from pydantic import TypeAdapter

from store.atomic import write_atomic

FILE_NAME = "watched-changes.json"
FOLDER = "replaced"  # of the copies
KEEP_S = 7 * 86_400.0  # how long a copy is kept
MAX_CHANGES = 200
log = logging.getLogger("kvscope")


@dataclass(frozen=True)
class Change:
    """What followed one change of a file. Stored under these names: do not rename the fields."""

    path: str
    kind: str  # 'added', 'replaced' or 'undone'
    document: str  # the id of the file's document since then
    name: str  # of the document
    replaced: str = ""  # the id of the document before
    replaced_added_at: float = 0.0
    new_name: str = ""  # of the file's document, before it got the name of the one that it replaced
    at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid4().hex)


_CHANGES = TypeAdapter(list[Change])


class WatchedLog:
    """The changes, oldest first, in a file of the data folder, and a copy for each that can be undone."""

    def __init__(self, data: Path) -> None:
        self._path = data / FILE_NAME
        self._copies = data / FOLDER
        self.changes: list[Change] = []
        self._is_readable = True
        try:
            self.changes = _CHANGES.validate_python(json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError) as error:
            self._is_readable = False
            log.warning("%s cannot be read and is ignored; copies are kept in %s: %s", self._path, self._copies, error)

    def add(self, change: Change) -> None:
        changes = [*self.changes, change]
        if len(changes) > MAX_CHANGES:  # those that may be undone stay longest
            changes.remove(next((each for each in changes if each.kind != "replaced"), changes[0]))
        self.changes = changes
        try:
            write_atomic(self._path, json.dumps([asdict(each) for each in self.changes], indent=1).encode())
        except OSError as error:  # the log is shorter after the next start
            log.warning("%s cannot be written: %s", FILE_NAME, error)

    def copy(self, document_id: str) -> Path:
        """Return where the copy of a replaced document is, or will be."""
        return self._copies / f"{document_id}.zip"

    def undoable(self, documents: Mapping[str, str]) -> dict[str, Change]:
        """Return the changes that can be undone, by id: the last one of each file, if it is recent.

        `documents` are the ids of the documents that files have now, by path.
        """
        last = {change.path: change for change in self.changes}
        oldest = time.time() - KEEP_S
        return {
            change.id: change
            for path, change in last.items()
            if change.kind == "replaced"
            and change.at > oldest
            and documents.get(path) == change.document
            and self.copy(change.replaced).is_file()
        }

    def keep_only(self, changes: Iterable[Change]) -> None:
        """Delete the copies of all other changes; none if the log of what they belong to could not be read."""
        if not self._is_readable:
            return
        kept = {self.copy(change.replaced) for change in changes}
        try:
            for path in self._copies.iterdir() if self._copies.is_dir() else ():
                if path not in kept:
                    path.unlink(missing_ok=True)
        except OSError as error:  # the next scan tries again
            log.warning("copies of replaced documents cannot be deleted: %s", error)
