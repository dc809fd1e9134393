"""Copies of the library's database: made without files elsewhere, and while the library is used."""

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from threading import Event

import pytest

from store.catalog.catalog import Catalog
from store.catalog.copies import _copy_tables, copies_of
from store.catalog.schema import open_database, seal
from store.catalog.stored import documents_in
from tests.store.conftest import search

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


@pytest.fixture
def copying(open_library, file_of, tmp_path, monkeypatch):
    """A library that is being copied while a second document is added; the event lets the copy go on."""
    library, begun, go_on = open_library(), Event(), Event()
    list(library.add(file_of("xylophonquartz " * 50, "secret.txt"), "secret.txt"))
    for path in copies_of(tmp_path / "library"):
        path.unlink()

    def copy_slowly(target):
        _copy_tables(target)
        begun.set()
        assert go_on.wait(30)

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr("store.catalog.copies._copy_tables", copy_slowly)
        pool.submit(list, library.add(file_of("The heron waits.", "birds.txt"), "birds.txt"))
        assert begun.wait(30)
        yield library, pool, go_on
        go_on.set()


def test_a_library_is_used_while_it_is_copied_and_what_is_deleted_then_is_in_no_copy(copying, tmp_path):
    library, pool, go_on = copying
    birds, secret = library.documents()
    assert search(library, "heron", 1)[0].chunk.document_id == birds.id
    deleting = pool.submit(library.delete, secret.id)
    wait([deleting], timeout=0.3)
    go_on.set()
    deleting.result(30)
    assert copies_of(tmp_path / "library") and library.documents() == [birds]
    files = [path for path in (tmp_path / "library").rglob("*") if path.is_file()]
    assert not any(b"xylophonquartz" in path.read_bytes() for path in files)


def test_closing_waits_for_a_copy(copying, tmp_path):
    library, pool, go_on = copying
    closing_library = pool.submit(library.close)
    assert wait([closing_library], timeout=0.3).not_done
    go_on.set()
    closing_library.result(30)
    assert len(copies_of(tmp_path / "library")) == 1
