"""The interface of a strategy: a selection context in, a recompute plan out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from engine.method import list_params, ratio_param
from engine.strategies.windows import token_budget, top_tokens, windows_within_budget
from engine.types import NO_ROWS, Placement, RecomputePlan, ScoreMode, SelectionContext


class Strategy(ABC):
    """Base class of all methods: chooses the context tokens that get fresh KV before the first token.

    A subclass is a frozen dataclass whose fields come from ``param_field``; they become sliders in the UI and arguments
    of the bench. An invalid value raises ValueError.

    Attributes
    ----------
    label : str
        Name in the UI.
    description : str
        One sentence for users: what the method recomputes.
    paper : str
        arXiv id, or "" for a baseline or a method of ours.
    reuses_kv : bool
        Whether cached chunk KV is read. If false, nothing is loaded.
    recomputes : bool
        Whether more than the question is ever computed if all chunks are cached.
    score_mode : ScoreMode or None
        Auxiliary scores that ``plan`` reads. Scoring then starts early, in parallel with loading.
    placement : Placement
        How cached chunks are placed into the prompt.
    """

    label: ClassVar[str]
    description: ClassVar[str]
    paper: ClassVar[str] = ""
    reuses_kv: ClassVar[bool] = True
    recomputes: ClassVar[bool] = True
    score_mode: ClassVar[ScoreMode | None] = None
    placement: ClassVar[Placement] = Placement.CONCATENATED

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

    Parameters
    ----------
    ratio : float
        Nominal recompute ratio, 0 to 1.
    """

    ratio: float = ratio_param()

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
        """Group scores into windows.

        Parameters
        ----------
        scores : Tensor
            ``[context tokens]``, from ``scores``.
        context : SelectionContext
            The prompt that was scored.

        Returns
        -------
        Tensor
            ``[R]`` int64, ascending indices of context tokens.
        """
        return windows_within_budget(scores, context.lengths, self.ratio, context.num_exact_chunks)

    def plan(self, context: SelectionContext) -> RecomputePlan:
        if context.num_exact_chunks >= len(context.spans):  # scores are not needed, so they are not computed
            return RecomputePlan(context.slots if self.ratio == 1 else NO_ROWS)
        return RecomputePlan(context.slots[self.select(self.scores(context), context)])


@dataclass(frozen=True)
class TokenStrategy(WindowStrategy):
    """Base class of methods that recompute the best tokens within the budget one by one, without windows.

    Tokens whose KV is exact already are selected only at a ratio of 1.
    """

    def select(self, scores: Tensor, context: SelectionContext) -> Tensor:
        return top_tokens(scores, self.ratio, context.num_exact_tokens)

    def plan(self, context: SelectionContext) -> RecomputePlan:
        return super().plan(context) if token_budget(self.ratio, context.context_tokens) else RecomputePlan(NO_ROWS)
