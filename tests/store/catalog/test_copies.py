"""Copies of the library's database: made without files elsewhere, and while the library is used."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

from store.catalog.catalog import Catalog
from store.catalog.copies import copies_of
from store.catalog.schema import open_database, seal
from store.catalog.stored import documents_in

COPY = """
import sys
from pathlib import Path
from store.catalog.copies import make_copy
make_copy(Path(sys.argv[1]))
"""
QUERIES = (
    "PRAGMA user_version",
    "SELECT sql FROM sqlite_master WHERE name IN ('documents', 'chunks', 'chunks_of_document') ORDER BY name",
)


def test_a_large_copy_needs_no_temporary_file_elsewhere(tmp_path):
    folder, temporary = tmp_path / "library", tmp_path / "temporary"
    catalog = Catalog(folder)
    texts = {number: f"{number} " * 2000 for number in range(900)}
    with catalog._connection as database:
        for number, text in texts.items():
            database.execute(
                "INSERT INTO chunks (id, document_id, number, start, end, text) VALUES (?, 'a', ?, 0, 0, ?)",
                (f"a-{number}", number, text),
            )
        database.execute(
            "INSERT INTO documents (id, name, size_bytes, chunks, added_at, passages, pending) "
            "VALUES ('a', 'a.txt', 1, 900, 0, 0, 0)"
        )
        seal(database, "a")
    temporary.mkdir()
    os.utime(temporary, (0, 0))
    environment = os.environ | {"SQLITE_TMPDIR": str(temporary), "TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", COPY, str(folder)], env=environment, check=True)
    assert temporary.stat().st_mtime == 0  # no file was created in it, and deleted
    (path,) = copies_of(folder)
    with closing(open_database(path)) as copy:
        for query in QUERIES:
            assert copy.execute(query).fetchall() == catalog._connection.execute(query).fetchall() != []
        copy.row_factory = sqlite3.Row
        (stored,) = documents_in(copy)
    assert stored.is_whole and [chunk["text"] for chunk in stored.chunks] == [*texts.values()]
    assert list((folder / "copies").iterdir()) == [path]
    catalog.close()
