"""Arms of a comparison: a method with its settings and a nominal ratio. Every question goes through all arms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.method import params_of
from engine.strategies import STRATEGIES, Strategy

FIXED = {"direct": 0.0, "naive": 0.0, "ape": 0.0, "full": 1.0}  # the ratio of methods that cannot choose one


@dataclass(frozen=True)
class Variant:
    """method  its name, or as the bench's command line writes it with settings: 'epic:tokens=16'
    ratio   nominal; None where the method has none
    """

    method: str
    ratio: float | None
    strategy: Strategy

    @property
    def key(self) -> str:
        return self.method if self.ratio is None else f"{self.method}@{self.ratio:g}"

    @property
    def asked(self) -> float | None:
        """The nominal ratio where the method lets one choose it."""
        return self.ratio if _has_ratio(self.strategy) else None

    @property
    def title(self) -> str:
        """What a person reads: 'CacheBlend at 20 %'."""
        return self.strategy.label + ("" if self.asked is None else f" at {100 * self.asked:g}\u00a0%")


def variants_of(
    name: str, ratios: Sequence[float], settings: Mapping[str, Any] | None = None, called: str = ""
) -> list[Variant]:
    """Return the arms of one method: one for every ratio where it has a ratio that `settings` leaves open, else one.

    name    of STRATEGIES
    called  what the arms' method is called; its name if empty

    Raises ValueError for a setting or a ratio that it may not have.
    """
    build: Callable[..., Strategy] = STRATEGIES[name]
    chosen = dict(settings or {})
    if _has_ratio(build) and "ratio" not in chosen:
        return [Variant(called or name, ratio, build(**chosen, ratio=ratio)) for ratio in ratios]
    return [Variant(called or name, chosen.get("ratio", FIXED.get(name)), build(**chosen))]


def _has_ratio(strategy: Any) -> bool:
    return any(setting.name == "ratio" for setting in params_of(strategy))
