"""Parse method names of the command line: 'cacheclip' at every ratio, or 'epic:tokens=16'."""

from collections.abc import Sequence

from bench.errors import InvalidArgument
from engine.analysis.variants import Variant, variants_of
from engine.method import parse_params
from engine.strategies import STRATEGIES

__all__ = ["Variant", "parse_variants"]


def parse_variants(methods: Sequence[str], ratios: Sequence[float]) -> list[Variant]:
    """Return a variant for each method and, if it has a ratio, each ratio; duplicates are dropped.

    Raises InvalidArgument for an unknown method or parameter, or a value out of range.
    """
    variants: list[Variant] = []
    for method in dict.fromkeys(method.rstrip(":") for method in methods):
        name, _, assignments = method.partition(":")
        if name not in STRATEGIES:
            raise InvalidArgument(f"The method {name!r} is not one of {', '.join(STRATEGIES)}.")
        pairs = [pair.partition("=") for pair in assignments.split(",") if pair]
        try:
            params = parse_params(STRATEGIES[name], {param: value for param, _, value in pairs})
            variants += variants_of(name, list(dict.fromkeys(ratios)), params, method_name=method)
        except ValueError as error:
            raise InvalidArgument(f"{method!r}: {error}.") from error
    return variants
