"""Weights in huge pages: the same values, in memory of their own."""

import json
import mmap

import pytest
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from engine.model.huge_pages import ALIGNMENT, HugePages, use_huge_pages
from engine.model.loading.load import load_decoder
from engine.model.loading.lora import LORA_CONFIG_FILE, LORA_WEIGHTS_FILE
from tests.support import tiny


@pytest.fixture(params=["as here", "without huge pages"])
def system(request, monkeypatch):
    if request.param == "without huge pages":
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)


@pytest.mark.usefixtures("system")
def test_tensors_start_as_zeros_and_do_not_overlap():
    dtypes = [torch.int8, torch.float32, torch.bfloat16]
    pages = HugePages([3 * 5 * dtype.itemsize for dtype in dtypes])
    tensors = [pages.zeros((3, 5), dtype) for dtype in dtypes]
    for number, tensor in enumerate(tensors):
        assert tensor.shape == (3, 5) and tensor.dtype is dtypes[number] and tensor.data_ptr() % ALIGNMENT == 0
        assert not tensor.any()
        tensor += number + 1
    assert [tensor.unique().tolist() for tensor in tensors] == [[1], [2], [3]]
    with pytest.raises(RuntimeError):
        pages.zeros((1,), torch.int8)


@pytest.mark.usefixtures("system")
def test_a_model_keeps_its_outputs_and_its_tied_weights():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=67, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    ids = torch.arange(9)[None]
    with torch.inference_mode():
        expected = model(ids).logits
    before = {parameter.data_ptr() for parameter in model.parameters()}
    use_huge_pages(model)
    assert not before & {parameter.data_ptr() for parameter in model.parameters()}
    assert model.lm_head.weight is model.model.embed_tokens.weight
    with torch.inference_mode():
        assert torch.equal(model(ids).logits, expected)


@pytest.mark.parametrize("error", [OSError, RuntimeError])  # as mmap and torch raise them
def test_a_model_with_an_adapter_loads_where_the_system_refuses_the_memory(monkeypatch, tmp_path, error):
    decoder = tiny.decoder()
    decoder.model.save_pretrained(tmp_path)
    decoder.tokenizer.save_pretrained(tmp_path)
    layer, weight = "model.layers.0.mlp.up_proj", decoder.model.model.layers[0].mlp.up_proj.weight.detach().clone()
    halves = {"A": torch.randn(2, weight.shape[1]), "B": torch.randn(weight.shape[0], 2)}
    save_file(
        {f"base_model.model.{layer}.lora_{name}.weight": half for name, half in halves.items()},
        tmp_path / LORA_WEIGHTS_FILE,
    )
    (tmp_path / LORA_CONFIG_FILE).write_text(json.dumps({"r": 2, "lora_alpha": 2, "peft_type": "LORA"}))

    def refuse(*arguments, **options):
        raise error("no memory")

    monkeypatch.setattr("engine.model.huge_pages.HugePages", refuse)
    loaded = load_decoder(tmp_path, torch.device("cpu"), torch.float32, adapter=tmp_path)
    merged = loaded.model.model.layers[0].mlp.up_proj.weight
    torch.testing.assert_close(merged, weight + halves["B"] @ halves["A"])
