"""Answer questions from cached chunks: `from engine import Engine, Request, load_engine, STRATEGIES`.

Letters used for shapes in this package:
    L layers   H key/value heads   D head dimension   T tokens   R recomputed rows (R <= T)   V vocabulary size

A position is an absolute token index in the prompt. Times are milliseconds and end in `_ms`, sizes are bytes and end in
`_bytes`, ratios are between 0 and 1.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.request import Answer, Request

if TYPE_CHECKING:
    from engine.builder import load_engine
    from engine.engine import Engine
    from engine.strategies import STRATEGIES

__all__ = ["STRATEGIES", "Answer", "Engine", "Request", "load_engine"]

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch's large tensors in huge pages, which take less time to get

# Imported on first use: the UI imports engine.request and must not load torch.
_LAZY = {"Engine": "engine.engine", "load_engine": "engine.builder", "STRATEGIES": "engine.strategies"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
