"""CacheClip (arXiv:2510.10129): recompute the windows that a small auxiliary model attends to for this question.

The paper's groupings drop isolated candidates and therefore spend less than the requested ratio. The default here is
matched to the budget and skips chunks that are already exact.
"""

from dataclasses import dataclass

from torch import Tensor

from engine.strategies.base import WindowStrategy
from engine.strategies.windows import sliding_windows, tumbling_windows
from engine.types import ScoreMode, SelectionContext


@dataclass(frozen=True)
class CacheClip(WindowStrategy):
    label = "CacheClip"
    description = "Recomputes the windows a small model attends to for this question, up to the budget."
    paper = "2510.10129"
    score_mode = ScoreMode.PER_CHUNK  # as in the paper

    def scores(self, context: SelectionContext) -> Tensor:
        return context.per_chunk_scores()


@dataclass(frozen=True)
class CacheClipV1(CacheClip):
    label = "CacheClip v1"
    description = "The paper's version of 2025: tumbling windows with 5 candidates; recomputes less than requested."

    def select(self, scores: Tensor, context: SelectionContext) -> Tensor:
        return tumbling_windows(scores, context.lengths, self.ratio)


@dataclass(frozen=True)
class CacheClipV2(CacheClip):
    label = "CacheClip v2"
    description = "The paper's version of 2026: sliding windows with 5 candidates; recomputes less than requested."

    def select(self, scores: Tensor, context: SelectionContext) -> Tensor:
        return sliding_windows(scores, context.lengths, self.ratio)


@dataclass(frozen=True)
class CacheClipJoint(WindowStrategy):
    """Ours: the auxiliary model scores all chunks jointly, with one vote for each layer.

    Scored independently, each chunk receives its own share of attention, however irrelevant it is. Scored jointly,
    chunks compete for attention as they do in the main model.
    """

    label = "CacheClip joint"
    description = "Ours: the small model reads all passages together, so that they compete for its attention."
    score_mode = ScoreMode.JOINT

    def scores(self, context: SelectionContext) -> Tensor:
        return context.joint_scores()


@dataclass(frozen=True)
class CacheClipTrained(WindowStrategy):
    label = "CacheClip trained"
    description = "Ours: a small token selector, trained to predict which tokens to recompute."
    score_mode = ScoreMode.LEARNED  # see engine.scoring.trained_selector

    def scores(self, context: SelectionContext) -> Tensor:
        return context.learned_scores()
