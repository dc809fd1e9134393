"""Weights in huge pages: the same values, in memory of their own."""

import mmap

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engine.model.huge_pages import ALIGNMENT, HugePages, use_huge_pages


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
