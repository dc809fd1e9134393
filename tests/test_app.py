"""Starting the app: ports in use and failed starts are reported with a message."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from threading import Event, Timer

import pytest

from app import _url, main
from backend.local import LocalBackend
from backend.runtime.settings import Settings
from engine.errors import LoadingFailed
from engine.request import Request
from store.lock import FolderLock
from tests.support.ports import free_port
from tests.support.victim import ROOT
from tests.test_temporary_files import APP


@pytest.fixture(autouse=True)
def _same_umask():
    """Undo what `main` changes in this process."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_port_in_use_is_reported_before_the_libraries_are_loaded(tmp_path, monkeypatch, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["app.py", "--data", str(tmp_path), "--port", str(port)])
        assert main() == 1
    assert f"Port {port} of 127.0.0.1 is not available" in caplog.text and "--port" in caplog.text


def test_the_address_for_a_browser_is_on_this_machine():
    addresses = {"127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]", "[::1]": "[::1]", "nas": "nas"}
    for host, shown in addresses.items():
        assert _url(Settings(host=host, port=7000)) == f"http://{shown}:7000"


def test_starting_imports_nothing_that_takes_seconds():
    code = "import sys, app; print(*{'torch', 'gradio', 'chromadb', 'transformers'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == []


def test_the_cache_of_primitives_is_limited_before_torch_reads_its_size():
    code = "import os, sys, app; print('torch' in sys.modules, os.environ['ONEDNN_PRIMITIVE_CACHE_CAPACITY'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == ["False", "64"]


@pytest.mark.slow
def test_the_running_app_returns_free_memory(tmp_path):
    program = f"import app\napp.release_heap = lambda: print('released', flush=True)\n{APP}"
    command = [sys.executable, "-c", program, "--data", str(tmp_path), "--port", str(free_port())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        limit = Timer(120, process.kill)
        limit.start()
        assert any(line == "released\n" for line in process.stdout)
        process.kill()
        limit.cancel()


def test_a_second_start_on_the_same_data_folder_names_the_first_process(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("sys.argv", ["app.py", "--data", str(tmp_path)])
    with closing(FolderLock(tmp_path)):
        assert main() == 1
    assert f"process {os.getpid()}" in caplog.text


def test_clear_cache_deletes_the_kv_and_nothing_else(tmp_path, monkeypatch, caplog):
    for name in ("kv/a1.safetensors", "library/text"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"0" * 2_000_000)
    monkeypatch.setattr("sys.argv", ["app.py", "--data", str(tmp_path), "--clear-cache"])
    with caplog.at_level("INFO"):
        assert main() == 0
    assert "2 MiB of chunk KV deleted" in caplog.text
    assert not (tmp_path / "kv").exists() and (tmp_path / "library" / "text").exists()
    monkeypatch.setattr("backend.runtime.commands.remove_all", lambda root: (0, 3_000_000))
    assert main() == 1 and f"3 MiB in {tmp_path / 'kv'} could not be deleted" in caplog.text


def test_a_start_without_a_model_names_the_flag_and_closes_cleanly(tmp_path):
    (tmp_path / "empty").mkdir()
    backend = LocalBackend(Settings(data=tmp_path / "data", model=str(tmp_path / "empty")))
    backend.start()
    backend.loader.wait(60)
    assert backend.status().failed and "--model PATH-OR-NAME" in backend.status().message
    with pytest.raises(LoadingFailed, match="Restart KVScope"):
        list(backend.ask(Request("Who?"), Event()))
    assert backend.documents() == []
    backend.close()
