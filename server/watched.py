"""Folders whose files are documents: new and changed files are added, and deleted ones are reported.

Folders are chosen on the command line (`--watch`), never on the page. The document of a deleted file stays until the
user deletes it: a disk that is not mounted looks like a folder whose files were all deleted. The document of a changed
file is replaced, which can be undone for some days (`server.watched_log`). Files are only read.
"""

import json
import logging
import os
import stat
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Thread

from pydantic import TypeAdapter
from watchfiles import watch

from backend.interface.backend import Backend
from backend.interface.library import WatchedChange, WatchedFolder
from server.client import set_client
from server.watched_log import Change, WatchedLog
from store.atomic import write_atomic
from store.errors import KVScopeError, NoSuchDocument
from store.names import clean_name
from store.types import Document

CLIENT = "watched folder"  # in the audit log
FILE_NAME = "watched.json"
SUFFIXES = (
    *(".pdf", ".docx", ".xlsx", ".pptx", ".epub", ".html", ".htm", ".md", ".markdown", ".txt", ".csv", ".tsv"),
    *(".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"),
)
SETTLE_S = 2.0  # without a change before a file is read: it may still be written
POLL_S = 0.5
RESCAN_S = 600.0  # network folders report no changes, and what could not be added is tried again
RETRY_S = 60.0
UNDO_WAIT_S = 5.0  # for a file that is being added
log = logging.getLogger("kvscope")
logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it reports every change


@dataclass(frozen=True)
class WatchedFile:
    """Size, time and document of a file when it was added. Stored under these names: do not rename the fields."""

    size: int
    mtime_ns: int
    document: str  # its id; '' if it could not be added
    added_at: float  # of the document that this file added; 0 if it was in the library before: then it is never deleted
    error: str = ""  # why it could not be added
    replaces: str = ""  # the document of its former content, until that is deleted
    replaces_added_at: float = 0.0


class FolderBusy(KVScopeError):
    hint = "Try again in a moment."


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
    _lock: Lock = field(default_factory=Lock)  # held while a file or a change of it is dealt with

    def __post_init__(self) -> None:
        self._log = WatchedLog(self.data)

    def start(self) -> None:
        if not self.folders:
            self._log.keep_only(())  # nothing can be undone
        else:
            Thread(target=self._run, name="watched folders", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._cancel.set()

    def status(self) -> list[WatchedFolder]:
        """Return what each folder has, in the order of the command line."""
        files, existing = self._files, self._documents()
        undoable = self._undoable(existing)
        folders = []
        for folder in self.folders:
            mine = {path: file for path, file in files.items() if Path(path).is_relative_to(folder)}
            errors = tuple(_describe(clean_name(path), file.error) for path, file in mine.items() if file.error)
            gone = [mine[path].document for path in self._gone if path in mine]
            ids = tuple(document for document in gone if document in existing)
            changes = tuple(
                WatchedChange(each.id, each.at, clean_name(each.path), each.kind, each.id in undoable)
                for each in reversed(self._log.changes)
                if Path(each.path).is_relative_to(folder)
            )
            missing = folder in self._missing
            folders.append(WatchedFolder(str(folder), len(mine) - len(gone), missing, errors, ids, changes))
        return folders

    def undo(self, change_id: str) -> None:
        """Restore the document that a change replaced, under its name, and delete the one that replaced it.

        The file is left alone, and read again when it next changes. Raises KVScopeError.
        """
        if not self._lock.acquire(timeout=UNDO_WAIT_S):
            raise FolderBusy("Files of a watched folder are being added.")
        try:
            change = self._undoable(self._documents()).get(change_id)
            if change is None:
                raise NoSuchDocument("This change can no longer be undone.")
            self._undo(change)
        finally:
            self._lock.release()

    def _undo(self, change: Change) -> None:
        library, file = self.backend.library, self._files[change.path]
        library.restore(self._log.copy(change.replaced))
        documents = self._documents()
        old, new = documents.get(change.replaced), documents.get(change.document)
        if old is None:
            raise FolderBusy("The replaced document is still being deleted.")
        for collection in new.collections if new else ():
            library.add_to_collection([old.id], collection)
        used = {each.document for path, each in self._files.items() if path != change.path}
        if new and new.added_at == file.added_at and new.id not in used:
            self.backend.delete(new.id)
        elif new and new.name == change.name:
            library.rename(new.id, change.new_name)
        library.rename(old.id, change.name)
        added_at = old.added_at if old.added_at == change.replaced_added_at else 0.0  # else the user has added it again
        self._save({**self._files, change.path: replace(file, document=old.id, added_at=added_at, error="")})
        self._log.add(Change(change.path, "undone", old.id, change.name))

    def _undoable(self, existing: Collection[str]) -> dict[str, Change]:
        files = {path: file.document for path, file in self._files.items() if file.document in existing}
        return self._log.undoable(files)

    def _run(self) -> None:
        set_client(CLIENT)
        path = self.data / FILE_NAME
        try:
            self._files = _FILES.validate_python(json.loads(path.read_bytes()))  # validate_json accepts no surrogates
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError) as error:  # all files are looked at again
            log.warning("%s cannot be read and is ignored: %s", path, error)
        while not self._closed.wait(POLL_S) and not self.backend.status().ready:
            pass
        while not self._closed.is_set():
            try:
                self._follow()
                self._closed.wait(SETTLE_S)
            except Exception:
                log.exception("folders cannot be watched; the next try is in %g s", RETRY_S)
                self._closed.wait(RETRY_S)

    def _follow(self) -> None:
        """Scan the folders, and again after each change; return when one of them is another folder than before."""
        places = self._places()
        is_settled, scanned = self.scan(), time.monotonic()
        for changes in watch(
            *places,
            stop_event=self._closed,
            rust_timeout=int(1000 * SETTLE_S),
            yield_on_timeout=True,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            if self._places() != places:
                return
            is_due = time.monotonic() - scanned > RESCAN_S
            if changes or not is_settled or is_due:
                is_settled = self.scan(retries=is_due)
                scanned = time.monotonic() if is_due else scanned

    def _places(self) -> dict[Path, tuple[int, int]]:
        """Return what identifies each folder that exists: it may be created or mounted later, or again."""
        return {folder: (found.st_dev, found.st_ino) for folder in self.folders if (found := _stat(folder))}

    def scan(self, retries: bool = True) -> bool:
        """Add new and changed files, and with `retries` those that could not be added before.

        Return False if some have to be looked at again soon.
        """
        found, missing = dict[str, os.stat_result](), list[Path]()
        for folder in self.folders:
            files, is_complete = _files_in(folder)
            known = any(Path(key).is_relative_to(folder) for key in self._files)
            if not is_complete or (known and not files):  # an empty folder may be one whose disk is not mounted
                missing.append(folder)
            found |= files
        self._missing = missing
        is_settled = True
        for key, status in found.items():
            with self._lock:
                former = self._files.get(key)
                is_known = former and (former.size, former.mtime_ns) == (status.st_size, status.st_mtime_ns)
                if is_known and not (former and former.error and retries):
                    continue
                if 0 <= time.time() - status.st_mtime < SETTLE_S:
                    is_settled = False
                elif not self._add(Path(key), status, former):
                    return False
        with self._lock:
            self._delete_replaced()  # afterwards: a renamed file is a new one with a known document
            self._find_deleted(found)
            if self.backend.status().ready:  # else there may seem to be no documents
                self._log.keep_only(self._undoable(self._documents()).values())
        return is_settled

    def _documents(self) -> dict[str, Document]:
        return {document.id: document for document in self.backend.documents()}

    def _add(self, path: Path, status: os.stat_result, former: WatchedFile | None) -> bool:
        """Add a file; return False if it has to be tried again, e.g. because another model is being loaded."""
        self._cancel = Event()
        if self._closed.is_set() or not self.backend.status().ready:
            return False
        try:
            *_, (progress,) = self.backend.ingest([(path, clean_name(path.name))], self._cancel)
        except KVScopeError as error:
            log.info("%s is added later: %s", path, error)
            return False
        file = former or WatchedFile(0, 0, "", 0.0)
        file = replace(file, size=status.st_size, mtime_ns=status.st_mtime_ns, error="")
        if progress.stage == "failed":
            if self._cancel.is_set():  # e.g. while settings are changed
                return False
            file = replace(file, error=progress.message)
        elif progress.document_id != file.document:
            document = self._documents().get(progress.document_id)
            owned = {each.added_at for each in self._files.values() if each.document == progress.document_id}
            is_added = document is not None and (not progress.unchanged or document.added_at in owned)
            if file.added_at and not file.replaces:
                file = replace(file, replaces=file.document, replaces_added_at=file.added_at)
            added_at = document.added_at if document and is_added else 0.0
            if document and is_added and not file.replaces:
                self._log.add(Change(str(path), "added", document.id, document.name))
            file = replace(file, document=progress.document_id, added_at=added_at)
        self._save({**self._files, str(path): file})
        return True

    def _delete_replaced(self) -> None:
        """Delete the documents of former contents; the new ones are in their collections and have their names."""
        for key, file in list(self._files.items()):
            if not file.replaces:
                continue
            documents, used = self._documents(), {each.document for each in self._files.values()}
            old, new = documents.get(file.replaces), documents.get(file.document)
            try:
                if old and old.added_at == file.replaces_added_at and old.id not in used:
                    if new:
                        self._keep(key, old, new)
                    for collection in old.collections if new else ():
                        self.backend.library.add_to_collection([file.document], collection)
                    self.backend.delete(old.id)
                    if new and file.added_at:
                        self.backend.library.rename(new.id, old.name)
            except KVScopeError as error:  # the next scan tries again
                log.warning("the former version of %s: %s", key, error)
                continue
            self._save({**self._files, key: replace(file, replaces="", replaces_added_at=0.0)})

    def _keep(self, path: str, old: Document, new: Document) -> None:
        """Copy a document that is about to be replaced, and add this to the log. Raises KVScopeError."""
        self.backend.library.copy(old.id, self._log.copy(old.id))
        change = Change(path, "replaced", new.id, old.name, old.id, old.added_at, new.name)
        last = next((each for each in reversed(self._log.changes) if each.path == path), None)
        if last is None or (last.document, last.replaced) != (new.id, old.id):  # else the last try was interrupted
            self._log.add(change)

    def _find_deleted(self, found: Collection[str]) -> None:
        """Note which files are gone; forget those without a document of theirs, and those whose document is used."""
        existing = self._documents()
        present = {file.document for key, file in self._files.items() if key in found}
        available = [folder for folder in self.folders if folder not in self._missing]
        absent = [key for key in self._files if key not in found and any(map(Path(key).is_relative_to, available))]

        def has_own_document(file: WatchedFile) -> bool:
            document = existing.get(file.document)
            return document is not None and document.added_at == file.added_at and document.id not in present

        self._gone = [key for key in absent if has_own_document(self._files[key])]
        if forgotten := {*absent} - {*self._gone}:
            self._save({key: file for key, file in self._files.items() if key not in forgotten})

    def _save(self, files: dict[str, WatchedFile]) -> None:
        self._files = files
        data = json.dumps({key: asdict(file) for key, file in files.items()}, indent=1)
        try:
            write_atomic(self.data / FILE_NAME, data.encode())
        except OSError as error:  # the next start looks at the file again
            log.warning("%s cannot be written: %s", FILE_NAME, error)


def _describe(name: str, error: str) -> str:
    return error if name in error else f"{name}: {error}"


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _files_in(folder: Path) -> tuple[dict[str, os.stat_result], bool]:
    """Return the files of a folder that may be documents, by path, and whether all of it could be read.

    Hidden files, links, pipes and devices are left out.
    """
    errors: list[OSError] = []
    files = {}
    for parent, folders, names in os.walk(folder, onerror=errors.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if path.suffix.lower() in SUFFIXES and not name.startswith((".", "~$")):
                status = _stat(path)
                if status and stat.S_ISREG(status.st_mode):
                    files[str(path)] = status
    return files, folder.is_dir() and not errors
