"""Originals of PDF files: kept while their document is in the library, and no longer."""

import errno

import pytest

from store.errors import NoSuchDocument
from tests.support.files import pdf

TEXT = "The spare key to the boathouse hangs behind the clock."
DATA = pdf("An introduction to the harbour.", TEXT)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "library" / "originals"


def add(library, path):
    *_, last = library.add(path, path.name)
    return last.document


def files_with(content, folder):
    return [path for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


def test_pages_of_a_pdf_can_be_shown_until_it_is_deleted(open_library, file_of, folder, tmp_path):
    library = open_library()
    document = add(library, file_of(DATA, "harbour.pdf"))
    text = add(library, file_of(TEXT, "harbour.txt"))
    assert library.has_pages(document.id) and not library.has_pages(text.id)
    chunk = library.chunks(document.id)[-1]
    library = open_library()
    assert library.page_picture(chunk.id, 2, "The spare key").startswith(b"\x89PNG")
    assert library.page_picture(chunk.id, 0, "") is None and library.page_picture(chunk.id, 3, "") is None
    library.delete(document.id)
    assert list(folder.iterdir()) == [] and files_with(DATA[-200:], tmp_path / "library") == []
    with pytest.raises(NoSuchDocument):
        library.page_picture(chunk.id, 2, "")


@pytest.mark.parametrize("name", ["../../outside", "{folder}/outside", "outside\0", ""])
def test_only_ids_name_files_whatever_a_client_sends(open_library, file_of, tmp_path, name):
    library, outside = open_library(), tmp_path / "outside.pdf"
    add(library, file_of(DATA, "harbour.pdf"))
    outside.write_bytes(DATA)
    document_id = name.format(folder=tmp_path)
    assert library.delete(document_id) == [] and not library.has_pages(document_id)
    assert outside.read_bytes() == DATA and len(library.documents()) == 1


def test_the_file_of_a_document_that_is_deleted_at_once_is_not_kept(open_library, file_of, folder, monkeypatch):
    library = open_library()
    put = library._originals.put
    monkeypatch.setattr(library._originals, "put", lambda key, data: (library.delete(key), put(key, data)))
    add(library, file_of(DATA, "harbour.pdf"))
    assert library.documents() == [] and list(folder.iterdir()) == []


def test_what_a_kill_has_left_is_deleted_at_the_next_start(open_library, file_of, folder):
    library = open_library()
    document = add(library, file_of(DATA, "harbour.pdf"))
    (folder / f"{'0' * 64}.pdf").write_bytes(DATA)
    (folder / f"{document.id}.pdf.draft").write_bytes(DATA[:99])
    open_library()
    assert [path.name for path in folder.iterdir()] == [f"{document.id}.pdf"]


def test_a_damaged_or_lost_original_costs_only_the_picture(open_library, file_of, folder):
    library = open_library()
    document = add(library, file_of(DATA, "harbour.pdf"))
    (path,) = folder.iterdir()
    path.write_bytes(DATA.replace(b"clock", b"stove"))
    (chunk, *_) = library.chunks(document.id)
    assert library.page_picture(chunk.id, 1, "") is None
    path.unlink()
    assert library.page_picture(chunk.id, 1, "") is None and not library.has_pages(document.id)
    assert TEXT in library.chunks(document.id)[-1].text


def test_a_full_disk_costs_only_the_picture(open_library, file_of, folder, monkeypatch, caplog):
    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("store.originals.write_atomic", full)
    library = open_library()
    document = add(library, file_of(DATA, "harbour.pdf"))
    assert [each.id for each in library.documents()] == [document.id] and not library.has_pages(document.id)
    assert "No space left" in caplog.text
