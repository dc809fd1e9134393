"""The index of the blobs on disk: length, checksum and owner's note of each, in a SQLite table.

The index belongs to a cache. If it is unreadable or of another version it is recreated empty, and its blobs are lost.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from store.disk_full import is_disk_full

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS blobs"
    "(key TEXT PRIMARY KEY, size_bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, note TEXT NOT NULL)"
)
COLUMNS = "key, size_bytes, sha256, note"


@dataclass(frozen=True, slots=True)
class BlobRow:
    key: str
    size_bytes: int  # of the file
    sha256: str  # of the file, hex
    note: str = ""


class BlobIndex:
    """The SQLite table. Not thread-safe; every change is one transaction."""

    def __init__(self, path: Path) -> None:
        try:
            self._connection = _connect(path)
        except sqlite3.DatabaseError as error:
            if is_disk_full(error):
                raise
            for part in path.parent.glob(f"{path.name}*"):
                part.unlink()
            self._connection = _connect(path)

    @property
    def size_bytes(self) -> int:
        (total,) = self._connection.execute("SELECT coalesce(sum(size_bytes), 0) FROM blobs").fetchone()
        return total

    def rows(self) -> list[BlobRow]:
        return [BlobRow(*row) for row in self._connection.execute(f"SELECT {COLUMNS} FROM blobs")]

    def row(self, key: str) -> BlobRow | None:
        values = self._connection.execute(f"SELECT {COLUMNS} FROM blobs WHERE key = ?", (key,)).fetchone()
        return BlobRow(*values) if values else None

    def put(self, row: BlobRow) -> None:
        """Insert or replace a key's row."""
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?)", (row.key, row.size_bytes, row.sha256, row.note)
            )

    def annotate(self, notes: dict[str, str]) -> None:
        """Replace the notes of existing rows."""
        with self._connection:
            self._connection.executemany(
                "UPDATE blobs SET note = ? WHERE key = ?", ((note, key) for key, note in notes.items())
            )

    def delete(self, row: BlobRow) -> None:
        """Delete exactly this row, not a newer one with another checksum under the same key."""
        with self._connection:
            self._connection.execute("DELETE FROM blobs WHERE key = ? AND sha256 = ?", (row.key, row.sha256))

    def close(self) -> None:
        self._connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # no fsync per change; a lost row is a miss
        connection.execute(SCHEMA)
        connection.execute(f"SELECT {COLUMNS} FROM blobs LIMIT 1")
    except BaseException:
        connection.close()
        raise
    return connection
