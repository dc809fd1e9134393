"""Arms as a command line names them: 'cacheclip' at every ratio, or 'epic:tokens=16'."""

from collections.abc import Sequence

from bench.errors import InvalidArgument
from engine.analysis.variants import Variant, variants_of
from engine.method import parse_params
from engine.strategies import STRATEGIES

__all__ = ["Variant", "parse_variants"]


def parse_variants(methods: Sequence[str], ratios: Sequence[float]) -> list[Variant]:
    """Return an arm for every method and, where it has a ratio, every ratio; none twice.

    Raises BadArgument for an unknown method or setting, or a ratio outside 0 to 1, with what it may be.
    """
    made: list[Variant] = []
    for method in dict.fromkeys(method.rstrip(":") for method in methods):
        name, _, words = method.partition(":")
        if name not in STRATEGIES:
            raise InvalidArgument(f"The method {name!r} is not one of {', '.join(STRATEGIES)}.")
        pairs = [word.partition("=") for word in words.split(",") if word]
        try:
            settings = parse_params(STRATEGIES[name], {setting: value for setting, _, value in pairs})
            made += variants_of(name, list(dict.fromkeys(ratios)), settings, method_name=method)
        except ValueError as error:
            raise InvalidArgument(f"{method!r}: {error}.") from error
    return made
