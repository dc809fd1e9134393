"""The audit log: who changed what, and who logged in, as lines of JSON. It has no text of documents or questions.

Two files, so that clients who are not logged in cannot push out the entries of those who are: what they can cause,
refused logins, is in a file of its own. Both are rotated, and the oldest entries are deleted.
"""

import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from filelock import FileLock

from store.names import clean_name

FOLDER = "audit"
ACTIONS, REFUSALS = "audit.log", "refused-logins.log"
MAX_BYTES = 5 * 2**20  # of a file, about 20,000 entries
LOCK = ".lock"
LOCK_TIMEOUT_S = 10.0
NUM_OLD = 9  # older files of each: audit.log.1 is the newest
ID = re.compile("[0-9a-f]{64}")  # of a document; clients can send anything as one
log = logging.getLogger("kvscope")


class AuditLog:
    """The log of one data folder; without one, nothing is recorded.

    A write that fails is reported in the application's log and never raises.
    """

    def __init__(self, data: Path | None) -> None:
        self._folder = data and data / FOLDER
        self._lock = Lock()

    def record(
        self, client: str, action: str, outcome: str, name: str = "", document_id: str = "", **details: str | int
    ) -> None:
        """Write an entry about what a client did, with the document's name and id if it was about one."""
        if self._folder is None:
            return
        entry: dict[str, str | int] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "client": client,
            "action": action,
            "outcome": outcome,
        }
        if name:
            entry["name"] = clean_name(name)
        if ID.fullmatch(str(document_id)):
            entry["document"] = document_id
        line = json.dumps(entry | details).encode() + b"\n"  # ASCII: no character of a name can end the line
        is_refusal = action == "login" and outcome != "ok"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            lock = FileLock(self._folder / LOCK, LOCK_TIMEOUT_S, mode=0o600, fallback_to_soft=False)
            with self._lock, lock:  # the latter excludes commands, which may write at the same time
                _append(self._folder / (REFUSALS if is_refusal else ACTIONS), line)
        except OSError as error:  # also a Timeout
            log.warning("the audit log in %s cannot be written (%s)", self._folder, error.strerror or error)

    @contextmanager
    def recording(
        self, client: str, action: str, name: str = "", document_id: str = ""
    ) -> Iterator[dict[str, str | int]]:
        """Record whether the block succeeds, and the details that it adds to the dictionary.

        Among them can be another `outcome` than 'ok'.
        """
        details = dict[str, str | int]()
        try:
            yield details
        except BaseException:
            self.record(client, action, "failed", name, document_id, **details)
            raise
        outcome = str(details.pop("outcome", "ok"))
        self.record(client, action, outcome, name, document_id, **details)


NO_LOG = AuditLog(None)


def _append(path: Path, line: bytes) -> None:
    """Append a line, whole or not at all. The file is opened each time: another process may have rotated it."""
    if path.exists() and path.stat().st_size + len(line) > MAX_BYTES:
        _rotate(path)
    with open(path, "ab", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        size = file.seek(0, os.SEEK_END)
        if file.write(line) < len(line):  # the disk is full
            with suppress(OSError):
                file.truncate(size)
            raise OSError(0, "the disk is full")


def _rotate(path: Path) -> None:
    """Rename a full file to NAME.1, NAME.1 to NAME.2 and so on; the oldest is overwritten."""
    for number in range(NUM_OLD - 1, -1, -1):
        source = path.with_name(f"{path.name}.{number}") if number else path
        with suppress(FileNotFoundError):
            os.replace(source, path.with_name(f"{path.name}.{number + 1}"))
