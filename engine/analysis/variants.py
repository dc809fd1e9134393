"""Variants in a comparison: a method with its parameters and a nominal ratio (the "arms" of an experiment)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.strategies import STRATEGIES, Strategy

FIXED_RATIOS = {"direct": 0.0, "naive": 0.0, "ape": 0.0, "full": 1.0}  # of methods without a ratio parameter


@dataclass(frozen=True)
class Variant:
    method: str  # its name, possibly with parameters as on the bench's command line: 'epic:tokens=16'
    ratio: float | None  # nominal; None if the method has none
    strategy: Strategy

    @property
    def key(self) -> str:
        """Unique name: 'cacheblend@0.2', 'epic'."""
        return self.method if self.ratio is None else f"{self.method}@{self.ratio:g}"

    @property
    def requested_ratio(self) -> float | None:
        """The nominal ratio; None unless the method has a ratio parameter."""
        return self.ratio if hasattr(self.strategy, "ratio") else None

    @property
    def title(self) -> str:
        """Display name: 'CacheBlend at 20 %'."""
        ratio = self.requested_ratio
        return self.strategy.label + ("" if ratio is None else f" at {100 * ratio:g}\u00a0%")


def variants_of(
    name: str, ratios: Sequence[float], params: Mapping[str, Any] | None = None, method_name: str = ""
) -> list[Variant]:
    """Return one variant per ratio, or a single one if the method has no ratio or `params` fixes it. Raises ValueError.

    `name` is the key in STRATEGIES, `method_name` the results' `Variant.method` if it differs.
    """
    build: Callable[..., Strategy] = STRATEGIES[name]
    arguments = dict(params or {})
    method = method_name or name
    if hasattr(build, "ratio") and "ratio" not in arguments:
        return [Variant(method, ratio, build(**arguments, ratio=ratio)) for ratio in ratios]
    return [Variant(method, arguments.get("ratio", FIXED_RATIOS.get(name)), build(**arguments))]
