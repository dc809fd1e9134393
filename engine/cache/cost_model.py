"""What computing costs on this machine: T(cached, computed), measured once on a small grid, bilinear in between.

RAGCache's replacement policy (arXiv:2404.12457) weighs KV by the time that computing it again would take, and that
depends on how much stands before it as well as on its length.
"""

import json
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from engine.model.decoder import Decoder

CACHED = (0, 512, 2048)
COMPUTED = (1, 64, 256, 1024)
QUICK_MS = 100.0  # a longer pass is measured once: noise matters less there, and somebody waits
FEW = 64  # tokens; a pass over fewer waits for the weights and says nothing about more
PATIENCE_MS = 500.0  # a point that should take longer is estimated from its operations
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CostModel:
    """Milliseconds of a pass over `computed` tokens behind `cached` ones.

    cached, computed  ascending tokens, at least two each
    ms                [cached][computed]
    """

    cached: tuple[int, ...]
    computed: tuple[int, ...]
    ms: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        shape = [len(row) for row in self.ms]
        if min(len(self.cached), len(self.computed)) < 2 or shape != [len(self.computed)] * len(self.cached):
            raise ValueError(f"a grid of {len(self.cached)} x {len(self.computed)} points has rows of {shape}")

    def of(self, cached: int, computed: int) -> float:
        """Return T(cached, computed) in milliseconds; outside the grid as its outermost cells go on."""
        row, down = _cell(self.cached, cached)
        column, right = _cell(self.computed, computed)
        upper, lower = self.ms[row], self.ms[row + 1]
        above = upper[column] * (1 - right) + upper[column + 1] * right
        below = lower[column] * (1 - right) + lower[column + 1] * right
        return max(0.0, above * (1 - down) + below * down)

    def per_token(self, cached: int, computed: int) -> float:
        """Return T(cached, computed) / computed; 0 where nothing is computed."""
        return self.of(cached, computed) / computed if computed else 0.0


def measured(decoder: Decoder, clock: Callable[[], float] = time.perf_counter) -> CostModel:
    """Measure a model on this machine: a few seconds, once. Each quick point is the better of two runs.

    clock  seconds, monotonic
    """
    rows, speed = [], 0.0  # operations a millisecond
    _pass_ms(decoder, 0, FEW, clock)  # the first pass of a process is slower
    for cached in CACHED:
        row = []
        for computed in COMPUTED:
            work = decoder.spec.operations(computed, computed * cached + computed * (computed + 1) // 2)
            if speed and work / speed > PATIENCE_MS:
                row.append(work / speed)
            else:
                first = _pass_ms(decoder, cached, computed, clock)
                row.append(first if first > QUICK_MS else min(first, _pass_ms(decoder, cached, computed, clock)))
                if computed >= FEW:
                    speed = work / max(row[-1], 1e-3)
        rows.append(tuple(row))
    return CostModel(CACHED, COMPUTED, tuple(rows))


def kept(path: Path, measure: Callable[[], CostModel]) -> CostModel:
    """Return the costs that a file holds, or measure them and write the file; one that cannot be used is replaced."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        held = json.loads(path.read_text())
        rows = tuple(tuple(float(ms) for ms in row) for row in held["ms"])
        return CostModel(tuple(held["cached"]), tuple(held["computed"]), rows)
    costs = measure()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(costs)) + "\n")
    except OSError as error:
        log.warning("the measured costs are not kept: %s", error)
    return costs


def _pass_ms(decoder: Decoder, cached: int, computed: int, clock: Callable[[], float]) -> float:
    buffer = decoder.buffer(cached + computed)
    buffer.keys.zero_()
    buffer.values.zero_()
    ids = torch.arange(computed) % 100 + 1
    began = clock()
    decoder.prefill(ids, buffer, torch.arange(cached, cached + computed))
    decoder.synchronize()
    return 1e3 * (clock() - began)


def _cell(points: Sequence[int], at: int) -> tuple[int, float]:
    """Return the number of the grid cell for a value, and how far into the cell it lies."""
    cell = min(max(bisect_right(points, at) - 1, 0), len(points) - 2)
    return cell, (at - points[cell]) / (points[cell + 1] - points[cell])
