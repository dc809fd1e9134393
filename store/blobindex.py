"""Which blobs there are, how long, with which checksum, and which was used last: a SQLite table.

Order of use is a counter and not a clock, so it survives a clock that is set back. The index describes a cache: one
that cannot be read is started anew, and the blobs it described are then lost, not guessed.
"""

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from store.room import is_full

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS blobs"
    "(key TEXT PRIMARY KEY, size_bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, used INTEGER NOT NULL)"
)
COLUMNS = "key, size_bytes, sha256"


@dataclass(frozen=True, slots=True)
class BlobRow:
    key: str
    size_bytes: int  # of the file
    sha256: str  # of the file, hex


class BlobIndex:
    """The table. The caller takes care of threads; every change is one transaction."""

    def __init__(self, path: Path) -> None:
        try:
            self._connection = _opened(path)
        except sqlite3.DatabaseError as error:
            if is_full(error):
                raise
            for part in path.parent.glob(f"{path.name}*"):
                part.unlink()
            self._connection = _opened(path)
        (latest,) = self._connection.execute("SELECT max(used) FROM blobs").fetchone()
        self._used = latest or 0

    @property
    def size_bytes(self) -> int:
        (total,) = self._connection.execute("SELECT coalesce(sum(size_bytes), 0) FROM blobs").fetchone()
        return total

    def rows(self) -> list[BlobRow]:
        """Return all rows, least recently used first."""
        return [BlobRow(*row) for row in self._connection.execute(f"SELECT {COLUMNS} FROM blobs ORDER BY used")]

    def row(self, key: str) -> BlobRow | None:
        found = self._connection.execute(f"SELECT {COLUMNS} FROM blobs WHERE key = ?", (key,)).fetchone()
        return BlobRow(*found) if found else None

    def use(self, key: str) -> BlobRow | None:
        """Return a key's row and make it the most recently used."""
        row = self.row(key)
        if row is not None:
            self._used += 1
            with (
                suppress(sqlite3.OperationalError),
                self._connection,
            ):  # on a full disk reading must still work
                self._connection.execute("UPDATE blobs SET used = ? WHERE key = ?", (self._used, key))
        return row

    def put(self, row: BlobRow, limit_bytes: int) -> list[BlobRow]:
        """Set a key's row as the most recently used; return the rows that had to go for the limit, all or nothing."""
        with self._connection:
            self._used += 1
            self._connection.execute(
                "INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?)",
                (row.key, row.size_bytes, row.sha256, self._used),
            )
            return self._shrink(limit_bytes)

    def shrink(self, limit_bytes: int) -> list[BlobRow]:
        """Drop least recently used rows until the sum is within the limit; return them."""
        with self._connection:
            return self._shrink(limit_bytes)

    def delete(self, row: BlobRow) -> None:
        """Drop exactly this row: not one with another checksum under the same key."""
        with self._connection:
            self._connection.execute("DELETE FROM blobs WHERE key = ? AND sha256 = ?", (row.key, row.sha256))

    def close(self) -> None:
        self._connection.close()

    def _shrink(self, limit_bytes: int) -> list[BlobRow]:
        excess = self.size_bytes - limit_bytes
        gone = []
        if excess > 0:
            for row in self.rows():
                if excess <= 0:
                    break
                excess -= row.size_bytes
                gone.append(row)
        self._connection.executemany("DELETE FROM blobs WHERE key = ?", ((row.key,) for row in gone))
        return gone


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # no fsync per use; a lost row is a miss
        connection.execute(SCHEMA)
        connection.execute(f"SELECT {COLUMNS}, used FROM blobs LIMIT 1")
    except BaseException:
        connection.close()
        raise
    return connection
