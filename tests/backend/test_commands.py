"""The commands export a library, while it is in use, and import it elsewhere."""

from threading import Event

from app import main
from tests.support.doubles import TEXTS


def test_a_library_is_exported_and_imported_by_commands(start, tmp_path, monkeypatch, caplog):
    text, new, export = tmp_path / "boats.txt", tmp_path / "new", tmp_path / "export.zip"
    text.write_text("\n\n".join(TEXTS.values()))
    backend = start()
    list(backend.ingest([(text, text.name)], Event()))

    def run(data, *flags):
        monkeypatch.setattr("sys.argv", ["app.py", "--data", str(data), *map(str, flags)])
        with caplog.at_level("INFO"):
            return main()

    data = backend.loader.settings.data
    assert run(data, "--export", export) == 0 and f"exported to {export}" in caplog.text
    assert run(data, "--export", export) == 1 and "Choose another file" in caplog.text
    backend.close()
    assert run(new, "--import", export) == 0 and "1 documents added" in caplog.text
    assert run(new, "--check") == 0 and "No damage was found" in caplog.text
    assert run(new, "--import", text) == 1 and "is no export" in caplog.text
    data.rename(tmp_path / "old")
    new.rename(data)
    assert [document.name for document in start().documents()] == ["boats.txt"]
