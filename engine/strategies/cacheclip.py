"""CacheClip: recompute the windows that a small auxiliary model attends to for this question.

Source: arXiv:2510.10129. The paper's own groupings drop isolated candidates and so spend less than was asked for. Ours
is matched to the budget, so that the slider means what it says, and spends nothing on chunks that are exact already.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from engine.method import ratio
from engine.strategies.base import Strategy
from engine.strategies.windows import sliding_windows, tumbling_windows, windows_within_budget
from engine.types import NO_ROWS, RecomputePlan, ScoreMode, SelectionContext


@dataclass(frozen=True)
class CacheClip(Strategy):
    """ratio  nominal recompute ratio, 0 to 1"""

    label: ClassVar[str] = "CacheClip"
    description: ClassVar[str] = "Recomputes the windows a small model attends to for this question, up to the budget."
    scoring: ClassVar[ScoreMode | None] = ScoreMode.PER_CHUNK

    ratio: float = ratio()

    def plan(self, view: SelectionContext) -> RecomputePlan:
        if view.num_exact_chunks >= len(view.spans) and self.ratio < 1:
            return RecomputePlan(NO_ROWS)
        return RecomputePlan(view.slots[self._grouped(self._scores(view), view)] if view.spans else NO_ROWS)

    def _scores(self, view: SelectionContext) -> Tensor:
        return view.per_chunk_scores()

    def _grouped(self, scores: Tensor, view: SelectionContext) -> Tensor:
        return windows_within_budget(scores, view.lengths, self.ratio, view.num_exact_chunks)


@dataclass(frozen=True)
class CacheClipV1(CacheClip):
    """The paper's first version: fixed windows of 8, recomputed when they hold 5 candidates."""

    label: ClassVar[str] = "CacheClip v1"
    description: ClassVar[str] = "As published in 2025: fixed windows with five candidates; spends less than asked for."

    def _grouped(self, scores: Tensor, view: SelectionContext) -> Tensor:
        return tumbling_windows(scores, view.lengths, self.ratio)


@dataclass(frozen=True)
class CacheClipV2(CacheClip):
    """The paper's second version: windows of 8 that start anywhere."""

    label: ClassVar[str] = "CacheClip v2"
    description: ClassVar[str] = "As published in 2026: windows that start anywhere; spends less than asked for."

    def _grouped(self, scores: Tensor, view: SelectionContext) -> Tensor:
        return sliding_windows(scores, view.lengths, self.ratio)


@dataclass(frozen=True)
class CacheClipJoint(CacheClip):
    """Ours: the auxiliary reads all chunks together, and every layer votes.

    Read apart, each chunk gets a share of attention of its own, however little it has to do with the question. Read
    together, chunks compete as they do in the primary.
    """

    label: ClassVar[str] = "CacheClip joint"
    description: ClassVar[str] = (
        "Ours: the small model reads all passages together, so that they compete for its attention."
    )
    scoring: ClassVar[ScoreMode | None] = ScoreMode.JOINT

    def _scores(self, view: SelectionContext) -> Tensor:
        return view.joint_scores()


@dataclass(frozen=True)
class CacheClipTrained(CacheClip):
    """Ours: a selector that was trained to point at what is worth recomputing; see engine.scoring.trained_selector."""

    label: ClassVar[str] = "CacheClip trained"
    description: ClassVar[str] = "Ours: a small model of its own, trained to point at what is worth recomputing."
    scoring: ClassVar[ScoreMode | None] = ScoreMode.LEARNED

    def _scores(self, view: SelectionContext) -> Tensor:
        return view.learned_scores()
