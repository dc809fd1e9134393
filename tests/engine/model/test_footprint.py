"""What a model takes is known before it is loaded, and what is no model is said in the words of the command line."""

import json
from threading import Thread
from types import SimpleNamespace

import httpx2
import pytest
import torch
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from tqdm import TMonitor

from engine.errors import HubUnreachable, ModelNotFound, UnsupportedModel
from engine.model.loading import bundled as embedded
from engine.model.loading import resolve as resolving
from engine.model.loading.footprint import Footprint, footprint, free_bytes, of_hub
from engine.model.loading.resolve import resolve
from tests.support import tiny

QWEN = {
    "model_type": "qwen3",
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 1024,
    "max_position_embeddings": 40960,
}


def saved(folder, build=tiny.llama):
    made = tiny.model(build)
    made.save_pretrained(folder)
    return made


def test_a_folder_tells_the_parameters_and_the_kv_of_the_model_that_is_loaded_from_it(family, tmp_path):
    made = saved(tmp_path, family)
    found, decoder = footprint(str(tmp_path), tmp_path), tiny.decoder(family)
    assert found.parameters == sum(weight.numel() for weight in made.parameters())
    assert found.weights_bytes(torch.bfloat16) == 2 * found.parameters
    assert found.kv_bytes(100, torch.float32) == decoder.spec.kv_bytes(100, 4)
    assert found.kv_bytes(10**9, torch.float32) == decoder.spec.kv_bytes(decoder.spec.max_positions, 4)
    assert found.family == made.config.model_type and found.fetch_bytes == 0


def test_weights_in_several_files_are_counted_once_each(tmp_path):
    made = tiny.model()
    made.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert footprint(str(tmp_path), tmp_path).parameters == sum(weight.numel() for weight in made.parameters())


def test_a_model_that_loading_would_refuse_is_refused_by_its_config(tmp_path):
    saved(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "mamba"}))
    with pytest.raises(UnsupportedModel, match="mamba"):
        footprint(str(tmp_path), tmp_path)


NO_MODELS = ["{", "[]", '{"model_type": "llama"}', '{"model_type": "llama", "hidden_size": "x"}']


@pytest.mark.parametrize("config", NO_MODELS)
def test_a_config_that_describes_no_model_is_named(config, tmp_path):
    saved(tmp_path)
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelNotFound, match=tmp_path.name):
        footprint(str(tmp_path), tmp_path)


def test_torn_or_missing_weights_are_named(tmp_path):
    saved(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelNotFound, match=tmp_path.name):
        footprint(str(tmp_path), tmp_path)
    weights.unlink()
    with pytest.raises(ModelNotFound, match="no safetensors"):
        footprint(str(tmp_path), tmp_path)


@pytest.mark.parametrize("name", ["no/such/place/at all", "<img src=x>", "../..", "a" * 300, "~nobody/x", "a\0b", ""])
def test_what_is_no_name_is_refused_in_the_same_words_as_when_it_is_loaded(name, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    said = []
    for way in (footprint, resolve):
        with pytest.raises(ModelNotFound) as caught:
            way(name, tmp_path)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_without_the_hub_it_says_so_and_does_not_call_the_name_wrong(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise httpx2.ConnectError("no route")

    monkeypatch.setattr("engine.model.loading.footprint.model_info", refuse)
    with pytest.raises(HubUnreachable, match="the hub cannot be reached"):
        footprint("owner/no-such-model-kvscope", tmp_path)


def test_a_model_on_the_hub_is_told_by_its_file_list_and_its_config(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    files = {"model.safetensors": 1_503_300_328, "config.json": 726, "tokenizer.json": 11_422_654, "pytorch.bin": 9**9}
    siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in files.items()]
    info = SimpleNamespace(safetensors=SimpleNamespace(total=751_632_384), siblings=siblings)
    monkeypatch.setattr("engine.model.loading.footprint.model_info", lambda name, **_: info)
    monkeypatch.setattr(
        "engine.model.loading.footprint.hf_hub_download", lambda *_, **__: str(tmp_path / "config.json")
    )
    found = of_hub("Qwen/Qwen3-0.6B")
    assert found == Footprint("qwen3", 751_632_384, 2 * 28 * 8 * 128, 40960, 1_503_300_328 + 726 + 11_422_654)
    info.safetensors = None
    with pytest.raises(ModelNotFound, match="no safetensors"):
        of_hub("Qwen/Qwen3-0.6B")


def test_a_no_from_the_hub_is_told_as_it_said_it(monkeypatch):
    def refuse(*_, **__):
        response = httpx2.Response(401, request=httpx2.Request("GET", "http://127.0.0.1"))
        raise HfHubHTTPError("401: this repository is gated", response=response)

    monkeypatch.setattr("engine.model.loading.footprint.model_info", refuse)
    with pytest.raises(ModelNotFound, match="gated"):
        of_hub("owner/gated")


def test_the_embedded_model_is_known_before_it_is_fetched(tmp_path):
    found = footprint(embedded.NAME, tmp_path)
    assert found.fetch_bytes and found.context == embedded.CONTEXT
    assert not list(tmp_path.iterdir())


@pytest.mark.embedded
def test_what_is_said_of_the_embedded_model_is_what_it_has(models, tmp_path):
    told, found = footprint(embedded.NAME, tmp_path), footprint(embedded.NAME, models)
    assert (told.family, told.parameters, told.kv_elements, told.context) == (
        found.family,
        found.parameters,
        found.kv_elements,
        found.context,
    )


def test_a_download_reports_its_bytes_and_ends_when_the_report_says_so(tmp_path, monkeypatch):
    class Enough(Exception):
        pass

    def download(name, *, local_files_only=False, tqdm_class=None, **_):
        if local_files_only:
            raise LocalEntryNotFoundError("not here")
        network = tqdm_class(total=0, unit="B", desc="network")
        written = tqdm_class(total=0, unit="B", desc="written")
        files = tqdm_class(total=2, desc="files")
        for bar in (network, written):
            bar.total = 1000_000_000
            bar.mininterval = 0
        files.update(1)
        for _ in range(4):
            written.update(250_000_000)
        return str(tmp_path)

    monkeypatch.setattr("engine.model.loading.resolve.snapshot_download", download)
    told = []
    assert resolve("owner/name", tmp_path, lambda said, share: told.append((said, share))) == tmp_path
    assert told[0] == ("Downloading owner/name", 0.0) and told[-1] == ("Downloading owner/name (1000 MB)", 0.75)
    assert [share for _, share in told] == sorted(share for _, share in told) and len(told) > 3

    def stop(said, share):
        if share > 0.3:
            raise Enough

    with pytest.raises(Enough):
        resolve("owner/name", tmp_path, stop)


def test_tqdms_own_watching_thread_tells_nothing():
    """What the report raises there would end that thread, and not the download."""

    class Watching(TMonitor):
        def __init__(self, bar):
            Thread.__init__(self)
            self.bar = bar

        def run(self):
            self.bar.refresh()

    told = []
    bar = resolving._reporting("name", lambda *said: told.append(said))(total=10, unit="B")
    told.clear()
    watching = Watching(bar)
    watching.start()
    watching.join()
    assert not told
    bar.refresh()
    assert told


def test_some_memory_is_free_here():
    assert 0 < free_bytes(torch.device("cpu")) < 2**50
