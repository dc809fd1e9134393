"""Estimate and download a model from the Hub: the real client against a local server."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from huggingface_hub import constants, hf_api, hf_hub_download

from engine.builder import ModelConfig, fetch_models
from engine.model.loading.resolve import estimate_footprint, find_local, resolve
from tests.support import tiny

COMMIT = "a" * 40
NAME = "owner/tiny"


class Hub(BaseHTTPRequestHandler):
    """Serves one model: `files` by name."""

    files: dict[str, bytes] = {}  # noqa: RUF012

    def do_GET(self):
        path, about = urlsplit(self.path).path, {"id": NAME, "_id": "1", "sha": COMMIT, "private": False, "tags": []}
        name = path.partition(f"/{NAME}/resolve/")[2].partition("/")[2]
        if path.startswith(f"/api/models/{NAME}/tree"):
            listing = [
                {"type": "file", "path": each, "size": len(self.files[each]), "oid": each} for each in self.files
            ]
            self.send(json.dumps(listing).encode())
        elif path.startswith(f"/api/models/{NAME}"):
            siblings = [{"rfilename": each, "size": len(self.files[each])} for each in self.files]
            weights = {"total": 1234, "parameters": {"F32": 1234}}
            self.send(json.dumps({**about, "siblings": siblings, "safetensors": weights}).encode())
        elif name in self.files:
            self.send(
                self.files[name], ETag=f'"{hashlib.sha1(self.files[name]).hexdigest()}"', **{"X-Repo-Commit": COMMIT}
            )
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def send(self, body, **headers):
        self.send_response(200)
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
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
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
    assert folder == resolve(NAME, hub) and (folder / "model.safetensors").exists()
    assert estimate_footprint(NAME, hub).download_bytes == 0


def test_a_config_without_weights_in_the_hub_cache_is_no_model(hub):
    hf_hub_download(NAME, "config.json")
    assert find_local(NAME, hub) is None
    assert (resolve(NAME, hub) / "model.safetensors").exists()
