"""How alike the auxiliary and each layer of the primary look at the same passages, for one question.

The primary's attention is that of a full prefill: the question's rows, mean over heads and question tokens, the shared
prefix left out. The auxiliary sees each passage on its own, as it does when it selects. CacheClip's key observation
(arXiv:2510.10129): the auxiliary's last layer is nearer to the primary's last layer than the primary's first are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.inspect.distance import jaccard, kl, renormalised
from engine.reuse.evidence import Evidence
from engine.reuse.strategies import OracleWindows, Strategy
from engine.reuse.windows import top
from engine.types import Scoring

BINS = 256  # columns of an array that a page draws


@dataclass(frozen=True)
class Looks:
    """Every array is plain numpy; `as_dict` makes them small enough for a page.

    auxiliary          [T]     attention over the context tokens, sums to 1
    primary            [L, T]  of each layer
    kl_auxiliary       KL(primary's last layer || auxiliary), nats
    kl_layers          [L]     KL(primary's last layer || layer)
    jaccard_auxiliary  of the top ratio x T tokens, with the primary's last layer
    jaccard_layers     [L]
    overlap            of each method's recomputed tokens with the oracle's, Jaccard
    passages           tokens of each passage, in prompt order: T in sum
    """

    auxiliary: np.ndarray
    primary: np.ndarray
    kl_auxiliary: float
    kl_layers: np.ndarray
    jaccard_auxiliary: float
    jaccard_layers: np.ndarray
    overlap: dict[str, float]
    ratio: float
    passages: tuple[int, ...]

    def as_dict(self, bins: int = BINS) -> dict[str, Any]:
        """Return plain lists; tokens are added up into at most `bins` columns."""
        return {
            "ratio": self.ratio,
            "passages": list(self.passages),
            "auxiliary": binned(self.auxiliary, bins).tolist(),
            "primary": binned(self.primary, bins).tolist(),
            "kl_auxiliary": self.kl_auxiliary,
            "kl_layers": self.kl_layers.tolist(),
            "jaccard_auxiliary": self.jaccard_auxiliary,
            "jaccard_layers": self.jaccard_layers.tolist(),
            "overlap": self.overlap,
        }


def looks(evidence: Evidence, ratio: float, methods: dict[str, Strategy] | None = None) -> Looks:
    """Compare what the models look at. Costs a full prefill, unless the evidence holds one.

    ratio    of the context tokens that count as looked at, in [0, 1]
    methods  by name, whose plans are compared with the oracle's of the same size; those that plan layer by layer have
             no plan beforehand and are left out
    """
    primary, scores = evidence.reference.attention, evidence.scores(Scoring.APART)
    last, chosen = primary[-1], top(primary[-1], ratio)
    view, overlap = evidence.view(), {}
    for name, strategy in (methods or {}).items():
        plan = strategy.plan(view)
        share = len(plan.rows) / view.context_tokens if view.context_tokens else 0.0
        if plan.thin is None and 0 < share < 1:
            overlap[name] = jaccard(plan.rows, OracleWindows(share).plan(view).rows)
    return Looks(
        renormalised(scores).numpy(),
        renormalised(primary).numpy(),
        float(kl(last, scores)),
        kl(last, primary).numpy(),
        jaccard(chosen, top(scores, ratio)),
        np.array([jaccard(chosen, top(layer, ratio)) for layer in primary]),
        overlap,
        ratio,
        tuple(view.lengths),
    )


def binned(values: np.ndarray, bins: int) -> np.ndarray:
    """Return [..., at most `bins`] sums of neighbouring columns of [..., T]."""
    if values.shape[-1] <= bins:
        return values
    edges = np.linspace(0, values.shape[-1], bins + 1).astype(int)[:-1]
    return np.add.reduceat(values, edges, axis=-1)
