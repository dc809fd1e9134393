"""A model's footprint is known before it is loaded, and invalid models are reported as `resolve` does."""

import json
from dataclasses import replace
from threading import Thread
from types import SimpleNamespace

import httpx2
import pytest
import torch
from huggingface_hub.errors import HfHubHTTPError
from tqdm import TMonitor

from engine.errors import HubUnreachable, ModelNotFound, UnsupportedModel
from engine.model.loading.bundled import BUNDLED_MODEL, MAX_CONTEXT_TOKENS
from engine.model.loading.download import progress_bar_class
from engine.model.loading.resolve import (
    Footprint,
    estimate_footprint,
    free_bytes,
    hub_footprint,
    resolve,
    total_bytes,
)
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


def save_model(folder, build=tiny.llama):
    model = tiny.model(build)
    model.save_pretrained(folder)
    return model


def test_a_folders_footprint_equals_the_loaded_models(family, tmp_path):
    model = save_model(tmp_path, family)
    footprint, decoder = estimate_footprint(str(tmp_path), tmp_path), tiny.decoder(family)
    assert footprint.num_parameters == sum(weight.numel() for weight in model.parameters())
    assert 100 * 4 * footprint.kv_elements_per_token == decoder.spec.kv_bytes(100, 4)
    assert footprint.max_context_tokens == decoder.spec.max_positions
    assert footprint.model_type == model.config.model_type and footprint.download_bytes == 0


def test_weights_in_several_files_are_counted_once_each(tmp_path):
    model = tiny.model()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert estimate_footprint(str(tmp_path), tmp_path).num_parameters == sum(
        weight.numel() for weight in model.parameters()
    )


def test_an_unsupported_model_is_rejected_by_its_config(tmp_path):
    save_model(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "mamba"}))
    with pytest.raises(UnsupportedModel, match="mamba"):
        estimate_footprint(str(tmp_path), tmp_path)


INVALID_CONFIGS = ["{", "[]", '{"model_type": "llama"}', '{"model_type": "llama", "hidden_size": "x"}']


@pytest.mark.parametrize("config", INVALID_CONFIGS)
def test_an_invalid_config_is_named_in_the_error(config, tmp_path):
    save_model(tmp_path)
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelNotFound, match=tmp_path.name):
        estimate_footprint(str(tmp_path), tmp_path)


def test_damaged_or_missing_weights_are_named_in_the_error(tmp_path):
    save_model(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelNotFound, match=tmp_path.name):
        estimate_footprint(str(tmp_path), tmp_path)
    weights.unlink()
    with pytest.raises(ModelNotFound, match="no safetensors"):
        estimate_footprint(str(tmp_path), tmp_path)


@pytest.mark.parametrize("name", ["no/such/place/at all", "<img src=x>", "../..", "a" * 300, "~nobody/x", "a\0b", ""])
def test_an_invalid_name_is_rejected_with_the_same_message_as_by_resolve(name, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    messages = []
    for function in (estimate_footprint, resolve):
        with pytest.raises(ModelNotFound) as caught:
            function(name, tmp_path)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_an_unreachable_hub_is_reported_as_such(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise httpx2.ConnectError("no route")

    monkeypatch.setattr("engine.model.loading.resolve.model_info", fail)
    with pytest.raises(HubUnreachable, match="the hub cannot be reached"):
        estimate_footprint("owner/no-such-model-kvscope", tmp_path)


def test_the_hubs_file_list_and_config_give_the_footprint(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    files = {"model.safetensors": 1_503_300_328, "config.json": 726, "tokenizer.json": 11_422_654, "pytorch.bin": 9**9}
    siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in files.items()]
    info = SimpleNamespace(safetensors=SimpleNamespace(total=751_632_384), siblings=siblings)
    monkeypatch.setattr("engine.model.loading.resolve.model_info", lambda name, **_: info)
    monkeypatch.setattr("engine.model.loading.resolve.hf_hub_download", lambda *_, **__: str(tmp_path / "config.json"))
    footprint = hub_footprint("Qwen/Qwen3-0.6B")
    assert footprint == Footprint("qwen3", 751_632_384, 2 * 28 * 8 * 128, 40960, 1_503_300_328 + 726 + 11_422_654)
    info.safetensors = None
    with pytest.raises(ModelNotFound, match="no safetensors"):
        hub_footprint("Qwen/Qwen3-0.6B")


def test_an_error_from_the_hub_is_quoted(monkeypatch):
    def fail(*_, **__):
        response = httpx2.Response(401, request=httpx2.Request("GET", "http://127.0.0.1"))
        raise HfHubHTTPError("401: this repository is gated", response=response)

    monkeypatch.setattr("engine.model.loading.resolve.model_info", fail)
    with pytest.raises(ModelNotFound, match="gated"):
        hub_footprint("owner/gated")


def test_the_bundled_models_footprint_is_known_before_it_is_downloaded(tmp_path):
    footprint = estimate_footprint(BUNDLED_MODEL, tmp_path)
    assert footprint.download_bytes and footprint.max_context_tokens == MAX_CONTEXT_TOKENS
    assert not list(tmp_path.iterdir())


@pytest.mark.embedded
def test_the_bundled_models_footprint_is_correct(models, tmp_path):
    known, actual = estimate_footprint(BUNDLED_MODEL, tmp_path), estimate_footprint(BUNDLED_MODEL, models)
    assert replace(known, download_bytes=0) == actual


def test_a_download_reports_its_bytes_and_ends_if_the_callback_raises(tmp_path, monkeypatch):
    class Stop(Exception):
        pass

    def download(name, *, tqdm_class, **_):
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

    monkeypatch.setattr("engine.model.loading.resolve.find_local", lambda *_: None)
    monkeypatch.setattr("engine.model.loading.download.model_info", lambda *_, **__: SimpleNamespace(siblings=[]))
    monkeypatch.setattr("engine.model.loading.download.snapshot_download", download)
    reports = []
    assert resolve("owner/name", tmp_path, lambda message, done: reports.append((message, done))) == tmp_path
    assert reports[0] == ("Downloading owner/name", 0.0) and reports[-1] == ("Downloading owner/name (954 MiB)", 0.75)
    assert [done for _, done in reports] == sorted(done for _, done in reports) and len(reports) > 3

    def stop(message, done):
        if done > 0.3:
            raise Stop

    with pytest.raises(Stop):
        resolve("owner/name", tmp_path, stop)


def test_tqdms_monitor_thread_reports_nothing():
    """An exception of the callback would end that thread and not the download."""

    class Monitor(TMonitor):
        def __init__(self, bar):
            Thread.__init__(self)
            self.bar = bar

        def run(self):
            self.bar.refresh()

    reports = []
    bar = progress_bar_class("name", lambda *report: reports.append(report))(total=10, unit="B")
    reports.clear()
    monitor = Monitor(bar)
    monitor.start()
    monitor.join()
    assert not reports
    bar.refresh()
    assert reports


def test_free_memory_is_plausible():
    assert 0 < free_bytes(torch.device("cpu")) < 2**50


def test_free_memory_is_what_the_limit_of_the_container_leaves(monkeypatch, tmp_path):
    monkeypatch.setattr("engine.model.loading.resolve.CGROUP", tmp_path)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1000))
    assert free_bytes(torch.device("cpu")) == 1000
    (tmp_path / "memory.current").write_text("500\n")
    (tmp_path / "memory.stat").write_text("anon 400\nactive_file 30\ninactive_file 50\n")
    for limit, free in (("max", 1000), ("600", 180), ("400", 0), ("5000", 1000)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert free_bytes(torch.device("cpu")) == free


def test_memory_is_that_of_the_machine_or_the_limit_of_the_container(monkeypatch, tmp_path):
    monkeypatch.setattr("engine.model.loading.resolve.CGROUP", tmp_path)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=1000))
    assert total_bytes() == 1000
    for limit, total in (("max", 1000), ("600", 600), ("5000", 1000)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert total_bytes() == total
