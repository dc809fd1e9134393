"""Choose how a decoder decodes on this machine: by the compiled step, if it is right and faster, or by torch."""

import time

import torch

from engine.model.decoder import Decoder
from engine.model.kernels.decode_step import DecodeStep
from engine.model.kernels.load import KernelChoice
from engine.model.kv_buffer import RowPass
from engine.model.loading.load import MAX_DEVIATION
from engine.model.loading.resolve import free_bytes
from engine.model.sampling import TokenSampler, extend

PROMPT_TOKENS = 16
SPEED_STEPS = 8  # timed at most; after SPEED_TEST_S it ends with three or more
SPEED_TEST_S = 0.2
FREE_MEMORY_FACTOR = 4  # an 8-bit copy of the weights may take a quarter of the free memory


def choose_decoding(decoder: Decoder, kernels: KernelChoice, weights: str) -> str:
    """Let a decoder decode as fast as it can, and measure that; return how, and why, as a sentence ('' on a GPU).

    weights  that the compiled step reads: 'bf16', 'int8', or 'auto': int8 if there is memory for a copy
    """
    decoder.tokens_per_second = torch_speed = measure_decode_speed(decoder)
    if decoder.device.type != "cpu":
        return ""
    if kernels.compiled is None:
        return kernels.reason
    is_int8 = weights == "int8"
    if weights == "auto":
        is_int8 = FREE_MEMORY_FACTOR * decoder.spec.num_parameters <= free_bytes(decoder.device)
    try:
        decoder.decode_step = DecodeStep(kernels.compiled, decoder.model, is_int8)
        deviation = _deviation(decoder, decoder.decode_step)
    except (ValueError, OSError, MemoryError, RuntimeError) as error:  # torch raises RuntimeError without memory
        decoder.decode_step = None
        return f"torch's: {error}."
    speed = measure_decode_speed(decoder)
    if not deviation <= MAX_DEVIATION[decoder.dtype]:
        reason = f"torch's: the logits of KVScope's kernel differ by {deviation:.2g} standard deviations."
    elif speed <= torch_speed:
        reason = f"torch's: KVScope's kernel has {speed / torch_speed:.2f}x its speed on this processor."
    else:
        decoder.tokens_per_second = speed
        name = "8-bit" if is_int8 else "bf16"
        return f"KVScope's kernel with {name} weights, {speed / torch_speed:.1f}x torch's speed."
    decoder.decode_step = None
    return reason


@torch.inference_mode()
def _deviation(decoder: Decoder, step: DecodeStep) -> float:
    """Return how far a compiled step's logits are from torch's, in standard deviations (root mean square)."""
    start = 140  # more than two blocks of keys
    ids = torch.randint(0, decoder.spec.vocab_size, (start + 8,), generator=torch.Generator().manual_seed(0))
    buffer = decoder.new_buffer(len(ids))
    decoder.forward_rows(ids[:start], buffer, torch.arange(start))
    deviations = []
    for count in (1, 8):
        slots = torch.arange(start, start + count)
        found = step.run(ids[slots].tolist(), [buffer] * count, slots.tolist())
        expected = decoder.logits(decoder.forward(ids[slots][None], slots[None], RowPass(buffer, slots))[0])
        deviations.append(((found - expected) / expected.std()).square().mean().sqrt())
    return float(torch.stack(deviations).max())  # NaN if one is


def measure_decode_speed(decoder: Decoder) -> float:
    """Return the tokens per second of decoding after a short text: of the fastest of a few steps after a warm-up step.

    Other programs, and the rest of the start, use the cores meanwhile, which makes single steps ten times slower.
    """
    ids = torch.arange(PROMPT_TOKENS) % decoder.spec.vocab_size
    buffer = decoder.new_buffer(PROMPT_TOKENS + 1 + SPEED_STEPS)
    decoder.forward_rows(ids, buffer, torch.arange(PROMPT_TOKENS))
    token, sampler = 0, TokenSampler()
    times: list[float] = []
    while buffer.length < buffer.capacity:
        began = time.perf_counter()
        (token,) = extend(decoder, buffer, token, (), sampler)
        decoder.synchronize()
        times.append(time.perf_counter() - began)
        if len(times) > 3 and sum(times) > SPEED_TEST_S:
            break
    return 1 / min(times[1:])
