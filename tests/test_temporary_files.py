"""The running application with a fake backend: what it creates, who may read it, and what a kill leaves."""

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import httpx
import pytest

from store.data_folder import restrict_access, temporary_folder
from store.lock import FolderLock
from tests.support.ports import free_port

APP = """
import sys
import tempfile
import app

class Local:
    @property
    def LocalBackend(self):
        from tests.support.fake_backend.backend import FakeBackend  # here: it takes seconds

        class Backend(FakeBackend):
            def __init__(self, *configuration):
                super().__init__()
                self.pause_at_stage = "embedded"
            start = lambda self: tempfile.mkstemp()
            close = lambda self: None

        return Backend

sys.modules["backend.local"] = Local()
sys.exit(app.main())
"""
CONTENT = b"The spare key hangs behind the clock."
pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and SIGKILL")


@contextmanager
def running(data, system_temporary, is_up):
    """Run the application until the block ends, then kill it; wait until `is_up(url)`."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "TMPDIR": str(system_temporary)}
    command = [sys.executable, "-c", APP, "--data", str(data), "--port", str(port), "--max-file-mib", "1"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], env=environment) as process:
        try:
            while not is_up(url):
                assert process.poll() is None
                sleep(0.05)
            yield url
        finally:
            os.kill(process.pid, signal.SIGKILL)


def status(url):
    try:
        return httpx.get(url).status_code
    except httpx.TransportError:
        return 0


def files_with(content, *folders):
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if content in path.read_bytes()]


def test_a_killed_application_leaves_no_upload_and_nothing_that_others_can_read(tmp_path):
    data, system_temporary = tmp_path / "data", tmp_path / "system"
    system_temporary.mkdir()
    with running(data, system_temporary, lambda url: status(f"{url}/healthz") == 200) as url:
        for name in ("waits.txt", "is-added.txt"):
            (path,) = httpx.post(f"{url}/gradio_api/upload", files={"files": (name, CONTENT)}).json()
        file = {"path": path, "meta": {"_type": "gradio.FileData"}}
        assert httpx.post(f"{url}/gradio_api/call/add_document", json={"data": [file]}).status_code == 200
        assert len(files_with(CONTENT, data)) == 2 and not list(system_temporary.iterdir())
        assert httpx.get(f"{url}/library.zip").status_code == 200
        assert httpx.post(f"{url}/gradio_api/upload", files={"files": ("b.txt", bytes(2**20 + 1))}).status_code == 413
        (entry,) = map(json.loads, (data / "audit" / "audit.log").read_text().splitlines())
        assert (entry["client"], entry["action"]) == ("127.0.0.1", "export")
        paths = [data, *data.rglob("*")]
        modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in paths}
        assert modes == {(True, 0o700), (False, 0o600)}
    assert len(files_with(CONTENT, data)) == 2
    with running(data, system_temporary, lambda url: status(f"{url}/starting") == 200):
        assert not files_with(CONTENT, data, system_temporary)


def test_only_a_folder_of_kvscope_is_closed_to_others(tmp_path):
    for name in ("own", "general"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o755)
        FolderLock(tmp_path / name).close()
    (tmp_path / "own" / "library").mkdir()
    (tmp_path / "own" / "audit").mkdir()
    (tmp_path / "general" / "Desktop").mkdir()
    for name, mode in (("own", 0o700), ("general", 0o755)):
        restrict_access(tmp_path / name)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


def test_the_temporary_folder_is_emptied_at_the_start_and_removed_at_the_end(tmp_path):
    with temporary_folder(tmp_path) as folder:
        (folder / "hash").mkdir()
        (folder / "hash" / "upload.txt").write_bytes(CONTENT)
    assert not folder.exists()
