"""Damaged files: every document is whole, or reported as lost; the damaged database is kept; the rest works."""

import random
import shutil
import sqlite3
from contextlib import closing

import pytest

from store.catalog.catalog import Catalog
from store.catalog.copies import copies_of
from store.catalog.schema import migrate
from store.errors import NewerLibrary, StoreFull
from store.retrieval.vectors import VectorIndex
from tests.store.conftest import search

TEXTS = {
    "birds.txt": "The heron waits in the reeds. " * 20 + "\n\nThe kingfisher dives.",
    "rocks.txt": "Granite cools slowly under ground. " * 20 + "\n\nBasalt cools quickly.",
}
DATABASE = "library.sqlite3"


def truncate(data, rng):
    return data[: len(data) // 2]


def empty(data, rng):
    return b""


def flip(data, rng):
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite_a_page(data, rng):
    start = rng.randrange(len(data) // 4096 or 1) * 4096
    return data[:start] + rng.randbytes(4096) + data[start + 4096 :]


@pytest.fixture
def filled(open_library, file_of, tmp_path):
    """The folder of a closed library with two documents and a copy of its database."""
    library = open_library()
    for name, text in TEXTS.items():
        list(library.add(file_of(text, name), name))
    library.close()
    open_library().close()  # makes a copy
    return tmp_path / "library"


def texts_of(library):
    """The documents' text by name, whatever their chunks."""
    texts = {}
    for document in library.documents():
        chunks = library.chunks(document.id)
        texts[document.name] = " ".join(dict.fromkeys(" ".join(chunk.text for chunk in chunks).split()))
    return texts


WHOLE = {name: " ".join(dict.fromkeys(text.split())) for name, text in TEXTS.items()}


def names_of(folder):
    return sorted(path.name for path in folder.glob(f"{DATABASE}.damaged-*"))


def check(library, folder, damaged=None):
    """Check that what is there is whole, and that the user is told about everything else."""
    found = texts_of(library)
    assert found == {name: WHOLE[name] for name in found}
    if len(found) < len(WHOLE):
        assert "add" in library.notice
    if library.notice and damaged is not None:
        (aside,) = names_of(folder)
        assert (folder / aside).read_bytes() == damaged and aside in library.notice
    list(library.embed_missing())
    if "birds.txt" in found:
        assert search(library, "kingfisher", 1)[0].chunk.document_name == "birds.txt"
    assert not library.documents_without_vectors()


@pytest.mark.parametrize("damage", [truncate, empty, flip, overwrite_a_page])
@pytest.mark.parametrize("with_copy", [True, False])
@pytest.mark.parametrize("seed", range(1))
def test_a_damaged_database_is_rebuilt_and_kept(open_library, filled, damage, with_copy, seed):
    path = filled / DATABASE
    damaged = damage(path.read_bytes(), random.Random(seed))
    path.write_bytes(damaged)
    if not with_copy:
        shutil.rmtree(filled / "copies")
    library = open_library()
    check(library, filled, damaged)
    if with_copy:
        assert texts_of(library) == WHOLE
    before = texts_of(library)
    library.close()
    assert texts_of(open_library()) == before  # the rebuilt one is sound
    assert not open_library().notice


def test_a_missing_database_next_to_vectors_is_no_new_library(open_library, filled):
    (filled / DATABASE).unlink()
    library = open_library()
    assert "was missing" in library.notice and texts_of(library) == WHOLE
    check(library, filled)


def test_without_database_and_copies_the_loss_is_reported(open_library, filled):
    (filled / DATABASE).unlink()
    shutil.rmtree(filled / "copies")
    library = open_library()
    assert library.documents() == [] and "add your documents again" in library.notice
    assert "In all, up to 2 documents are lost" in library.notice


def test_a_database_whose_tables_were_lost_with_its_log_is_damaged(open_library, filled):
    (filled / DATABASE).unlink()
    with closing(sqlite3.connect(filled / DATABASE)) as database:
        database.execute("PRAGMA journal_mode = WAL")
    library = open_library()
    check(library, filled)
    assert texts_of(library) == WHOLE and "was damaged" in library.notice


def test_a_database_with_a_version_and_no_tables_is_damaged(open_library, tmp_path):
    (tmp_path / "library").mkdir()
    with closing(sqlite3.connect(tmp_path / "library" / DATABASE)) as database:
        database.execute("PRAGMA user_version = 2")
    library = open_library()
    assert library.documents() == [] and "was damaged" in library.notice


def test_a_complete_document_does_not_depend_on_the_log(open_library, file_of, tmp_path):
    library = open_library()
    list(library.add(file_of(TEXTS["birds.txt"], "birds.txt"), "birds.txt"))
    with closing(sqlite3.connect(f"file:{tmp_path}/library/{DATABASE}?mode=ro&immutable=1", uri=True)) as database:
        assert database.execute("SELECT name FROM documents WHERE NOT pending").fetchall() == [("birds.txt",)]


def test_a_new_library_has_no_notice(open_library):
    assert open_library().notice == ""


@pytest.mark.parametrize("damage", [truncate, empty, flip, overwrite_a_page])
def test_a_damaged_copy_does_no_harm(open_library, filled, damage):
    for copy in copies_of(filled):
        copy.write_bytes(damage(copy.read_bytes(), random.Random(0)))
    assert texts_of(open_library()) == WHOLE
    (filled / DATABASE).unlink()
    check(open_library(), filled)


@pytest.mark.parametrize("damage", [truncate, empty, flip, overwrite_a_page])
def test_damaged_vectors_are_computed_again(open_library, filled, damage):
    for path in sorted(each for each in (filled / "vectors").rglob("*") if each.is_file()):
        if path.exists() and (data := path.read_bytes()):  # else deleted with a damaged index
            path.write_bytes(damage(data, random.Random(1)))
            library = open_library()
            assert texts_of(library) == WHOLE
            check(library, filled)
            library.close()


def test_all_documents_are_looked_at_once_to_find_missing_vectors(open_library, filled, monkeypatch):
    shutil.rmtree(filled / "vectors")
    library, counts, count = open_library(), [], VectorIndex.segment_counts
    monkeypatch.setattr(VectorIndex, "segment_counts", lambda index: counts.append(1) or count(index))
    list(library.embed_missing())
    assert len(counts) == 1 < len(library.documents()) and not library.documents_without_vectors()


def test_a_folder_that_ended_the_process_while_it_was_opened_is_not_opened_again(open_library, filled):
    for failed, num_missing in ((1, 0), (2, 2)):  # one may be a kill
        (filled / "vectors.opening").write_text(str(failed))
        library = open_library()
        assert len(library.documents_without_vectors()) == num_missing and texts_of(library) == WHOLE
        assert not (filled / "vectors.opening").exists()
    check(library, filled)


def test_a_document_whose_text_has_changed_comes_from_the_copy(open_library, filled):
    with closing(sqlite3.connect(filled / DATABASE)) as database, database:
        database.execute("UPDATE chunks SET text = replace(text, 'kingfisher', 'kingfishes')")
    library = open_library()
    assert texts_of(library) == WHOLE and "2 documents were restored" in library.notice


def test_documents_lost_with_the_end_of_the_log_are_restored(open_library, filled):
    """A damaged log ends early without an error: what it held is known from the vectors only."""
    with closing(sqlite3.connect(filled / DATABASE)) as database, database:
        (lost,) = database.execute("SELECT id FROM documents WHERE name = 'rocks.txt'").fetchone()
        for table, column in (("documents", "id"), ("chunks", "document_id")):
            database.execute(f"DELETE FROM {table} WHERE {column} = ?", (lost,))
        database.execute("DELETE FROM words")
        database.execute("INSERT INTO words (rowid, chunk, body) SELECT row, id, text FROM chunks")
    library = open_library()
    assert texts_of(library) == WHOLE and "1 were restored" in library.notice
    check(library, filled)


def test_a_library_of_a_newer_version_is_refused_unchanged(open_library, filled):
    with closing(sqlite3.connect(filled / DATABASE)) as database:
        database.execute("PRAGMA user_version = 99")
    before = (filled / DATABASE).read_bytes()
    with pytest.raises(NewerLibrary, match=r"format 99.*Update KVScope"):
        open_library()
    assert (filled / DATABASE).read_bytes() == before


def test_a_full_disk_while_rebuilding_leaves_the_damaged_database(open_library, file_of, filled, monkeypatch):
    library = open_library()
    long = " ".join(f"word{number}" for number in range(2500))
    list(library.add(file_of(long, "long.txt"), "long.txt"))
    library.close()
    path = filled / DATABASE
    path.write_bytes(truncate(path.read_bytes(), random.Random(0)))
    damaged = path.read_bytes()

    def migrate_on_a_full_disk(connection):
        migrate(connection)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 5}")

    with monkeypatch.context() as patch:
        patch.setattr("store.catalog.recovery.migrate", migrate_on_a_full_disk)
        with pytest.raises(StoreFull):
            open_library()
    assert path.read_bytes() == damaged
    assert {document.name for document in open_library().documents()} == {*TEXTS, "long.txt"}


def test_a_document_whose_deletion_was_interrupted_does_not_come_back(open_library, filled, monkeypatch):
    library = open_library()
    (birds,) = (document for document in library.documents() if document.name == "birds.txt")
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "delete_pending", lambda self, owner: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            library.delete(birds.id)
    library.close()
    open_library().close()  # completes it
    (filled / DATABASE).write_bytes(b"damaged" * 1000)
    assert [document.name for document in open_library().documents()] == ["rocks.txt"]


def test_what_a_killed_process_left_of_copies_is_deleted(open_library, filled):
    leftovers = [
        filled / "copies" / "library.draft",
        filled / ".reading-1" / "x",
        filled / "copies" / ".reading-2" / "x",
    ]
    leftovers.append(filled / "copies" / "library-20260101-000000-000-12345678.sqlite3-wal")
    for path in leftovers:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"text")
    library = open_library()
    assert not any(path.exists() for path in leftovers)
    assert texts_of(library) == WHOLE


def test_a_damaged_library_of_a_newer_version_is_refused_too(open_library, filled):
    with closing(sqlite3.connect(filled / DATABASE)) as database:
        database.execute("PRAGMA user_version = 99")
    path = filled / DATABASE
    damaged = path.read_bytes()[:8192] + b"damaged" * 2000
    path.write_bytes(damaged)
    with pytest.raises(NewerLibrary):
        open_library()
    assert path.read_bytes() == damaged


def test_deleted_text_is_in_no_file(open_library, file_of, tmp_path):
    marker = "xylophonquartz"
    library = open_library()
    list(library.add(file_of(f"{marker} " * 50, "secret.txt"), "secret.txt"))
    list(library.add(file_of(TEXTS["birds.txt"], "birds.txt"), "birds.txt"))
    library.close()
    library = open_library()  # makes a copy
    (secret,) = (document for document in library.documents() if document.name == "secret.txt")
    library.delete(secret.id)
    holding = [
        path for path in (tmp_path / "library").rglob("*") if path.is_file() and marker.encode() in path.read_bytes()
    ]
    assert holding == []
    library.close()
    assert [document.name for document in open_library().documents()] == ["birds.txt"]


def test_copies_are_made_of_changed_libraries_only_and_the_oldest_are_deleted(open_library, file_of, filled):
    first = copies_of(filled)
    open_library().close()
    assert copies_of(filled) == first
    for number in range(4):
        library = open_library()
        list(library.add(file_of(f"Text {number}", f"{number}.txt"), f"{number}.txt"))
        library.close()
        open_library().close()
    copies = copies_of(filled)
    assert len(copies) == 3 and not set(copies) & set(first)
