"""APE (arXiv:2502.05431): chunks share the same positions; attention to them is sharpened and rescaled.

Every chunk starts at len(prefix); the question follows the longest chunk. Question and answer rows attend to the
chunks at temperature T and merge the result with attention to everything else:
    (w_c, w_o) = softmax([S T L_c, L_o]),  O = w_c O_c + w_o O_o
L are log-sum-exps of the logits; the chunks' logits are q k / (sqrt(d) T). T = S = 1 is plain attention.
The paper tunes T and S per task; the default of 0.9 is the middle of its ranges.
"""

from dataclasses import dataclass

from engine.method import param_field
from engine.strategies.base import Strategy
from engine.types import NO_ROWS, ParallelAttention, Placement, RecomputePlan, SelectionContext

RANGE = {"low": 0.1, "high": 1.5, "step": 0.05}


@dataclass(frozen=True)
class APE(Strategy):
    label = "APE"
    description = "Recomputes nothing: passages are encoded in parallel, attention is sharpened."
    paper = "2502.05431"
    recomputes = False
    placement = Placement.PARALLEL

    temperature: float = param_field(0.9, "APE temperature", "Below 1 sharpens attention to the passages.", **RANGE)
    scale: float = param_field(0.9, "APE scale", "Below 1 lowers the passages' weight against the rest.", **RANGE)

    def plan(self, context: SelectionContext) -> RecomputePlan:
        return RecomputePlan(NO_ROWS, parallel_attention=ParallelAttention(self.temperature, self.scale))
