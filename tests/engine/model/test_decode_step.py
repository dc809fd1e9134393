"""The compiled decoding step against models in fp32, and when it is used."""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from engine.model.attention import ParallelLayout
from engine.model.decoder import Decoder
from engine.model.kernels.decode_step import MAX_ROWS, DecodeStep
from engine.model.kernels.load import KernelChoice
from engine.model.kernels.thread_choice import ThreadChoice
from engine.model.loading import decoding
from engine.model.loading.decoding import choose_decoding
from engine.model.prompt_lookup import PromptLookup
from engine.model.sampling import TokenSampler, decode, decode_batch, extend
from engine.types import ParallelAttention
from tests.support.kernels import compiled_library, needs_kernel

SIZE = dict(vocab_size=501, hidden_size=144, intermediate_size=176, num_hidden_layers=3, max_position_embeddings=2048)
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZE, num_attention_heads=9, num_key_value_heads=3, head_dim=64)),
    "llama with biases": lambda: LlamaForCausalLM(
        LlamaConfig(
            **SIZE, num_attention_heads=2, num_key_value_heads=1, head_dim=128, attention_bias=True, mlp_bias=True
        )
    ),
    "qwen2": lambda: Qwen2ForCausalLM(
        Qwen2Config(**SIZE | {"hidden_size": 128}, num_attention_heads=2, num_key_value_heads=1)
    ),
    "qwen3": lambda: Qwen3ForCausalLM(
        Qwen3Config(**SIZE, num_attention_heads=4, num_key_value_heads=4, head_dim=128, tie_word_embeddings=True)
    ),
}
IDS = torch.randint(3, 501, (260,), generator=torch.Generator().manual_seed(7))


def make_model(name="llama"):
    torch.manual_seed(3)
    model = MODELS[name]().eval()
    for parameter_name, parameter in model.named_parameters():
        if "norm" in parameter_name or "bias" in parameter_name:
            parameter.data += 0.3 * torch.randn_like(parameter)
        else:
            parameter.data *= 3.0  # differences between tokens become visible
    return model.to(torch.bfloat16)


def make_decoder(name="llama", use_int8=False):
    decoder = Decoder(make_model(name), None, name)
    decoder.decode_step = DecodeStep(compiled_library(), decoder.model, use_int8)
    return decoder


def prefill(decoder, length, capacity=None):
    buffer = decoder.new_buffer(capacity or len(IDS))
    decoder.forward_rows(IDS[:length], buffer, torch.arange(length))
    return buffer


def run(decoder, slots, buffers):
    return decoder.decode_step.run(IDS[list(slots)].tolist(), buffers, slots)


def deviation(found, expected):
    return float(((found - expected) / expected.std()).square().mean().sqrt())


@torch.inference_mode()
def fp32_logits(model, length):
    """Return the last logits of transformers' own forward pass in fp32."""
    model.set_attn_implementation("sdpa")
    return model.float()(IDS[None, :length], use_cache=False).logits[0, -1]


@needs_kernel
@pytest.mark.parametrize("length", [1, 15, 200])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_computes_the_models_logits(name, length):
    decoder = make_decoder(name)
    buffer = prefill(decoder, length)
    found = run(decoder, [length], [buffer])[0]
    assert buffer.length == length + 1
    torch_buffer = prefill(decoder, length)
    by_torch = decoder.forward_rows(IDS[length : length + 1], torch_buffer, torch.tensor([length]))
    expected = fp32_logits(decoder.model, length + 1)
    assert deviation(found, expected) <= 1.1 * deviation(by_torch, expected) + 1e-3
    assert deviation(found, expected) < 0.05
    stored, by_torch_stored = (each[:, :, length].float() for each in (buffer.keys, torch_buffer.keys))
    torch.testing.assert_close(stored, by_torch_stored, atol=0.1, rtol=0.05)


@needs_kernel
@pytest.mark.parametrize("name", MODELS)
def test_with_8_bit_weights_it_computes_what_the_rounded_weights_give(name):
    decoder = make_decoder(name, use_int8=True)
    rounded = deepcopy(decoder.model).float()
    rounded.lm_head.weight = torch.nn.Parameter(rounded.lm_head.weight.clone())  # the embeddings are not rounded
    for module in rounded.modules():
        if isinstance(module, torch.nn.Linear):
            scale = module.weight.data.abs().amax(1, keepdim=True) / 127
            module.weight.data = (module.weight.data / scale).round() * scale
    buffer = decoder.new_buffer(40)
    for slot in range(40):
        found = run(decoder, [slot], [buffer])[0]
    rounded.set_attn_implementation("sdpa")
    with torch.inference_mode():
        expected = rounded(IDS[None, :40], use_cache=False).logits[0, -1]
    assert deviation(found, expected) < 0.03


@needs_kernel
@pytest.mark.parametrize("use_int8", [False, True])
def test_a_row_does_not_depend_on_the_other_rows_bit_for_bit(use_int8):
    decoder = make_decoder(use_int8=use_int8)
    single, start = prefill(decoder, 100), 100
    rows = [run(decoder, [slot], [single])[0] for slot in range(start, start + MAX_ROWS)]
    for count in range(1, MAX_ROWS + 1):
        slots, buffer = range(start, start + count), prefill(decoder, start)
        assert torch.equal(run(decoder, slots, [buffer] * count), torch.stack(rows[:count]))
        assert torch.equal(buffer.keys[:, :, : start + count], single.keys[:, :, : start + count])
    lengths = (3, 250, 31)
    buffers = [prefill(decoder, length) for length in lengths]
    together = run(decoder, lengths, buffers)
    for length, logits in zip(lengths, together, strict=True):
        alone = run(decoder, [length], [prefill(decoder, length)])[0]
        assert torch.equal(alone, logits)


@needs_kernel
def test_amx_changes_no_bit():
    torch.manual_seed(4)
    config = LlamaConfig(**SIZE | {"hidden_size": 192, "intermediate_size": 320}, num_attention_heads=3, head_dim=64)
    decoder = Decoder(LlamaForCausalLM(config).to(torch.bfloat16), None, "llama")
    decoder.decode_step = step = DecodeStep(compiled_library(), decoder.model, use_int8=True)
    if not step.use_amx:
        pytest.skip("this processor has no AMX")
    for count in range(1, MAX_ROWS + 1):
        slots = range(50, 50 + count)
        step.use_amx = True
        with_amx = run(decoder, slots, [prefill(decoder, 50)] * count)
        step.use_amx = False
        assert torch.equal(run(decoder, slots, [prefill(decoder, 50)] * count), with_amx)


@needs_kernel
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_changes_rounding_only(monkeypatch, threads):
    decoder = make_decoder()
    expected = run(decoder, [200], [prefill(decoder, 200)])
    buffer = prefill(decoder, 200)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    torch.testing.assert_close(run(decoder, [200], [buffer]), expected, atol=0.05, rtol=0.05)


@needs_kernel
def test_answers_are_the_same_one_by_one_in_a_batch_and_with_lookup_also_in_bf16():
    decoder = make_decoder()
    prompts = [IDS[:50], IDS[100:220], IDS[30:41]]

    def start():
        buffers = [decoder.new_buffer(len(prompt) + 40) for prompt in prompts]
        logits = [decoder.forward_rows(p, b, torch.arange(len(p))) for p, b in zip(prompts, buffers, strict=True)]
        return buffers, [int(each.argmax()) for each in logits]

    def answers(lookup):
        found = []
        for prompt, buffer, first in zip(prompts, *start(), strict=True):
            known = PromptLookup([*prompt.tolist(), *free[len(found)]]) if lookup else None
            found.append(list(decode(decoder, buffer, [first], TokenSampler(), frozenset(), 30, lookup=known)))
        return found

    free = answers(lookup=False)
    assert answers(lookup=True) == free  # every proposal is right, so passes have several rows
    buffers, firsts = start()
    assert decode_batch(decoder, buffers, firsts, [TokenSampler() for _ in firsts], frozenset(), 30) == free


@needs_kernel
def test_a_batch_of_many_buffers_gives_each_what_it_gives_alone_whatever_the_others_need():
    decoder = make_decoder()
    starts = range(4, 4 + 3 * MAX_ROWS, 2)  # 12 prompts

    def prompts():
        return [prefill(decoder, start, start + 20) for start in starts]

    parallel = ParallelLayout(slice(2, 4), 1, ParallelAttention(1.0, 1.0))
    buffers, firsts = prompts(), [5] * len(starts)
    buffers[1].parallel = parallel
    together = decode_batch(decoder, buffers, firsts, [TokenSampler() for _ in firsts], frozenset(), 9)
    for number, (buffer, answer) in enumerate(zip(prompts(), together, strict=True)):
        buffer.parallel = parallel if number == 1 else None
        assert list(decode(decoder, buffer, [5], TokenSampler(), frozenset(), 9)) == answer


@needs_kernel
def test_a_slot_past_the_buffer_is_an_error():
    decoder = make_decoder()
    with pytest.raises(ValueError, match="past the buffer"):
        run(decoder, [10], [prefill(decoder, 10, 10)])


@needs_kernel
def test_parallel_chunks_and_long_drafts_are_left_to_torch(monkeypatch):
    decoder = make_decoder()
    buffer = prefill(decoder, 20)
    calls = []
    monkeypatch.setattr(decoder.decode_step, "run", lambda *arguments: calls.append(arguments))
    extend(decoder, buffer, int(IDS[20]), IDS[21 : 22 + MAX_ROWS].tolist(), TokenSampler())
    assert calls == []
    buffer.parallel = SimpleNamespace()
    assert not decoder.can_step(buffer)


# ---- choosing


def kernels():
    return KernelChoice(None, "torch's: slow.", compiled_library())


def speeds(monkeypatch, torch_speed, kernel_speed):
    def measure(decoder):
        return kernel_speed if decoder.decode_step else torch_speed

    monkeypatch.setattr(decoding, "measure_decode_speed", measure)


@needs_kernel
@pytest.mark.parametrize(
    ("weights", "free_bytes", "said"),
    [("auto", 10**9, "8-bit"), ("auto", 10**5, "bf16"), ("bf16", 10**9, "bf16"), ("int8", 10**5, "8-bit")],
)
def test_the_faster_step_is_used_with_the_weights_that_fit(monkeypatch, weights, free_bytes, said):
    monkeypatch.setattr(decoding, "free_bytes", lambda device: free_bytes)
    speeds(monkeypatch, 10.0, 25.0)
    decoder = Decoder(make_model(), None, "tiny")
    reason = choose_decoding(decoder, kernels(), weights)
    assert reason == f"KVScope's kernel with {said} weights, 2.5x torch's speed."
    assert decoder.decode_step is not None and decoder.tokens_per_second == 25.0


@needs_kernel
def test_a_slow_or_wrong_step_is_not_used(monkeypatch):
    decoder = Decoder(make_model(), None, "tiny")
    speeds(monkeypatch, 10.0, 9.0)
    assert "0.90x its speed" in choose_decoding(decoder, kernels(), "auto")
    assert decoder.decode_step is None and decoder.tokens_per_second == 10.0
    speeds(monkeypatch, 10.0, 20.0)
    for wrong in (1.0, float("nan")):
        monkeypatch.setattr(decoding, "_deviation", lambda decoder, step, wrong=wrong: wrong)
        assert "differ by" in choose_decoding(decoder, kernels(), "auto")
        assert decoder.decode_step is None and decoder.tokens_per_second == 10.0


@needs_kernel
def test_models_that_the_step_cannot_run_are_decoded_by_torch():
    other = LlamaForCausalLM(LlamaConfig(**SIZE, num_attention_heads=3, head_dim=32)).to(torch.bfloat16)
    for model in (other, make_model().float()):
        decoder = Decoder(model, None, "tiny")
        assert "is not supported" in choose_decoding(decoder, kernels(), "auto")
        assert decoder.decode_step is None and decoder.tokens_per_second > 0


def test_without_a_library_torch_decodes_and_the_reason_says_why():
    decoder = Decoder(make_model(), None, "tiny")
    assert choose_decoding(decoder, KernelChoice(None, "torch's: requested."), "auto") == "torch's: requested."
    assert decoder.tokens_per_second > 0


@needs_kernel
def test_without_memory_torch_decodes(monkeypatch):
    decoder = Decoder(make_model(), None, "tiny")
    monkeypatch.setattr(decoding, "DecodeStep", lambda *arguments: torch.empty(2**60))
    assert "torch's" in choose_decoding(decoder, kernels(), "auto") and decoder.decode_step is None


@needs_kernel
@pytest.mark.parametrize("use_int8", [False, True])
def test_the_number_of_threads_does_not_change_a_bit(monkeypatch, use_int8):
    decoder = make_decoder(use_int8=use_int8)
    found = []
    for threads in (4, 2, 1):
        monkeypatch.setattr(decoder.decode_step, "_threads", ThreadChoice(torch.get_num_threads()))
        monkeypatch.setattr(decoder.decode_step._threads, "next", lambda threads=threads: threads)
        found.append(run(decoder, [200], [prefill(decoder, 200)]))
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
