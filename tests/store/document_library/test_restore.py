"""A copy of a document, restored after the document was deleted, answers as before."""

from dataclasses import replace

import pytest

from store.catalog.transfer import ImportFailed
from store.errors import LibraryFull, NoSuchDocument
from store.limits import DEFAULT_LIMITS
from tests.store.conftest import search
from tests.store.document_library.test_library import add
from tests.support.files import pdf


@pytest.fixture
def copied(open_library, file_of, tmp_path):
    """A library with a PDF file in a collection, a copy of it, and what the library had of it."""
    library = open_library()
    path = tmp_path / "birds.pdf"
    path.write_bytes(pdf("The heron waits in the reeds.", "The kingfisher dives."))
    document = add(library, path, "birds.pdf")[-1].document
    add(library, file_of("Granite is hard.", "rocks.txt"))
    library.add_to_collection([document.id], "Nature")
    list(library.reindex(document.id))
    copy = tmp_path / "copy.zip"
    copy.write_bytes(library.copy(document.id))
    (document,) = [each for each in library.documents() if each.id == document.id]
    return library, copy, document, library.chunks(document.id), search(library, "heron", 3)


def test_the_restored_document_is_the_one_that_was_deleted(copied, open_library):
    library, copy, document, chunks, hits = copied
    library.delete(document.id)
    assert len(library.documents()) == 1 and not library.has_pages(document.id)
    library.restore(copy)
    list(library.embed_missing())
    assert document in library.documents() and len(library.documents()) == 2
    assert library.chunks(document.id) == chunks and search(library, "heron", 3) == hits
    assert library.has_pages(document.id) and library.page_picture(chunks[0].id, 1, "heron")
    library.restore(copy)  # again: nothing changes
    assert len(library.documents()) == 2
    library.close()
    assert open_library().notice == "" and document in open_library().documents()


def test_a_copy_that_is_restored_while_its_file_is_added_is_the_document(copied, tmp_path):
    library, copy, document, chunks, _ = copied
    library.delete(document.id)
    steps = library.add(tmp_path / "birds.pdf", "again.pdf")
    assert next(steps).stage == "parsed"
    library.restore(copy)
    *_, last = steps
    assert last.unchanged and last.document == document and "already in the library as birds.pdf" in last.warning
    assert library.chunks(document.id) == chunks and not library._claimed
    list(library.embed_missing())
    assert not library.documents_without_vectors()


def test_a_copy_has_no_other_document_and_no_settings(copied, tmp_path, open_library):
    _, copy, document, _, _ = copied
    other = open_library(folder="other/library")
    other.restore(copy)
    assert other.documents() == [document]
    assert not list((tmp_path / "other").glob("*.json"))


def test_a_damaged_copy_or_a_full_library_changes_nothing(copied, open_library):
    library, copy, document, _, _ = copied
    with pytest.raises(NoSuchDocument):
        library.copy("0" * 64)
    library.delete(document.id)
    whole = copy.read_bytes()
    copy.write_bytes(whole[:-300])
    with pytest.raises(ImportFailed):
        library.restore(copy)
    copy.write_bytes(whole)
    full = open_library(limits=replace(DEFAULT_LIMITS, max_documents=1))
    with pytest.raises(LibraryFull):
        full.restore(copy)
    assert len(full.documents()) == 1
