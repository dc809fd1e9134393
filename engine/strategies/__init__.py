"""Strategies: which context tokens get fresh keys and values. One file per paper, baselines in one.

A new method is a subclass of `WindowStrategy` with `scores` (or of `Strategy` with `plan`) and a line in STRATEGIES.
Its fields become sliders in the UI and arguments of the bench. Example: examples/custom_strategy.py
"""

from engine.method import MethodInfo, list_params
from engine.strategies.adaptive import CacheClipAdaptive
from engine.strategies.ape import APE
from engine.strategies.base import Strategy
from engine.strategies.baselines import Direct, Full, Naive, OracleWindows, Prefix, RandomWindows
from engine.strategies.cacheblend import CacheBlend
from engine.strategies.cacheclip import CacheClip, CacheClipJoint, CacheClipTrained, CacheClipV1, CacheClipV2
from engine.strategies.epic import EPIC
from engine.strategies.infoflow import InfoFlow
from engine.strategies.prophetkv import ProphetKV
from engine.strategies.qcfuse import QCFuse

STRATEGIES: dict[str, type[Strategy]] = {
    "cacheclip": CacheClip,
    "cacheclip-trained": CacheClipTrained,
    "cacheclip-adaptive": CacheClipAdaptive,
    "cacheclip-joint": CacheClipJoint,
    "cacheclip-v1": CacheClipV1,
    "cacheclip-v2": CacheClipV2,
    "cacheblend": CacheBlend,
    "prophetkv": ProphetKV,
    "infoflow": InfoFlow,
    "qcfuse": QCFuse,
    "epic": EPIC,
    "ape": APE,
    "random": RandomWindows,
    "oracle": OracleWindows,
    "prefix": Prefix,
    "direct": Direct,
    "naive": Naive,
    "full": Full,
}


def list_methods() -> list[MethodInfo]:
    """Return all strategies as the UI and the bench show them."""
    return [
        MethodInfo(name, strategy.label, strategy.description, list_params(strategy))
        for name, strategy in STRATEGIES.items()
    ]
