"""Settings of collections are kept in the data folder as long as the collection has documents."""

from store.preferences import COLLECTIONS
from tests.backend.conftest import filled


def test_settings_last_until_their_collection_has_no_documents(start, tmp_path):
    backend = filled(start(), tmp_path)
    library, path = backend.library, backend.loader.settings.data / COLLECTIONS
    (document,) = backend.documents()
    library.remember_settings("Boats", {"method": "full"})  # there is no such collection
    assert library.collection_settings("Boats") == {} and not path.exists()
    for name in ("Boats", "Other"):
        library.add_to_collection([document.id], name)
        library.remember_settings(name, {"method": "full"})
    backend.close()
    backend = start()
    library = backend.library
    assert library.collection_settings("Boats") == {"method": "full"}
    library.remove_from_collection([document.id], "Boats")
    assert library.collection_settings("Boats") == {} and library.collection_settings("Other")
    backend.delete(document.id)
    assert path.read_text() == "{}\n"


def test_a_damaged_file_is_kept_and_replaced(start, tmp_path):
    backend = filled(start(), tmp_path)
    library, path = backend.library, backend.loader.settings.data / COLLECTIONS
    path.write_text('{"Boats": {"method"')
    library.add_to_collection([backend.documents()[0].id], "Boats")
    assert library.collection_settings("Boats") == {}
    library.remember_settings("Boats", {"method": "epic"})
    assert library.collection_settings("Boats") == {"method": "epic"}
    assert len(list(path.parent.glob("collections.json*"))) == 2
