"""APE (arXiv:2502.05431): chunks share the same positions; attention to them is sharpened and rescaled.

Every chunk starts at len(prefix); the question follows the longest chunk. Question and answer rows attend to the
chunks at temperature T and merge the result with attention to everything else:
    (w_c, w_o) = softmax([S T L_c, L_o]),  O = w_c O_c + w_o O_o
L are log-sum-exps of the logits; the chunks' logits are q k / (sqrt(d) T). T = S = 1 is plain attention.
The paper tunes T and S per task; the default of 0.9 is the middle of its ranges.
"""

from dataclasses import dataclass
from typing import ClassVar

from engine.method import number_param
from engine.strategies.base import Strategy
from engine.types import NO_ROWS, ParallelAttention, Placement, RecomputePlan, SelectionContext


@dataclass(frozen=True)
class APE(Strategy):
    """temperature  T, above 0
    scale        S
    """

    label: ClassVar[str] = "APE"
    description: ClassVar[str] = "Recomputes nothing: passages are encoded in parallel, attention is sharpened."
    paper: ClassVar[str] = "2502.05431"
    placement: ClassVar[Placement] = Placement.PARALLEL

    temperature: float = number_param(
        0.9, "APE temperature", "Below 1 sharpens attention to the passages.", 0.1, 1.5, 0.05
    )
    scale: float = number_param(
        0.9, "APE scale", "Below 1 lowers the passages' weight against the rest.", 0.1, 1.5, 0.05
    )

    def plan(self, context: SelectionContext) -> RecomputePlan:
        return RecomputePlan(NO_ROWS, parallel_attention=ParallelAttention(self.temperature, self.scale))
