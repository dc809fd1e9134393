"""Strategies: which context tokens deserve fresh keys and values. One paper, one file.

To add one: write a frozen dataclass with `plan`, then add a line to STRATEGIES. Its fields become the sliders of the
page and the arguments of the bench.
"""

from engine.reuse.strategies.ape import APE
from engine.reuse.strategies.cacheblend import CacheBlend
from engine.reuse.strategies.cacheclip import CacheClip, CacheClipJoint, CacheClipTrained, CacheClipV1, CacheClipV2
from engine.reuse.strategies.direct import Direct
from engine.reuse.strategies.epic import EPIC
from engine.reuse.strategies.full import Full
from engine.reuse.strategies.naive import Naive
from engine.reuse.strategies.oracle import OracleWindows
from engine.reuse.strategies.prefix import Prefix
from engine.reuse.strategies.prophetkv import ProphetKV
from engine.reuse.strategies.random_windows import RandomWindows
from engine.reuse.strategies.strategy import Strategy
from engine.setting import Method, settings_of

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


def methods() -> list[Method]:
    """Return the strategies as the page and the bench show them."""
    return [Method(name, each.label, each.about, settings_of(each)) for name, each in STRATEGIES.items()]
