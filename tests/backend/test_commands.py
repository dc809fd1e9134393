"""The commands export a library, while it is in use, and import it elsewhere."""

import json
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from app import main
from backend.runtime.commands import run_command
from backend.runtime.settings import Settings
from tests.backend.conftest import filled


def audit_entries(data):
    """Return the entries of the command line."""
    entries = map(json.loads, (data / "audit" / "audit.log").read_text().splitlines())
    return [each for each in entries if each["client"] == "command line"]


def audit_of(data):
    """Return what the command line did, with which outcome, to which file and how many documents."""
    return [(each["action"], each["outcome"], each.get("name", ""), each.get("added")) for each in audit_entries(data)]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_an_export_that_fails_leaves_no_part_and_no_other_file_is_deleted(tmp_path, monkeypatch, error):
    settings = Settings(data=tmp_path, export_file=tmp_path / "export.zip")

    def write_a_part(data, file):
        file.write(b"PK")
        raise error

    def run():
        with suppress(KeyboardInterrupt):
            assert run_command(settings) == 1

    monkeypatch.setattr("backend.runtime.commands.export_library", write_a_part)
    run()
    assert not settings.export_file.exists()
    settings.export_file.write_bytes(b"another's")
    monkeypatch.setattr(Path, "open", Mock(side_effect=error))  # before anything was created
    run()
    monkeypatch.undo()
    assert settings.export_file.read_bytes() == b"another's"


def test_repairs_and_clearing_the_cache_are_recorded_and_a_check_is_not(tmp_path, monkeypatch):
    (tmp_path / "preferences.json").write_text("damaged")
    for command in ("check", "repair", "clear_cache"):
        run_command(Settings(data=tmp_path, **{command: True}))
    monkeypatch.setattr("backend.runtime.commands.remove_all", lambda folder: (0, 1))
    run_command(Settings(data=tmp_path, clear_cache=True))
    found = [(each["action"], each["outcome"], each.get("problems")) for each in audit_entries(tmp_path)]
    assert found == [("repair", "ok", 1), ("clear-cache", "ok", None), ("clear-cache", "failed", None)]


def test_a_library_is_exported_and_imported_by_commands(start, tmp_path, monkeypatch, caplog):
    new, export = tmp_path / "new", tmp_path / "export.zip"
    backend = filled(start(), tmp_path)

    def run(data, *flags):
        monkeypatch.setattr("sys.argv", ["app.py", "--data", str(data), *map(str, flags)])
        with caplog.at_level("INFO"):
            return main()

    data = backend.loader.settings.data
    assert run(data, "--export", export) == 0 and f"Documents exported to {export}: 1" in caplog.text
    assert run(data, "--export", export) == 1 and "Choose another file" in caplog.text
    backend.close()
    assert run(new, "--import", export) == 0 and "Documents added: 1" in caplog.text
    assert run(new, "--check") == 0 and "No damage was found" in caplog.text
    assert run(new, "--import", tmp_path / "boats.txt") == 1 and "is not a KVScope export" in caplog.text
    assert run(new, "--import", export, "--no-audit") == 0
    exports = [("export", "ok", "", None), ("export", "failed", "", None)]
    imports = [("import", "ok", "export.zip", 1), ("import", "failed", "boats.txt", None)]
    assert audit_of(data) == exports and audit_of(new) == imports
    caplog.clear()
    assert run(data, "--export", tmp_path / "front.zip", "--library", "http://127.0.0.1:7870") == 1
    assert "library server's --data" in caplog.text and not (tmp_path / "front.zip").exists()
    data.rename(tmp_path / "old")
    new.rename(data)
    assert [document.name for document in start().documents()] == ["boats.txt"]
