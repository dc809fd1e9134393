"""Which models are supported, and the error for each one that is not."""

import pytest
import torch

from engine.errors import BadRequest, HubUnreachable, ModelNotFound, UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.loading.load import load_decoder, select_dtype, selftest
from engine.model.loading.resolve import resolve
from engine.model.spec import check_config
from tests.support import tiny


def test_every_supported_family_passes_its_self_test(family):
    result = selftest(Decoder(tiny.model(family), None, "tiny"))
    assert 0 < result.deviation < 1e-4 < result.bound and result.deviation <= result.max_difference < 1e-3


def test_a_model_with_a_wrong_mask_fails_its_self_test(monkeypatch):
    decoder = tiny.decoder()
    monkeypatch.setattr(
        "engine.model.kv_buffer.causal_mask", lambda rows, keys, dtype: torch.zeros(1, 1, len(rows), keys)
    )
    with pytest.raises(UnsupportedModel, match="self-test"):
        selftest(decoder)


PLAIN = dict(model_type="llama", rope_parameters={"rope_type": "default"}, layer_types=None)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model_type": "mamba"}, "mamba"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "depend on the length"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "part of each head"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding-window"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding-window"),
    ],
)
def test_unsupported_models_are_rejected_with_the_reason(change, message):
    with pytest.raises(UnsupportedModel, match=message):
        check_config({**PLAIN, **change}, "tiny")


def test_a_saved_model_loads_with_equal_logits(tmp_path):
    decoder = tiny.decoder()
    decoder.model.set_attn_implementation("sdpa")
    decoder.model.save_pretrained(tmp_path)
    decoder.tokenizer.save_pretrained(tmp_path)
    loaded = load_decoder(tmp_path, torch.device("cpu"), torch.float32, "loaded")
    assert (
        loaded.spec.num_layers == decoder.spec.num_layers
        and loaded.selftest_result.deviation < loaded.selftest_result.bound
    )
    assert torch.equal(loaded.reference_logits(torch.arange(9)), tiny.decoder().reference_logits(torch.arange(9)))


def test_a_damaged_model_is_an_error_that_names_the_folder(tmp_path):
    decoder = tiny.decoder()
    decoder.model.save_pretrained(tmp_path)
    decoder.tokenizer.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelNotFound, match=tmp_path.name):
        load_decoder(tmp_path, torch.device("cpu"), torch.float32)


@pytest.mark.parametrize("config", ["[]", "{}", "{"])
def test_an_invalid_config_is_an_error_that_names_the_folder(config, tmp_path):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelNotFound, match=tmp_path.name):
        load_decoder(tmp_path, torch.device("cpu"), torch.float32)


def test_a_folder_resolves_to_itself_and_an_empty_one_is_rejected(tmp_path):
    with pytest.raises(ModelNotFound, match=r"no config\.json"):
        resolve(str(tmp_path), tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert resolve(str(tmp_path), tmp_path) == tmp_path


@pytest.mark.parametrize(
    "name, error, hint",
    [
        ("no/such/place/at all", ModelNotFound, "--model PATH-OR-NAME"),
        ("owner/no-such-model-kvscope", HubUnreachable, "hf download owner/no-such-model-kvscope"),
    ],
)
def test_an_unknown_model_is_an_error_with_a_hint(name, error, hint, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(error, match=hint):
        resolve(name, tmp_path)


def test_a_missing_wheel_and_registry_is_an_error_with_a_hint(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.model.loading.bundled.find_installed", lambda: None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelNotFound, match="--model PATH-OR-NAME"):
        resolve("SmolLM2-135M-Instruct", tmp_path / "models")
    assert not list((tmp_path / "models").iterdir())


def test_dtype_follows_the_request_and_the_machine():
    device, dtype, text = select_dtype("cpu", "fp32")
    assert (device.type, dtype) == ("cpu", torch.float32)
    assert "fp32 on the CPU" in text
    for wrong in ({"dtype": "int3"}, {} if torch.cuda.is_available() else {"device": "cuda"}):
        if wrong:
            with pytest.raises(BadRequest, match=r"got|requested"):
                select_dtype(**wrong)
