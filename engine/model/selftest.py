"""Self-test of a loaded model: recomputing all tokens must give full prefill's logits.

The reference is transformers' own forward pass, which shares no attention, cache or mask code with the engine.
"""

import time

import torch

from engine.errors import UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.spec import SelfTestResult

NUM_TOKENS = 48
PREFIX_TOKENS = 8
# Root mean square of the logits' differences, in standard deviations of the reference logits.
MAX_DEVIATION = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.05}


@torch.inference_mode()
def selftest(decoder: Decoder) -> SelfTestResult:
    """Compare recomputed logits with the reference. Raises UnsupportedModel if they deviate too much."""
    began = time.perf_counter()
    ids = torch.randint(0, decoder.spec.vocab_size, (NUM_TOKENS,), generator=torch.Generator().manual_seed(0))
    reference = decoder.reference_logits(ids)
    buffer = decoder.new_buffer(NUM_TOKENS)
    decoder.forward_rows(ids[:PREFIX_TOKENS], buffer, torch.arange(PREFIX_TOKENS))
    buffer.keys[:, :, PREFIX_TOKENS:] = 7.0  # stale values that the next pass must replace
    buffer.values[:, :, PREFIX_TOKENS:] = 7.0
    odd = torch.arange(PREFIX_TOKENS + 1, NUM_TOKENS, 2)
    decoder.forward_rows(ids[PREFIX_TOKENS:], buffer, torch.arange(PREFIX_TOKENS, NUM_TOKENS))
    logits = decoder.forward_rows(ids[odd], buffer, odd)  # the rows between them keep their exact KV
    difference = (logits - reference) / reference.std()
    deviation = float(difference.square().mean().sqrt())
    bound = MAX_DEVIATION[decoder.dtype]
    if not deviation <= bound:
        raise UnsupportedModel(
            f"{decoder.name} failed its self-test: recomputed logits differ by {deviation:.3g} standard deviations."
        )
    return SelfTestResult(deviation, float(difference.abs().max()), bound, (time.perf_counter() - began) * 1e3)
