"""APE: nothing recomputed; all chunks share the same positions, and attention to them is sharpened and rescaled.

Every chunk starts at len(prefix), the question behind the longest. Question and answer attend to the chunks at a
temperature T below 1 and merge that with their attention to everything else:
    (w_c, w_o) = softmax([S T L_c, L_o]),  O = w_c O_c + w_o O_o
with L the log-sum-exp of the logits, the chunks' being q k / (sqrt(d) T). T = S = 1 is plain attention.
Source: arXiv:2502.05431. The paper tunes T and S for each task; 0.9 is a middle of its ranges.
"""

from dataclasses import dataclass
from typing import ClassVar

from engine.method import number
from engine.strategies.base import Strategy
from engine.types import NO_ROWS, ParallelAttention, Placement, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class APE(Strategy):
    """temperature  T, above 0
    scale        S
    """

    label: ClassVar[str] = "APE"
    description: ClassVar[str] = "Recomputes nothing: passages stand in parallel, and attention to them is sharpened."
    placement: ClassVar[Placement] = Placement.PARALLEL

    temperature: float = number(0.9, "APE temperature", "Below 1 sharpens attention to the passages.", 0.1, 1.5, 0.05)
    scale: float = number(0.9, "APE scale", "Below 1 lowers the passages' weight against the rest.", 0.1, 1.5, 0.05)

    def plan(self, view: SelectionContext) -> RecomputePlan:
        return RecomputePlan(NO_ROWS, parallel_attention=ParallelAttention(self.temperature, self.scale))
