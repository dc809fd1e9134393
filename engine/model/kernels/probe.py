"""Check a compiled kernel against torch's attention and time both: `python -m engine.model.kernels.probe LIBRARY`.

Runs in a process of its own, since a library for another processor can crash it. Prints a `ProbeResult` as JSON.
"""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from engine.model.attention import attend, attention_logits, causal_mask
from engine.model.kernels.slot_attention import HEAD_DIMS, SlotAttention
from engine.model.kv_buffer import split_rows

REPEATS = 15
TIMED = (9, 3, 64, 400, 2048)  # query heads, key heads, head dimension, rows, keys
SHAPES = [TIMED, *((4, 2, head_dim, 45, 141) for head_dim in HEAD_DIMS), (3, 1, 64, 1, 33), (2, 2, 64, 7, 7)]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """How a kernel compares with torch's attention on this machine."""

    error: float  # this and the next: mean absolute error against fp32, relative to the mean absolute output; the worst
    torch_error: float  # at the same shape
    speedup: float  # over torch, of the fastest runs: other programs, and the rest of the start, share the cores


def probe(kernel: SlotAttention) -> ProbeResult:
    """Return the worst error over all shapes, and the speedup at TIMED."""
    generator = torch.Generator().manual_seed(0)
    errors: list[tuple[float, float]] = []  # of the kernel and of torch, by shape
    times: list[tuple[float, float]] = []  # of torch and of the kernel, in turns
    for shape in SHAPES:
        num_heads, num_kv_heads, head_dim, rows, num_keys = shape
        query = torch.randn(1, num_heads, rows, head_dim, generator=generator).bfloat16()
        # Slots past the last row hold what must not be read.
        keys, values = (torch.full((1, num_kv_heads, num_keys + 3, head_dim), torch.nan).bfloat16() for _ in range(2))
        for tensor in (keys, values):
            tensor[:, :, :num_keys] = torch.randn(1, num_kv_heads, num_keys, head_dim, generator=generator)
        slots = torch.randperm(num_keys, generator=generator)[:rows].sort().values
        slots[-1] = num_keys - 1
        scaling = head_dim**-0.5
        mask = causal_mask(slots, num_keys, torch.bfloat16)
        segments = split_rows(slots, torch.bfloat16)  # as in the app
        seen_keys, seen_values = keys[:, :, :num_keys], values[:, :, :num_keys]

        def run_kernel(query: Tensor = query, keys: Tensor = keys, values: Tensor = values) -> Tensor:
            return kernel.attend(query, keys, values, slots, scaling)  # noqa: B023  called at once

        def run_torch(query: Tensor = query, keys: Tensor = seen_keys, values: Tensor = seen_values) -> Tensor:
            return torch.cat(
                [
                    attend(query[:, :, part], keys[:, :, :count], values[:, :, :count], scaling, part_mask)  # noqa: B023
                    for part, count, part_mask in segments  # noqa: B023
                ],
                dim=2,
            )

        weights = attention_logits(query, seen_keys, scaling, mask).softmax(-1)
        exact = (weights @ seen_values.float()).view(query.shape)
        differences = [(run().float() - exact).abs().mean() / exact.abs().mean() for run in (run_kernel, run_torch)]
        errors.append((differences[0].item(), differences[1].item()))
        if shape == TIMED:
            times = [(_seconds(run_torch), _seconds(run_kernel)) for _ in range(REPEATS)]
    worst = max(errors, key=lambda pair: math.inf if math.isnan(pair[0]) else pair[0] / pair[1])
    torch_times, kernel_times = zip(*times, strict=True)
    return ProbeResult(*worst, min(torch_times) / min(kernel_times))


def _seconds(run: Callable[[], Tensor]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


if __name__ == "__main__":
    with torch.inference_mode():
        print(json.dumps(asdict(probe(SlotAttention(Path(sys.argv[1]))))))  # noqa: T201
