"""The law that guards every model at load: recompute everything = full prefill, on a short text.

The reference is transformers' own forward pass with its own attention and mask; it shares no attention, cache or mask
code with the engine.
"""

import time

import torch

from engine.errors import UnsupportedModel
from engine.model.decoder import Decoder
from engine.selftest_result import SelfTestResult

TOKENS = 48
PREFIX = 8
# Root mean square of the logits' differences, in units of the reference logits' standard deviation.
BOUNDS = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.05}


@torch.inference_mode()
def selftest(decoder: Decoder) -> SelfTestResult:
    """Return what was measured. Raises UnsupportedModel if the deviation is past its bound."""
    began = time.perf_counter()
    ids = torch.randint(0, decoder.spec.vocab, (TOKENS,), generator=torch.Generator().manual_seed(0))
    reference = decoder.reference_logits(ids)
    buffer = decoder.buffer(TOKENS)
    decoder.prefill(ids[:PREFIX], buffer, torch.arange(PREFIX))
    buffer.keys[:, :, PREFIX:] = 7.0  # stale KV that recomputation must replace
    buffer.values[:, :, PREFIX:] = 7.0
    odd = torch.arange(PREFIX + 1, TOKENS, 2)
    decoder.prefill(ids[PREFIX:], buffer, torch.arange(PREFIX, TOKENS))
    found = decoder.prefill(ids[odd], buffer, odd)  # rows in between keep their exact KV
    difference = (found - reference) / reference.std()
    deviation, bound = float(difference.square().mean().sqrt()), BOUNDS[decoder.dtype]
    if not deviation <= bound:
        raise UnsupportedModel(
            f"{decoder.name} failed its self-test: recomputed logits differ by {deviation:.3g} standard deviations."
        )
    return SelfTestResult(deviation, float(difference.abs().max()), bound, (time.perf_counter() - began) * 1e3)
