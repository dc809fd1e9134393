"""What a strategy is: a view in, a plan out."""

from abc import ABC, abstractmethod
from typing import ClassVar

from engine.method import ValidatedParams
from engine.types import Placement, RecomputePlan, ScoreMode, SelectionContext


class Strategy(ValidatedParams, ABC):
    """A pure choice: the same view gives the same plan, and nothing is changed.

    label      what the page calls it
    about      what it recomputes, in one sentence
    reuses     reads the chunks' cached KV; without it nothing is loaded
    scoring    which of the auxiliary model's scores it reads; they then start early, beside the loading
    placement  how the cached chunks are laid into the prompt
    """

    label: ClassVar[str]
    description: ClassVar[str]
    reuses: ClassVar[bool] = True
    scoring: ClassVar[ScoreMode | None] = None
    placement: ClassVar[Placement] = Placement.CONCATENATED

    @abstractmethod
    def plan(self, view: SelectionContext) -> RecomputePlan: ...
