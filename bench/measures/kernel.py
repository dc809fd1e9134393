"""The prefill kernels (attention, norms, rotations, activation) against torch, paired: the main model's forward pass.

Each pass computes all tokens (ratio 1, full prefill) or evenly spread windows of 8 of them and 32 tokens of a question.
The passes alternate. --methods does not apply.
"""

from argparse import ArgumentParser, Namespace
from time import perf_counter
from typing import Any

import torch

from bench.bootstrap import median_interval, medians
from bench.errors import InvalidArgument
from bench.harness.engine import model_config
from bench.tables import columns_of, progress
from engine.builder import load_models
from engine.model.decoder import Decoder
from engine.strategies.windows import WINDOW_TOKENS

TITLE = "prefill kernels, paired with torch"
COLUMNS = columns_of("length ratio kernel_ms torch_ms kernel_speedup n")
QUESTION_TOKENS = 32


def add_arguments(parser: ArgumentParser) -> None:
    """Measure full prefill too by default."""
    parser.set_defaults(ratios=[0.2, 1.0])


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length and ratio. Raises InvalidArgument if the kernel is not used on this machine."""
    models = load_models(model_config(arguments))
    decoder = models.primary
    kernel, fused = decoder.attention_kernel, decoder.fused_layers
    if kernel is None:
        raise InvalidArgument(f"There is nothing to compare: the attention is {models.attention}")
    rows = []
    for length in arguments.lengths:
        for ratio in arguments.ratios:
            samples = []
            for number in progress(range(arguments.samples + 1), f"{length} tokens at {ratio:g}"):
                pair = {}
                for name, used in (("kernel_ms", kernel), ("torch_ms", None)):
                    decoder.use_kernel(used)
                    decoder.fused_layers = fused if used else []
                    pair[name] = _pass_ms(decoder, length, ratio)
                if number:  # the first is a warm-up
                    samples.append(pair | {"kernel_speedup": pair["torch_ms"] / pair["kernel_ms"]})
            low, high = median_interval([sample["kernel_speedup"] for sample in samples])
            interval = {"kernel_speedup_low": low, "kernel_speedup_high": high}
            rows.append({"length": length, "ratio": ratio, **medians(samples), **interval})
    return rows


def _pass_ms(decoder: Decoder, length: int, ratio: float) -> float:
    """Return the time of one pass over the rows of `length` context tokens, and a question if not all are computed."""
    num_tokens = length + QUESTION_TOKENS
    buffer = decoder.new_buffer(num_tokens)
    buffer.keys.zero_()
    buffer.values.zero_()
    rows = spread_rows(length, ratio)
    ids = rows % 1000 + 100
    began = perf_counter()
    decoder.forward_rows(ids, buffer, rows)
    return 1e3 * (perf_counter() - began)


def spread_rows(length: int, ratio: float) -> torch.Tensor:
    """Return the rows of evenly spread windows of `length` context tokens, all if the ratio is 1, and of a question."""
    windows = torch.arange(length // WINDOW_TOKENS)
    chosen = windows[(windows * ratio).floor() != ((windows - 1) * ratio).floor()]
    context = (chosen[:, None] * WINDOW_TOKENS + torch.arange(WINDOW_TOKENS)).flatten()
    return torch.cat((torch.arange(length) if ratio == 1 else context, torch.arange(length, length + QUESTION_TOKENS)))
