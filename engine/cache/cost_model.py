"""Prefill cost on this machine: T(cached, computed), measured on a small grid and interpolated bilinearly.

RAGCache's eviction policy (arXiv:2404.12457) weighs KV by the time to compute it again after the tokens before it.
"""

import json
import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch

from engine.model.decoder import Decoder
from store.atomic import write_atomic

CACHED_TOKENS = (0, 512, 2048)
COMPUTED_TOKENS = (1, 64, 256, 1024)
MAX_REPEATED_MS = 100.0  # slower passes are measured once: their noise matters less
MIN_SPEED_TOKENS = 64  # a shorter pass is limited by reading the weights and does not show the compute speed
MAX_MEASURED_MS = 500.0  # slower passes are not run but estimated from their FLOPs
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CostModel:
    """Milliseconds to compute `computed` tokens after `cached` ones. The field names are keys of the stored JSON."""

    cached: tuple[int, ...]  # tokens, ascending, at least two values
    computed: tuple[int, ...]  # likewise
    ms: tuple[tuple[float, ...], ...]  # [cached][computed]

    def __post_init__(self) -> None:
        shape = [len(row) for row in self.ms]
        if min(len(self.cached), len(self.computed)) < 2 or shape != [len(self.computed)] * len(self.cached):
            raise ValueError(f"a grid of {len(self.cached)} x {len(self.computed)} points has rows of {shape}")

    def estimate_ms(self, cached: int, computed: int) -> float:
        """Return T(cached, computed) in ms; extrapolates linearly outside the grid, but never below 0."""
        row, down = _grid_cell(self.cached, cached)
        column, right = _grid_cell(self.computed, computed)
        upper, lower = self.ms[row], self.ms[row + 1]
        above = upper[column] * (1 - right) + upper[column + 1] * right
        below = lower[column] * (1 - right) + lower[column + 1] * right
        return max(0.0, above * (1 - down) + below * down)

    def ms_per_token(self, cached: int, computed: int) -> float:
        return self.estimate_ms(cached, computed) / computed if computed else 0.0


def measure_costs(decoder: Decoder) -> CostModel:
    """Measure a model on this machine, in a few seconds. Fast passes take the better of two runs."""
    rows = []
    flops_per_ms = 0.0
    _time_pass(decoder, 0, MIN_SPEED_TOKENS)  # warm-up
    for cached in CACHED_TOKENS:
        row = []
        for computed in COMPUTED_TOKENS:
            flops = decoder.spec.flops(computed, computed * cached + computed * (computed + 1) // 2)
            if flops_per_ms and flops / flops_per_ms > MAX_MEASURED_MS:
                row.append(flops / flops_per_ms)
                continue
            ms = _time_pass(decoder, cached, computed)
            if ms <= MAX_REPEATED_MS:
                ms = min(ms, _time_pass(decoder, cached, computed))
            row.append(ms)
            if computed >= MIN_SPEED_TOKENS:
                flops_per_ms = flops / max(ms, 1e-3)
        rows.append(tuple(row))
    return CostModel(CACHED_TOKENS, COMPUTED_TOKENS, tuple(rows))


def load_or_measure(path: Path, measure: Callable[[], CostModel]) -> CostModel:
    """Return the costs stored in a file; if it is missing or invalid, measure them and write it."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(path.read_text())
        rows = tuple(tuple(float(ms) for ms in row) for row in stored["ms"])
        return CostModel(tuple(stored["cached"]), tuple(stored["computed"]), rows)
    costs = measure()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, (json.dumps(asdict(costs)) + "\n").encode())
    except OSError as error:
        log.warning("the measured costs could not be saved: %s", error)
    return costs


def _time_pass(decoder: Decoder, cached: int, computed: int) -> float:
    """Return the milliseconds of one pass over `computed` tokens after `cached` ones."""
    buffer = decoder.new_buffer(cached + computed)
    buffer.keys.zero_()
    buffer.values.zero_()
    ids = torch.arange(computed) % 100 + 1
    began = perf_counter()
    decoder.forward_rows(ids, buffer, torch.arange(cached, cached + computed))
    decoder.synchronize()
    return 1e3 * (perf_counter() - began)


def _grid_cell(points: Sequence[int], value: int) -> tuple[int, float]:
    """Return the grid cell that contains a value, and the value's relative position in it."""
    cell = min(max(bisect_right(points, value) - 1, 0), len(points) - 2)
    return cell, (value - points[cell]) / (points[cell + 1] - points[cell])
