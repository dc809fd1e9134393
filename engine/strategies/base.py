"""The interface of a strategy: a selection context in, a recompute plan out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from engine.method import list_params, ratio_param
from engine.strategies.windows import windows_within_budget
from engine.types import NO_ROWS, Placement, RecomputePlan, ScoreMode, SelectionContext


class Strategy(ABC):
    """Base class of all methods: chooses the context tokens that get fresh KV before the first token.

    A subclass is a frozen dataclass whose fields come from ``param_field``; they become sliders in the UI and arguments
    of the bench. An invalid value raises ValueError.
    """

    label: ClassVar[str]  # name in the UI
    description: ClassVar[str]  # one sentence for users: what the method recomputes
    paper: ClassVar[str] = ""  # arXiv id; empty for a baseline or a method of ours
    reuses_kv: ClassVar[bool] = True  # whether cached chunk KV is read; if false, nothing is loaded
    score_mode: ClassVar[ScoreMode | None] = None  # scores that `plan` reads; computed early, while KV is loaded
    placement: ClassVar[Placement] = Placement.CONCATENATED  # how cached chunks are placed into the prompt

    def __post_init__(self) -> None:
        for param in list_params(type(self)):
            param.validate(getattr(self, param.name))

    @abstractmethod
    def plan(self, context: SelectionContext) -> RecomputePlan:
        """Return the rows to recompute; a pure function of the context.

        Parameters
        ----------
        context : SelectionContext
            Chunk spans and lazily computed scores of one prompt.

        Returns
        -------
        RecomputePlan
            Prompt slots, ascending and unique. Rows of an exact path are removed later, so a plan may include them.
        """


@dataclass(frozen=True)
class WindowStrategy(Strategy):
    """Base class of methods that score tokens and recompute the best windows of 8 within the budget.

    A new method implements ``scores`` and is registered in ``STRATEGIES``.
    """

    ratio: float = ratio_param()  # nominal, 0 to 1

    @abstractmethod
    def scores(self, context: SelectionContext) -> Tensor:
        """Return a score for each context token.

        Parameters
        ----------
        context : SelectionContext
            Chunk spans and lazily computed scores of one prompt.

        Returns
        -------
        Tensor
            ``[context tokens]``, floating point; higher is more worth recomputing.
        """

    def select(self, scores: Tensor, context: SelectionContext) -> Tensor:
        """Group ``scores`` [context tokens] into windows; return the ascending indices [R] of their tokens, int64."""
        return windows_within_budget(scores, context.lengths, self.ratio, context.num_exact_chunks)

    def plan(self, context: SelectionContext) -> RecomputePlan:
        if not context.spans or (context.num_exact_chunks >= len(context.spans) and self.ratio < 1):
            return RecomputePlan(NO_ROWS)  # nothing to recompute, so scores are not computed either
        return RecomputePlan(context.slots[self.select(self.scores(context), context)])
