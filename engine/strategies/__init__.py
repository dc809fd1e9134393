"""Strategies: which context tokens deserve fresh keys and values. One paper, one file.

To add one: write a frozen dataclass with `plan`, then add a line to STRATEGIES. Its fields become the sliders of the
page and the arguments of the bench.
"""

from engine.method import MethodInfo, params_of
from engine.strategies.ape import APE
from engine.strategies.base import Strategy
from engine.strategies.cacheblend import CacheBlend
from engine.strategies.cacheclip import CacheClip, CacheClipJoint, CacheClipTrained, CacheClipV1, CacheClipV2
from engine.strategies.direct import Direct
from engine.strategies.epic import EPIC
from engine.strategies.full import Full
from engine.strategies.naive import Naive
from engine.strategies.oracle import OracleWindows
from engine.strategies.prefix import Prefix
from engine.strategies.prophetkv import ProphetKV
from engine.strategies.random_windows import RandomWindows

STRATEGIES: dict[str, type[Strategy]] = {
    "cacheclip": CacheClip,
    "cacheclip-trained": CacheClipTrained,
    "cacheclip-joint": CacheClipJoint,
    "cacheclip-v1": CacheClipV1,
    "cacheclip-v2": CacheClipV2,
    "cacheblend": CacheBlend,
    "prophetkv": ProphetKV,
    "epic": EPIC,
    "ape": APE,
    "random": RandomWindows,
    "oracle": OracleWindows,
    "prefix": Prefix,
    "direct": Direct,
    "naive": Naive,
    "full": Full,
}


def methods() -> list[MethodInfo]:
    """Return the strategies as the page and the bench show them."""
    return [MethodInfo(name, each.label, each.description, params_of(each)) for name, each in STRATEGIES.items()]
