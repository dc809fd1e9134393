"""The number of documents in a library is limited, by adding and by importing."""

import pytest

from store.catalog.catalog import Catalog
from store.catalog.transfer import export_library
from store.errors import LibraryFull
from store.limits import Limits
from tests.store.conftest import SMALL

TWO = Limits(max_documents=2)


def add(library, path):
    return list(library.add(path, path.name))


def test_no_more_documents_are_added_than_the_limit_says(open_library, file_of):
    library = open_library(limits=TWO)
    one, two, three = (file_of(f"The {bird} waits.", f"{bird}.txt") for bird in ("heron", "tern", "gull"))
    add(library, one)
    running = library.add(two, two.name)
    next(running)  # it is counted, too
    with pytest.raises(LibraryFull, match=r"2 documents \(--max-documents\).*Delete documents"):
        add(library, three)
    list(running)
    assert "already" in add(library, one)[-1].warning
    assert list(library.reindex(library.documents()[0].id))[-1].stage == "indexed"
    library.delete(library.documents()[0].id)
    assert add(library, three)[-1].document


def test_a_library_above_the_limit_opens_and_keeps_its_documents(open_library, file_of):
    library = open_library()
    for bird in ("heron", "tern", "gull"):
        add(library, file_of(f"The {bird} waits.", f"{bird}.txt"))
    assert len(open_library(chunking=SMALL, limits=TWO).documents()) == 3


def test_an_import_above_the_limit_changes_nothing(open_library, file_of, tmp_path):
    library = open_library()
    for bird in ("heron", "tern", "gull"):
        add(library, file_of(f"The {bird} waits.", f"{bird}.txt"))
    with (tmp_path / "export.zip").open("wb") as file:
        export_library(tmp_path, file)
    catalog = Catalog(tmp_path / "new" / "library")
    with pytest.raises(LibraryFull):
        catalog.import_from(tmp_path / "export.zip", TWO)
    assert catalog.documents() == []
    assert catalog.import_from(tmp_path / "export.zip", Limits(max_documents=3)).added == 3
    catalog.close()
