"""Folders whose files are documents: new and changed files are added, and deleted ones are reported.

Folders are chosen on the command line (`--watch`), never on the page. The document of a deleted file stays until the
user deletes it: a disk that is not mounted looks like a folder whose files were all deleted.
"""

import logging
import os
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread

from pydantic import TypeAdapter, ValidationError
from watchfiles import watch

from backend.interface.backend import Backend
from backend.interface.library import WatchedFolder
from server.client import set_client
from store.atomic import write_atomic
from store.errors import KVScopeError

CLIENT = "watched folder"  # in the audit log
FILE_NAME = "watched.json"
SUFFIXES = (
    *(".pdf", ".docx", ".xlsx", ".pptx", ".epub", ".html", ".htm", ".md", ".markdown", ".txt", ".csv", ".tsv"),
    *(".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"),
)
SETTLE_S = 2.0  # without a change before a file is read: it may still be written
POLL_S = 0.5
RESCAN_S = 600.0  # network folders report no changes
RETRY_S = 60.0
log = logging.getLogger("kvscope")
logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it reports every change


@dataclass(frozen=True)
class WatchedFile:
    """A file as it was when it was added. Stored under these names: do not rename the fields."""

    size: int
    mtime_ns: int
    document: str  # its id; '' if it could not be added
    is_added: bool  # False if the document was in the library before: it stays when the file changes
    error: str = ""  # why it could not be added


_FILES = TypeAdapter(dict[str, WatchedFile])


@dataclass
class WatchedFolders:
    """A thread that keeps the library up to date with the folders' files, which are known by their paths."""

    backend: Backend
    data: Path  # the data folder
    folders: Sequence[Path]
    _files: dict[str, WatchedFile] = field(default_factory=dict)
    _gone: list[str] = field(default_factory=list)  # paths of deleted files whose documents are still there
    _missing: list[Path] = field(default_factory=list)  # folders
    _closed: Event = field(default_factory=Event)
    _cancel: Event = field(default_factory=Event)

    def start(self) -> None:
        if self.folders:
            Thread(target=self._run, name="watched folders", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._cancel.set()

    def status(self) -> list[WatchedFolder]:
        """Return what each folder has, in the order of the command line."""
        files, existing = self._files, {document.id for document in self.backend.documents()}
        folders = []
        for folder in self.folders:
            mine = {path: file for path, file in files.items() if Path(path).is_relative_to(folder)}
            errors = tuple(_describe(Path(path).name, file.error) for path, file in mine.items() if file.error)
            gone = [mine[path].document for path in self._gone if path in mine]
            ids = tuple(document for document in gone if document in existing)
            folders.append(WatchedFolder(str(folder), len(mine) - len(gone), folder in self._missing, errors, ids))
        return folders

    def _run(self) -> None:
        set_client(CLIENT)
        path = self.data / FILE_NAME
        try:
            self._files = _FILES.validate_json(path.read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValidationError) as error:  # all files are looked at again
            log.warning("%s cannot be read and is ignored: %s", path, error)
        while not self._closed.wait(POLL_S) and not self.backend.status().ready:
            pass
        while not self._closed.is_set():
            try:
                self._follow()
            except Exception:
                log.exception("folders cannot be watched; the next try is in %g s", RETRY_S)
            self._closed.wait(RETRY_S)

    def _follow(self) -> None:
        """Scan the folders, and again after each change; return if none of them exists."""
        is_settled, scanned = self.scan(), time.monotonic()
        existing = [folder for folder in self.folders if folder.is_dir()]
        if not existing:
            return
        for changes in watch(
            *existing,
            stop_event=self._closed,
            rust_timeout=int(1000 * SETTLE_S),
            yield_on_timeout=True,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            if changes or not is_settled or time.monotonic() - scanned > RESCAN_S:
                is_settled, scanned = self.scan(), time.monotonic()

    def scan(self) -> bool:
        """Add new and changed files; return False if some have to be looked at again soon."""
        self._missing = [folder for folder in self.folders if not folder.is_dir()]
        found = {str(path): path for folder in self.folders for path in _files_in(folder)}
        is_settled = True
        for key, path in found.items():
            if self._closed.is_set():
                return False
            try:
                stat = path.stat()
            except OSError:
                continue
            known = self._files.get(key)
            if known and (known.size, known.mtime_ns) == (stat.st_size, stat.st_mtime_ns):
                continue
            if 0 <= time.time() - stat.st_mtime < SETTLE_S:
                is_settled = False
                continue
            is_settled &= self._add(path, stat.st_size, stat.st_mtime_ns, known)
        self._find_deleted(found)  # afterwards: a renamed file is a new one with a known document
        return is_settled

    def _add(self, path: Path, size: int, mtime_ns: int, known: WatchedFile | None) -> bool:
        """Add a file, and delete the document of its former content; return False if it has to be tried again."""
        self._cancel = Event()
        if self._closed.is_set():
            return False
        try:
            *_, (progress,) = self.backend.ingest([(path, path.name)], self._cancel)
        except KVScopeError as error:  # e.g. another model is being loaded
            log.info("%s is added later: %s", path, error)
            return False
        former = known or WatchedFile(size, mtime_ns, "", is_added=False)
        if progress.stage == "failed":
            if self._cancel.is_set():  # e.g. while settings are changed
                return False
            file = replace(former, size=size, mtime_ns=mtime_ns, error=progress.message)
            self._save({**self._files, str(path): file})
            return True
        new, added = progress.document_id, {file.document for file in self._files.values() if file.is_added}
        file = WatchedFile(size, mtime_ns, new, is_added=not progress.unchanged or new in added)
        self._save({**self._files, str(path): file})
        is_used = former.document in {file.document for file in self._files.values()}
        if former.is_added and not is_used:
            self._replace(former.document, new, path.name)
        return True

    def _replace(self, old: str, new: str, name: str) -> None:
        """Delete a former document; the new one is in its collections and has its name."""
        try:
            former = next((document for document in self.backend.documents() if document.id == old), None)
            if former is None:
                return
            for collection in former.collections:
                self.backend.library.add_to_collection([new], collection)
            self.backend.delete(old)
            self.backend.library.rename(new, name)
        except KVScopeError as error:
            log.warning("the former version of %s: %s", name, error)

    def _find_deleted(self, found: Collection[str]) -> None:
        """Note which files are gone; forget those without a document, and those whose document another file has."""
        existing = {document.id for document in self.backend.documents()}
        present = {file.document for key, file in self._files.items() if key in found}
        available = [folder for folder in self.folders if folder not in self._missing]
        absent = [key for key in self._files if key not in found and any(map(Path(key).is_relative_to, available))]
        self._gone = [key for key in absent if self._files[key].document in existing - present]
        if forgotten := {*absent} - {*self._gone}:
            self._save({key: file for key, file in self._files.items() if key not in forgotten})

    def _save(self, files: dict[str, WatchedFile]) -> None:
        self._files = files
        data = _FILES.dump_json(files, indent=1)
        try:
            write_atomic(self.data / FILE_NAME, data)
        except OSError as error:  # the next start looks at the file again
            log.warning("%s cannot be written: %s", FILE_NAME, error)


def _describe(name: str, error: str) -> str:
    return error if name in error else f"{name}: {error}"


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that may be documents; hidden ones and links are left out."""
    for parent, folders, names in os.walk(folder, onerror=lambda error: log.warning("%s", error)):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if path.suffix.lower() in SUFFIXES and not name.startswith((".", "~$")) and not path.is_symlink():
                yield path
