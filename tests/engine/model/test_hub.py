"""Estimate and download a model from the Hub: the real client against a local server."""

import hashlib
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from huggingface_hub import constants, file_download, hf_api, hf_hub_download

from engine.builder import ModelConfig, fetch_models
from engine.errors import HubUnreachable, ModelNotFound
from engine.model.loading.resolve import estimate_footprint, find_local, resolve
from tests.support import tiny

COMMIT = "a" * 40
COMMITTED = {"X-Repo-Commit": COMMIT}
NAME = "owner/tiny"


WEIGHTS = "model.safetensors"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Hub(BaseHTTPRequestHandler):
    """Serves one model: `files` by name, and the weights with the published hash `weights_sha256`.

    requests  method, name and Range of each request for a file
    """

    files: dict[str, bytes] = {}  # noqa: RUF012
    weights_sha256 = ""
    requests: list[tuple[str, str, str | None]] = []  # noqa: RUF012

    def do_GET(self):
        path, about = urlsplit(self.path).path, {"id": NAME, "_id": "1", "sha": COMMIT, "private": False, "tags": []}
        name = path.partition(f"/{NAME}/resolve/")[2].partition("/")[2]
        if path.startswith(f"/api/models/{NAME}/tree"):
            listing = [{"type": "file", "path": each, "oid": each, **self.about(each)} for each in self.files]
            self.send(json.dumps(listing).encode())
        elif path.startswith(f"/api/models/{NAME}"):
            siblings = [{"rfilename": each, **self.about(each)} for each in self.files]
            weights = {"total": 1234, "parameters": {"F32": 1234}}
            self.send(json.dumps({**about, "siblings": siblings, "safetensors": weights}).encode())
        elif name in self.files:
            self.requests.append((self.command, name, self.headers["Range"]))
            start = int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").rstrip("-"))
            etag = self.weights_sha256 if name == WEIGHTS else hashlib.sha1(self.files[name]).hexdigest()
            whole = len(self.files[name])
            span = {"Content-Range": f"bytes {start}-{whole - 1}/{whole}"} if start else {}
            self.send(self.files[name][start:], 206 if start else 200, ETag=f'"{etag}"', **COMMITTED, **span)
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def about(self, name):
        size = len(self.files[name])
        lfs = {"oid": self.weights_sha256, "sha256": self.weights_sha256, "size": size, "pointerSize": 134}
        return {"size": size, "lfs": lfs} if name == WEIGHTS else {"size": size}

    def send(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A local Hub with the model, and an empty cache."""
    tiny.model().save_pretrained(tmp_path / "model")
    monkeypatch.setattr(Hub, "files", {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()})
    monkeypatch.setattr(Hub, "weights_sha256", sha256(Hub.files[WEIGHTS]))
    monkeypatch.setattr(Hub, "requests", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    for proxy in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(proxy, "127.0.0.1")
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(hf_api.api, "endpoint", address)
    yield tmp_path
    server.shutdown()
    server.server_close()


def test_estimating_a_footprint_does_not_download_the_model(hub):
    for _ in range(2):
        footprint = estimate_footprint(NAME, hub)
        assert (footprint.model_type, footprint.num_parameters) == ("llama", 1234)
        assert footprint.download_bytes > 10_000
        assert find_local(NAME, hub) is None
    fetch_models(ModelConfig(hub, NAME, NAME, "cpu"))
    folder = find_local(NAME, hub)
    assert folder == resolve(NAME, hub) and (folder / WEIGHTS).read_bytes() == Hub.files[WEIGHTS]
    assert estimate_footprint(NAME, hub).download_bytes == 0


def test_a_config_without_weights_in_the_hub_cache_is_no_model(hub):
    hf_hub_download(NAME, "config.json")
    assert find_local(NAME, hub) is None
    assert (resolve(NAME, hub) / WEIGHTS).exists()


def blobs(hub):
    return list((hub / "cache").glob("models--*/blobs/*"))


def test_an_interrupted_download_continues_where_it_stopped(hub, monkeypatch):
    class Stop(Exception):
        pass

    def stop(message, done):
        if done > 0.3:
            raise Stop

    def update(bar, n):
        bar.n += n
        bar.refresh()

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    monkeypatch.setattr("tqdm.std.tqdm.update", update)  # without tqdm's limit of updates per second
    with pytest.raises(Stop):
        resolve(NAME, hub, stop)
    assert find_local(NAME, hub) is None
    whole, (part,) = Hub.files[WEIGHTS], blobs(hub)
    kept = part.stat().st_size
    assert 0 < kept < len(whole) and part.read_bytes() == whole[:kept]
    Hub.requests.clear()
    reports = []
    folder = resolve(NAME, hub, lambda message, done: reports.append(done))
    assert (folder / WEIGHTS).read_bytes() == whole and blobs(hub) and part not in blobs(hub)
    assert [span for *request, span in Hub.requests if request == ["GET", WEIGHTS]] == [f"bytes={kept}-"]
    assert reports == sorted(reports) and max(reports) == 0.75


def test_a_damaged_file_is_deleted_and_downloaded_again(hub):
    whole = Hub.files[WEIGHTS]
    Hub.files[WEIGHTS] = whole[:-1] + bytes([whole[-1] ^ 1])
    with pytest.raises(ModelNotFound, match=r"model\.safetensors .* damaged .* Download it again"):
        resolve(NAME, hub)
    assert find_local(NAME, hub) is None and not blobs(hub)
    Hub.files[WEIGHTS] = whole
    assert (resolve(NAME, hub) / WEIGHTS).read_bytes() == whole


def test_weights_are_checked_after_a_download_only(hub):
    weights = resolve(NAME, hub) / WEIGHTS
    Path(os.path.realpath(weights)).write_bytes(b"changed by another program")
    Hub.requests.clear()
    assert resolve(NAME, hub) / WEIGHTS == weights and Hub.requests == []


def test_without_symlinks_the_snapshot_holds_the_weights(hub, monkeypatch):
    monkeypatch.setattr(file_download, "are_symlinks_supported", lambda folder: False)
    weights = resolve(NAME, hub) / WEIGHTS
    assert not weights.is_symlink() and weights.read_bytes() == Hub.files[WEIGHTS]


def test_an_unreachable_hub_is_an_error_with_the_steps_of_a_copy(hub, monkeypatch):
    monkeypatch.setattr(hf_api.api, "endpoint", "http://127.0.0.1:9")
    for function in (estimate_footprint, resolve):
        with pytest.raises(HubUnreachable, match=f"`hf download {NAME} .*--local-dir tiny`.* path as the main model"):
            function(NAME, hub)
