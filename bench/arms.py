"""Arms: a method with its settings and a nominal ratio. Every question goes through all arms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.errors import BadArgument
from engine.reuse.strategies import STRATEGIES, Strategy
from engine.setting import parse, settings_of

FIXED = {"direct": 0.0, "naive": 0.0, "ape": 0.0, "full": 1.0}  # the ratio of methods that cannot choose one


@dataclass(frozen=True)
class Arm:
    """method  as the command line names it: 'epic' or 'epic:tokens=16'
    ratio   nominal; None where the method has none
    """

    method: str
    ratio: float | None
    strategy: Strategy

    @property
    def key(self) -> str:
        return self.method if self.ratio is None else f"{self.method}@{self.ratio:g}"


def arms(methods: Sequence[str], ratios: Sequence[float]) -> list[Arm]:
    """Return an arm for every method and, where it has a ratio, every ratio.

    Raises BadArgument for an unknown method or setting, or a ratio outside 0 to 1, with what it may be.
    """
    made = []
    for method in methods:
        name, _, words = method.partition(":")
        if name not in STRATEGIES:
            raise BadArgument(f"The method {name!r} is not one of {', '.join(STRATEGIES)}.")
        build: Callable[..., Strategy] = STRATEGIES[name]
        pairs = [word.partition("=") for word in words.split(",") if word]
        try:
            chosen = parse(build, {name: value for name, _, value in pairs})
            if any(setting.name == "ratio" for setting in settings_of(build)) and "ratio" not in chosen:
                made += [Arm(method, ratio, build(**chosen, ratio=ratio)) for ratio in ratios]
            else:
                made.append(Arm(method, chosen.get("ratio", FIXED.get(name)), build(**chosen)))
        except ValueError as error:
            raise BadArgument(f"{method!r}: {error}.") from error
    return made
