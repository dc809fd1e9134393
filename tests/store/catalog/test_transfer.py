"""A library exported and imported elsewhere has the same documents; a damaged or hostile file changes nothing."""

import json
import sqlite3
import zipfile
from contextlib import closing

import pytest

from store.catalog.catalog import Catalog
from store.catalog.transfer import ImportFailed, export_library
from store.errors import ExportFailed
from store.preferences import COLLECTIONS, Preferences
from tests.store.conftest import search

TEXTS = {"birds.txt": "The heron waits in the reeds. " * 30, "rocks.txt": "Granite cools slowly. " * 30}
GERMAN = (
    "Die Katze ist auf dem Dach und der Hund liegt nicht mit ihr in der Sonne, sondern im Schatten des Hauses. " * 9
)


@pytest.fixture
def library(open_library, file_of):
    library = open_library()
    for name, text in TEXTS.items():
        list(library.add(file_of(text, name), name))
    return library


@pytest.fixture
def exported(library, tmp_path):
    """An export, made while the library is open."""
    Preferences(tmp_path).write({"eviction_policy": "lru"})
    library.add_to_collection([library.documents()[0].id], "Nature")
    Preferences(tmp_path, COLLECTIONS).write({"Nature": {"method": "full"}})
    path = tmp_path / "export.zip"
    with path.open("wb") as file:
        assert export_library(tmp_path, file) == 2
    return path


def import_into(folder, path):
    with closing(Catalog(folder / "library")) as catalog:
        return catalog.import_from(path), [(each.name, each.id) for each in catalog.documents()]


def rewrite(path, change):
    """Replace each member by `change(name, content)`; None leaves it out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if content is not None:
                archive.writestr(name, content)


def test_another_library_gets_the_documents_and_the_settings(library, exported, tmp_path, open_library):
    result, documents = import_into(tmp_path / "other", exported)
    assert (result.added, result.existing, result.damaged) == (2, 0, [])
    assert sorted(documents) == sorted((each.name, each.id) for each in library.documents())
    assert Preferences(tmp_path / "other").read() == {"eviction_policy": "lru"}
    assert Preferences(tmp_path / "other", COLLECTIONS).read() == {"Nature": {"method": "full"}}
    chunks = {document.id: library.chunks(document.id) for document in library.documents()}
    other = open_library(folder="other/library")
    list(other.embed_missing())
    assert {document.id: other.chunks(document.id) for document in other.documents()} == chunks
    assert [document.collections for document in other.documents()] == [("Nature",), ()]
    assert search(other, "heron reeds", 1)[0].similarity is not None


@pytest.mark.parametrize("stored", ["absent", "<script>"])  # in the exports of earlier versions, and in hostile ones
def test_the_language_of_an_imported_document_is_detected(library, tmp_path, file_of, stored):
    list(library.add(file_of(GERMAN, "tiere.txt"), "tiere.txt"))
    assert library.documents()[0].language == "German"
    path = tmp_path / "export.zip"
    with path.open("wb") as file:
        export_library(tmp_path, file)

    def change(name, content):
        lines = [json.loads(line) for line in content.splitlines()] if name == "documents.jsonl" else []
        for line in lines:
            line["document"].pop("language")
            line["document"] |= {"language": stored} if stored != "absent" else {}
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines) or content

    rewrite(path, change)
    assert import_into(tmp_path / "other", path)[0].added == 3
    with closing(Catalog(tmp_path / "other" / "library")) as catalog:
        assert {each.name: each.language for each in catalog.documents()}["tiere.txt"] == "German"


def test_what_is_there_stays_and_names_are_unique(exported, tmp_path):
    import_into(tmp_path / "other", exported)
    Preferences(tmp_path / "other").write({"eviction_policy": "lfu"})
    result, documents = import_into(tmp_path / "other", exported)
    assert (result.added, result.existing, len(documents)) == (0, 2, 2)
    assert Preferences(tmp_path / "other").read() == {"eviction_policy": "lfu"}


def test_an_export_without_settings_of_collections_as_earlier_versions_wrote_it_is_imported(exported, tmp_path):
    rewrite(exported, lambda name, content: None if name == COLLECTIONS else content)
    Preferences(tmp_path / "other", COLLECTIONS).write({"Nature": {"method": "epic"}})
    assert import_into(tmp_path / "other", exported)[0].added == 2
    assert Preferences(tmp_path / "other", COLLECTIONS).read() == {"Nature": {"method": "epic"}}


def test_a_document_with_changed_text_is_refused_and_the_others_are_added(exported, tmp_path):
    rewrite(exported, lambda name, content: content.replace(b"heron", b"crane"))
    result, documents = import_into(tmp_path / "other", exported)
    assert (result.added, result.damaged) == (1, ["birds.txt"])
    assert [name for name, _ in documents] == ["rocks.txt"]


def test_a_damaged_library_is_not_exported_with_gaps(library, tmp_path):
    library.close()
    with closing(sqlite3.connect(tmp_path / "library" / "library.sqlite3")) as database, database:
        database.execute("UPDATE chunks SET text = 'other' WHERE number = 0")
    with (tmp_path / "export.zip").open("wb") as file, pytest.raises(ExportFailed, match=r"is damaged.*--repair"):
        export_library(tmp_path, file)
    (tmp_path / "library" / "library.sqlite3").write_bytes(b"no database" * 500)
    with (tmp_path / "export.zip").open("wb") as file, pytest.raises(ExportFailed, match="cannot be read"):
        export_library(tmp_path, file)


def other_format(name, content):
    return json.dumps({"format": 99}).encode() if name == "manifest.json" else content


def without_manifest(name, content):
    return None if name == "manifest.json" else content


def torn_line(name, content):
    return content[:-40] if name == "documents.jsonl" else content


def no_objects(name, content):
    return b"[1, 2]\n" if name == "documents.jsonl" else content


def deep(name, content):
    return b"[" * 100_000 if name == "preferences.json" else content


@pytest.mark.parametrize("change", [other_format, without_manifest, no_objects, torn_line, deep])
def test_a_wrong_file_is_refused_and_changes_nothing(exported, tmp_path, change):
    rewrite(exported, change)
    with pytest.raises(ImportFailed, match="nothing was changed"):
        import_into(tmp_path / "other", exported)
    with closing(Catalog(tmp_path / "other" / "library")) as catalog:
        assert catalog.documents() == []


@pytest.mark.parametrize("content", [b"", b"PK no zip", b"text" * 1000])
def test_a_file_that_is_no_archive_is_refused(tmp_path, content):
    path = tmp_path / "export.zip"
    path.write_bytes(content)
    with pytest.raises(ImportFailed, match=r"export\.zip is not a KVScope export"):
        import_into(tmp_path / "other", path)
