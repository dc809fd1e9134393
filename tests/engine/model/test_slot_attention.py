"""The compiled attention kernel against fp32, and what happens where it cannot be compiled, is wrong or is slow."""

import json
import os
import sys
from dataclasses import replace
from functools import cache
from shutil import copy
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from engine.generation.rescoring import log_likelihoods
from engine.generation.span_scorer import SpanScorer, Window
from engine.model.decoder import Decoder
from engine.model.encoder import Encoder
from engine.model.kernels import load
from engine.model.kernels.load import choose_kernels
from engine.model.kernels.probe import ProbeResult, probe
from engine.model.kernels.slot_attention import HEAD_DIMS
from tests.support import tiny
from tests.support.kernels import compiled_library, needs_kernel

RIGHT = ProbeResult(error=1e-3, torch_error=1e-3, speedup=2.0)


@cache
def kernel(use_amx=True):
    """The kernel of this machine, whether it is faster or not, with AMX if there is any and it is wanted."""
    loaded = load.SlotAttention(compiled_library())
    loaded.use_amx &= use_amx
    return loaded


def random_problem(num_heads, groups, head_dim, rows, num_keys, seed=0):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(1, rows, groups * num_heads, head_dim, generator=generator).bfloat16().transpose(1, 2)
    keys, values = torch.randn(2, 1, num_heads, num_keys, head_dim, generator=generator).bfloat16()
    slots = torch.randperm(num_keys, generator=generator)[:rows].sort().values
    return query, keys, values, slots


def reference(query, keys, values, slots):
    groups = query.shape[1] // keys.shape[1]
    keys, values = (each.float().repeat_interleave(groups, dim=1) for each in (keys, values))
    logits = query.float() @ keys.transpose(2, 3) * query.shape[-1] ** -0.5
    is_masked = torch.arange(keys.shape[2]) > slots[:, None]
    return logits.masked_fill(is_masked, -torch.inf).softmax(-1) @ values


def attend(query, keys, values, slots, use_amx=True):
    return kernel(use_amx).attend(query, keys, values, slots, query.shape[-1] ** -0.5)


@needs_kernel
@given(
    num_heads=st.integers(1, 4),
    groups=st.integers(1, 9),
    head_dim=st.sampled_from(HEAD_DIMS),
    num_keys=st.integers(1, 300),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**20),
    use_amx=st.booleans(),
)
def test_the_kernel_computes_attention(num_heads, groups, head_dim, num_keys, share, seed, use_amx):
    rows = max(1, round(share * num_keys))
    query, keys, values, slots = random_problem(num_heads, groups, head_dim, rows, num_keys, seed)
    expected = reference(query, keys, values, slots)
    assert_close(attend(query, keys, values, slots, use_amx).float(), expected, atol=0.03, rtol=0.03)


@needs_kernel
@pytest.mark.parametrize("use_amx", [True, False])
def test_a_row_does_not_depend_on_the_other_rows_bit_for_bit(use_amx):
    query, keys, values, slots = random_problem(3, 3, 64, 500, 700)
    everything = attend(query, keys, values, slots, use_amx)
    for chosen in (torch.arange(0, 500, 7), torch.tensor([3]), torch.arange(400, 500)):
        part = attend(query[:, :, chosen], keys, values, slots[chosen], use_amx)
        assert torch.equal(part, everything[:, :, chosen])


@needs_kernel
def test_slots_past_the_last_row_and_large_logits_do_no_harm():
    query, keys, values, slots = random_problem(2, 3, 64, 40, 100)
    slots = torch.arange(40)
    expected = reference(query, keys[:, :, :40], values[:, :, :40], slots)
    keys[:, :, 40:], values[:, :, 40:] = torch.nan, torch.inf
    assert_close(attend(query, keys, values, slots).float(), expected, atol=0.03, rtol=0.03)
    sharp = attend(200 * query, keys, values, slots)
    assert torch.isfinite(sharp.float()).all()
    assert_close(sharp.float(), reference(200 * query, keys[:, :, :40], values[:, :, :40], slots), atol=0.03, rtol=0.03)


@needs_kernel
def test_log_sums_are_those_of_the_logits():
    query, keys, values, slots = random_problem(2, 3, 64, 70, 150)
    out, found = kernel().attend_with_log_sums(query, keys, values, slots, 0.5)
    logits = query.float() @ keys.float().repeat_interleave(3, dim=1).transpose(2, 3) * 0.5
    expected = logits.masked_fill(torch.arange(150) > slots[:, None], -torch.inf).logsumexp(-1)
    assert_close(found, expected, atol=1e-3, rtol=1e-3)
    assert torch.equal(out, kernel().attend(query, keys, values, slots, 0.5))


def bf16_decoder():
    config = LlamaConfig(**{**tiny.SIZE, "hidden_size": 256}, head_dim=64)
    return Decoder(tiny.model(lambda: LlamaForCausalLM(config), scale=2.0).bfloat16(), None, "tiny")


@needs_kernel
def test_candidates_have_the_same_likelihoods_with_the_kernel():
    decoder = bf16_decoder()
    ids = torch.randint(0, 500, (120,), generator=torch.Generator().manual_seed(0))
    candidates = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]

    def likelihoods(used):
        decoder.use_kernel(used)
        buffer = decoder.new_buffer(140)
        logits = decoder.forward_rows(ids, buffer, torch.arange(120))
        return torch.tensor(log_likelihoods(decoder, buffer, logits, candidates))

    assert_close(likelihoods(kernel()), likelihoods(None), atol=0.1, rtol=0.01)


@needs_kernel
def test_a_decoder_recomputes_the_same_with_the_kernel():
    decoder = bf16_decoder()
    ids = torch.randint(0, 500, (300,), generator=torch.Generator().manual_seed(0))
    plain, buffer = (decoder.new_buffer(300) for _ in range(2))
    expected = decoder.forward_rows(ids, plain, torch.arange(300))
    decoder.use_kernel(kernel())
    buffer = decoder.new_buffer(300)
    logits = decoder.forward_rows(ids, buffer, torch.arange(300))
    assert (logits - expected).std() < 0.1 * expected.std()
    kept, rows = buffer.keys.clone(), torch.arange(1, 300, 2)
    buffer.keys[:, :, rows] = 7.0  # stale values that the pass must replace
    assert_close(decoder.forward_rows(ids[rows], buffer, rows), logits, atol=0, rtol=0)
    assert torch.equal(buffer.keys, kept)


@needs_kernel
def test_the_span_scorer_reads_the_same_with_the_kernel():
    torch.manual_seed(0)
    config = BertConfig(hidden_size=64, intermediate_size=96, num_attention_heads=2, num_hidden_layers=2)
    scorer = SpanScorer(BertModel(config).bfloat16().eval(), tiny.wordpiece_tokenizer())
    pairs = [((4, 5, 6), Window(0, tuple(range(7, 7 + n)), ((0, 1),) * n)) for n in (40, 3, 200)]
    with torch.inference_mode():
        expected = scorer(pairs)
        scorer.use_kernel(kernel())
        found = scorer(pairs)
    for before, after in zip(expected, found, strict=True):
        assert torch.equal(before.isinf(), after.isinf()) and before[before.isfinite()].std() > 0
        assert_close(after, before, atol=0.03, rtol=0.03)


@needs_kernel
def test_an_encoder_returns_the_same_with_the_kernel():
    config = BertConfig(hidden_size=64, intermediate_size=96, num_attention_heads=2, num_hidden_layers=2)
    torch.manual_seed(0)
    encoder = Encoder(BertModel(config).bfloat16(), tiny.wordpiece_tokenizer(), (2,))
    texts = ["A ferry.", "The boat crosses the bay twice a day, and more often in summer.", "Tides"]
    ids = range(5, 200)
    expected = encoder.embed_sentences(texts), encoder.embed(ids)
    encoder.use_kernel(kernel())
    found = encoder.embed_sentences(texts), encoder.embed(ids)
    assert_close(found, expected, atol=0.03, rtol=0.03)
    assert min(each.std() for each in found) > 0.1
    alone = torch.cat([encoder.embed_sentences([text]) for text in texts])
    assert_close(found[0], alone, atol=2e-3, rtol=0)  # no sequence attends to another


def test_only_supported_models_use_the_kernel():
    decoder = tiny.decoder()  # fp32, heads of 8
    decoder.use_kernel(object())
    assert decoder.attention_kernel is None and decoder.new_buffer(4).kernel is None
    scorer = SpanScorer(tiny.bert(), tiny.wordpiece_tokenizer())  # fp32
    scorer.use_kernel(object())
    assert scorer([((1, 2), Window(0, (3, 4), ((0, 1), (1, 2))))])[0].shape == (1, 2)


@needs_kernel
@pytest.mark.parametrize("wrong_call", [1, 3])
def test_the_probe_reports_a_shape_that_is_wrong_whichever_it_is(monkeypatch, wrong_call):
    calls, right = [], kernel()

    def attend_wrongly(*arguments):
        calls.append(1)
        return right.attend(*arguments) * (torch.nan if len(calls) == wrong_call else 1.0)

    monkeypatch.setattr("engine.model.kernels.probe.REPEATS", 1)
    result = probe(SimpleNamespace(attend=attend_wrongly))
    assert result.error != result.error
    with pytest.raises(load.KernelUnavailable):
        load._check(result)


# ---- choosing


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """Return a function that makes a shell script the compiler; its last argument but one is the library."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True, "avx512_vnni": True})
    monkeypatch.setattr(sys, "platform", "linux")

    def use(script):
        path = tmp_path / "compiler"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))

    return use


def chosen(folder, timeout_s=load.TIMEOUT_S):
    choice = choose_kernels(folder, timeout_s)
    assert choice.attention is None
    return choice.reason


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no such header' >&2; exit 1", "compiling failed (no such header)"),
        ("exit 3", "compiling failed (exit status 3)"),
        ("sleep 30", "compiling took more than 0.3 s"),
        ("true", "No such file"),
    ],
)
def test_a_compiler_that_fails_or_hangs_leaves_torchs_attention(compiler, tmp_path, script, said):
    compiler(script)
    assert said in chosen(tmp_path / "kernels", timeout_s=0.3)
    assert not list((tmp_path / "kernels").glob("*.so"))


def test_a_failed_compile_is_tried_again_with_another_compiler_or_a_day_later(compiler, tmp_path):
    count = f"echo run >> {tmp_path}/runs"

    def runs():
        return (tmp_path / "runs").read_text().count("run")

    compiler(f"{count}; echo 'no such header' >&2; exit 1")
    reasons = {chosen(tmp_path / "kernels") for _ in range(3)}
    assert len(reasons) == 1 and "no such header" in reasons.pop() and runs() == 1
    compiler(f"{count}; echo 'another reason' >&2; exit 1")
    assert "another reason" in chosen(tmp_path / "kernels") and runs() == 2
    for failure in (tmp_path / "kernels").glob("*.failed"):
        os.utime(failure, (0, 0))
    assert "another reason" in chosen(tmp_path / "kernels") and runs() == 3


@pytest.mark.slow
def test_a_library_that_cannot_be_loaded_leaves_torchs_attention_and_is_not_compiled_at_each_start(compiler, tmp_path):
    compiler(f'echo run >> {tmp_path}/runs; while [ "$1" != "-o" ]; do shift; done; echo garbage > "$2"')
    reason = chosen(tmp_path)
    assert "the self-test failed" in reason and ("invalid ELF header" in reason or "file too short" in reason)
    assert chosen(tmp_path) == reason and (tmp_path / "runs").read_text() == "run\n"


def test_without_a_compiler_the_reason_says_what_to_install(compiler, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", str(tmp_path / "missing"))
    assert "no C++ compiler" in chosen(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_other_processors_and_systems_use_torchs_attention(compiler, monkeypatch, tmp_path):
    for missing in ("avx512_bf16", "avx512_vnni"):
        found = {"avx512_bf16": True, "avx512_vnni": True} | {missing: False}
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=found: found)
        assert "AVX-512 BF16 and VNNI" in chosen(tmp_path)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True, "avx512_vnni": True})
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "needs Linux" in chosen(tmp_path)


def test_a_folder_that_others_can_write_to_is_not_used(compiler, tmp_path):
    compiler("true")
    tmp_path.chmod(0o777)
    assert "other users" in chosen(tmp_path)


def test_an_unexpected_error_leaves_torchs_attention_too(compiler, monkeypatch, tmp_path):
    compiler("true")
    monkeypatch.setattr(load, "_read_result", lambda library: RIGHT)
    monkeypatch.setattr(load, "SlotAttention", lambda library: object().missing)
    assert "AttributeError" in chosen(tmp_path)


def test_a_folder_that_cannot_be_written_leaves_torchs_attention(compiler, tmp_path):
    compiler("true")
    (tmp_path / "kernels").write_text("a file")
    assert "exists" in chosen(tmp_path / "kernels")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"speedup": 0.9}, "0.90x"),
        ({"error": 2e-3}, "error is 0.002"),
        ({"error": float("nan")}, "error is nan"),
    ],
)
def test_a_kernel_that_is_slow_or_wrong_is_not_used_nor_compiled_again(compiler, monkeypatch, tmp_path, change, said):
    compiler('while [ "$1" != "-o" ]; do shift; done; echo garbage > "$2"')
    monkeypatch.setattr(load, "_probe", lambda library, timeout_s: replace(RIGHT, **change))
    assert said in chosen(tmp_path)
    compiled = [path.stat().st_mtime_ns for path in tmp_path.glob("*.so")]
    assert said in chosen(tmp_path) and len(compiled) == 1
    assert [path.stat().st_mtime_ns for path in tmp_path.glob("*.so")] == compiled


@needs_kernel
def test_a_stored_result_is_used_again_and_a_damaged_one_is_measured_again(monkeypatch, tmp_path):
    probed = []

    def compile_again(compiler, library, timeout_s):
        library.unlink(missing_ok=True)  # a loaded library must not be written to
        copy(compiled, library)

    compiled = compiled_library()
    monkeypatch.setattr(load, "_compile", compile_again)
    monkeypatch.setattr(load, "_probe", lambda library, timeout_s: probed.append(library) or RIGHT)
    for _ in range(2):
        choice = choose_kernels(tmp_path)
        assert choice.attention is not None and "2.0x" in choice.reason
    assert len(probed) == 1
    (result,) = tmp_path.glob("*.json")
    stored = json.loads(result.read_text())
    for damaged in ("{", "[]", json.dumps({"speedup": 2.0}), json.dumps(stored | {"error": None})):
        result.write_text(damaged)
        assert choose_kernels(tmp_path).attention is not None
    assert len(probed) == 5
    (library,) = tmp_path.glob("*.so")
    torn = library.read_bytes()[:-9]
    library.unlink()
    library.write_bytes(torn)
    assert choose_kernels(tmp_path).attention is not None and len(probed) == 6
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)  # another machine with the same folder
    assert choose_kernels(tmp_path).attention is not None and len(probed) == 7


@needs_kernel
def test_the_probe_finds_the_kernel_right(monkeypatch, tmp_path):
    library = compiled_library()
    monkeypatch.chdir(tmp_path)
    for name in ("engine", "torch"):  # modules of the same names in the current folder
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    result = load._probe(library, load.TIMEOUT_S)
    assert 0 < result.error <= load.MAX_ERROR_RATIO * result.torch_error
    assert result.speedup > 0
