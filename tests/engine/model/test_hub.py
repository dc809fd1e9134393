"""A model on the hub, from asking what it takes to its files being here: the real client against a hub of our own."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from huggingface_hub import constants, hf_api, hf_hub_download

from engine.builder import ModelConfig, fetch_models
from engine.model.loading.footprint import footprint
from engine.model.loading.resolve import found_here, resolve
from tests.support import tiny

COMMIT = "a" * 40
NAME = "owner/tiny"


class Hub(BaseHTTPRequestHandler):
    """Gives one model: `files` by name."""

    files: dict[str, bytes] = {}  # noqa: RUF012

    def do_GET(self):
        path, about = urlsplit(self.path).path, {"id": NAME, "_id": "1", "sha": COMMIT, "private": False, "tags": []}
        name = path.partition(f"/{NAME}/resolve/")[2].partition("/")[2]
        if path.startswith(f"/api/models/{NAME}/tree"):
            found = [{"type": "file", "path": each, "size": len(self.files[each]), "oid": each} for each in self.files]
            self.tell(json.dumps(found).encode())
        elif path.startswith(f"/api/models/{NAME}"):
            siblings = [{"rfilename": each, "size": len(self.files[each])} for each in self.files]
            weights = {"total": 1234, "parameters": {"F32": 1234}}
            self.tell(json.dumps({**about, "siblings": siblings, "safetensors": weights}).encode())
        elif name in self.files:
            self.tell(
                self.files[name], ETag=f'"{hashlib.sha1(self.files[name]).hexdigest()}"', **{"X-Repo-Commit": COMMIT}
            )
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def tell(self, body, **heads):
        self.send_response(200)
        for head, value in {"Content-Length": len(body), **heads}.items():
            self.send_header(head, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *said):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that has the model, and an empty cache."""
    tiny.model().save_pretrained(tmp_path / "made")
    monkeypatch.setattr(Hub, "files", {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()})
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


def test_asking_what_a_model_takes_leaves_it_to_be_fetched(hub):
    for _ in range(2):
        found = footprint(NAME, hub)
        assert (found.family, found.parameters) == ("llama", 1234) and found.fetch_bytes > 10_000
        assert found_here(NAME, hub) is None
    fetch_models(ModelConfig(hub, NAME, NAME, "cpu"))
    place = found_here(NAME, hub)
    assert place == resolve(NAME, hub) and (place / "model.safetensors").exists()
    assert footprint(NAME, hub).fetch_bytes == 0


def test_a_config_that_another_program_has_fetched_is_no_model(hub):
    hf_hub_download(NAME, "config.json")
    assert found_here(NAME, hub) is None
    assert (resolve(NAME, hub) / "model.safetensors").exists()
