"""Layers whose norms, rotations and activation are compiled kernels, against transformers' own."""

import pytest
import torch
from torch.testing import assert_close
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from engine.model.decoder import Decoder
from engine.model.kernels.fused_layer import LayerOps
from engine.model.kernels.load import KernelChoice
from engine.model.kv_buffer import BatchDecode, RowPass
from engine.model.loading.load import fuse_layers
from engine.model.rope import rerotate_keys
from tests.support import tiny
from tests.support.kernels import compiled_library, needs_kernel

SIZE = {**tiny.SIZE, "hidden_size": 256, "head_dim": 64}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZE)),
    "qwen2, biases": lambda: Qwen2ForCausalLM(Qwen2Config(**{**SIZE, "head_dim": 256 // SIZE["num_attention_heads"]})),
    "qwen3, norms of the heads": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZE)),
}


def ops():
    return LayerOps(compiled_library())


@needs_kernel
def test_the_kernels_compute_what_torch_does():
    torch.manual_seed(0)
    x, weight = torch.randn(3, 5, 96).bfloat16(), torch.rand(96) + 0.5
    expected = torch.nn.functional.rms_norm(x.float(), (96,), weight, 1e-5)
    assert_close(ops().rms_norm(x, weight, 1e-5).float(), expected, atol=0.02, rtol=0.01)
    assert_close(ops().rms_norm(x[:, 1:4], weight, 1e-5).float(), expected[:, 1:4], atol=0.02, rtol=0.01)

    gate, up = torch.randn(2, 7, 48).bfloat16(), torch.randn(2, 7, 48).bfloat16()
    expected = torch.nn.functional.silu(gate.float()) * up.float()
    assert_close(ops().silu_multiply_(gate, up).float(), expected, atol=0.02, rtol=0.01)

    heads = torch.randn(2, 5, 3, 64).bfloat16()
    angles = torch.rand(2, 5, 32) * 6
    cosines, sines = (torch.cat((wave, wave), -1).bfloat16() for wave in (angles.cos(), angles.sin()))
    for norm in (None, torch.rand(64) + 0.5):
        plain = heads.float() if norm is None else torch.nn.functional.rms_norm(heads.float(), (64,), norm, 1e-6)
        half = torch.cat((-plain[..., 32:], plain[..., :32]), -1)
        expected = plain * cosines[:, :, None].float() + half * sines[:, :, None].float()
        assert_close(ops().rotate_(heads.clone(), cosines, sines, norm, 1e-6).float(), expected, atol=0.03, rtol=0.01)


@needs_kernel
@pytest.mark.skipif(not torch.cpu.get_capabilities().get("amx_bf16"), reason="a kernel for AMX")
@pytest.mark.parametrize("rows", [1, 31, 32, 75])
def test_linear_layers_of_few_rows_are_those_of_torch_and_rows_do_not_depend_on_each_other(rows):
    torch.manual_seed(0)
    linears = [torch.nn.Linear(96, 160).bfloat16(), torch.nn.Linear(96, 32, bias=False).bfloat16()]
    x = torch.randn(rows, 96).bfloat16()

    def run(x):
        outs = [torch.full((len(x), each.out_features), torch.nan).bfloat16() for each in linears]
        ops().linear_(x, linears, outs)
        return outs

    for linear, out in zip(linears, run(x), strict=True):
        bias = None if linear.bias is None else linear.bias.float()
        expected = torch.nn.functional.linear(x.float(), linear.weight.float(), bias)
        assert_close(out.float(), expected, atol=2e-3, rtol=8e-3)
    for whole, part in zip(run(x), run(x[rows // 2 :]), strict=True):
        assert_close(part, whole[rows // 2 :], atol=0, rtol=0)


@needs_kernel
def test_cached_keys_are_rotated_as_by_torch():
    keys, buffer = torch.randn(2, 3, 5, 96).bfloat16(), torch.zeros(2, 3, 9, 96).bfloat16()
    inv_freq = 1 / 1e4 ** (torch.arange(48) / 48)
    for shift in (0, 7, -3, 40_000):
        out = ops().rerotate(keys, shift, inv_freq, buffer[:, :, 2:7])
        assert_close(out.float(), rerotate_keys(keys, shift, inv_freq).float(), atol=1e-4, rtol=8e-3)
    assert buffer[:, :, :2].count_nonzero() == buffer[:, :, 7:].count_nonzero() == 0


@needs_kernel
@pytest.mark.parametrize("name", MODELS)
def test_fused_layers_give_the_logits_of_transformers_layers(name):
    decoder = Decoder(tiny.model(MODELS[name], scale=2.0).bfloat16(), None, name)
    ids = torch.randint(0, 500, (90,), generator=torch.Generator().manual_seed(0))
    rows = torch.arange(1, 90, 2)

    def run():
        buffer = decoder.new_buffer(92)
        logits = [decoder.forward_rows(ids, buffer, torch.arange(90))]
        buffer.keys[:, :, rows] = 7.0  # stale values that the next pass must replace
        logits.append(decoder.forward_rows(ids[rows], buffer, rows))
        return torch.stack(logits), buffer.keys[:, :, :90].float()

    expected, keys = run()
    fuse_layers(decoder, KernelChoice(None, "", compiled_library()))
    assert len(decoder.fused_layers) == decoder.spec.num_layers
    found, fused_keys = run()
    assert_close(found[0], found[1], atol=0, rtol=0)
    assert (found - expected).std() < 0.1 * expected.std()
    assert (fused_keys - keys).std() < 0.1 * keys.std()


@needs_kernel
def test_a_step_for_several_answers_and_a_training_pass_are_right_with_fused_layers():
    decoder = Decoder(tiny.model(MODELS["llama"], scale=2.0).bfloat16(), None, "tiny")
    fuse_layers(decoder, KernelChoice(None, "", compiled_library()))
    ids = torch.arange(20)
    buffers = [decoder.new_buffer(32) for _ in range(2)]
    for buffer, length in zip(buffers, (20, 9), strict=True):
        decoder.forward_rows(ids[:length], buffer, ids[:length])
    batch = BatchDecode(buffers, [torch.tensor([length]) for length in (20, 9)])
    together = decoder.logits(decoder.forward(torch.tensor([[7], [8]]), batch.positions, batch))[:, 0]
    for buffer, length, token, found in zip(buffers, (20, 9), (7, 8), together, strict=True):
        slot = torch.tensor([length])
        assert_close(decoder.forward_rows(torch.tensor([token]), buffer, slot), found, atol=0.1, rtol=0.05)
    row_pass = RowPass(decoder.new_buffer(20), ids)
    with torch.enable_grad():
        hidden = decoder.forward(ids[None], ids[None], row_pass, with_grad=True)
    assert hidden.requires_grad


@needs_kernel
def test_models_and_libraries_that_do_not_fit_keep_transformers_layers(tmp_path):
    decoder = tiny.decoder()  # fp32
    fuse_layers(decoder, KernelChoice(None, "", compiled_library()))
    assert decoder.fused_layers == []
    decoder = Decoder(tiny.model(MODELS["llama"], scale=2.0).bfloat16(), None, "tiny")
    broken = tmp_path / "kernels.so"
    broken.write_text("garbage")
    for library in (None, broken):
        fuse_layers(decoder, KernelChoice(None, "", library))
        assert decoder.fused_layers == []
