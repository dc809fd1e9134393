"""CacheClip adaptive: the least recompute ratio that is close enough to full prefill on this model. Ours.

The ratio follows from the model's calibration (`engine.analysis.calibration`): the least one whose answers stay within
the target's KL divergence from full prefill's, in nats, mean over the first tokens, for as many passages as the
question has; between the measured ratios the KL is interpolated. If that is more than half, all is recomputed. A time
limit lowers the ratio to what the measured cost of prefill allows. Which tokens are recomputed is decided as in
CacheClip trained.
"""

from dataclasses import dataclass

from engine.fidelity import DEFAULT_TARGET, TARGETS
from engine.method import param_field
from engine.strategies.base import Strategy
from engine.strategies.windows import windows_within_budget
from engine.types import NO_ROWS, RecomputePlan, ScoreMode, SelectionContext

DEFAULT_RATIO = 0.2  # before the model is calibrated


@dataclass(frozen=True)
class CacheClipAdaptive(Strategy):
    label = "CacheClip adaptive"
    description = "Ours: recomputes the least that is faithful enough on this model, as measured by its calibration."
    score_mode = ScoreMode.LEARNED

    target: str = param_field(
        DEFAULT_TARGET, "Target", "How close the answer stays to full prefill's.", choices=tuple(TARGETS)
    )
    max_seconds: float = param_field(
        0.0, "Time limit", "Predicted seconds to the first token, at most; 0: no limit.", high=60, step=0.1
    )

    def plan(self, context: SelectionContext) -> RecomputePlan:
        if context.num_exact_chunks >= len(context.spans):
            return RecomputePlan(NO_ROWS)
        ratio, reason = self._choose(context)
        if ratio == 0:
            return RecomputePlan(NO_ROWS, reason=reason)
        scores = context.learned_scores()  # before the time that is left is measured
        if self.max_seconds and (limit := self._affordable_ratio(context)) < ratio:
            reason = f"{100 * limit:g} % recomputed: the time limit allows no more. The target needs {100 * ratio:g} %."
            ratio = limit
        rows = windows_within_budget(scores, context.lengths, ratio, context.num_exact_chunks)
        return RecomputePlan(context.slots[rows], reason=reason)

    def _affordable_ratio(self, context: SelectionContext) -> float:
        """Return the largest ratio, in per cent steps, that is predicted to meet the time limit; 0 if none is."""
        left_ms = 1e3 * self.max_seconds - context.elapsed_ms()
        tokens = context.context_tokens
        return next((p / 100 for p in range(100, 0, -1) if context.recompute_ms(p * tokens // 100) <= left_ms), 0.0)

    def _choose(self, context: SelectionContext) -> tuple[float, str]:
        """Return the ratio for the target, and why."""
        if context.fidelity is None:
            return DEFAULT_RATIO, f"{100 * DEFAULT_RATIO:g} % recomputed: this model is not calibrated yet."
        ratio = context.fidelity.for_passages(len(context.spans)).least_ratio(TARGETS[self.target])
        if ratio is None:
            return 1.0, f"All recomputed: reuse does not reach the target '{self.target}' on this model."
        return ratio, f"{100 * ratio:g} % recomputed: the least for the target '{self.target}' on this model."
