"""What a strategy is: a view in, a plan out."""

from abc import ABC, abstractmethod
from typing import ClassVar

from engine.setting import Checked
from engine.types import Placement, Plan, View


class Strategy(Checked, ABC):
    """A pure choice: the same view gives the same plan, and nothing is changed.

    label         what the page calls it
    about         what it recomputes, in one sentence
    reuses        reads the chunks' cached KV; without it nothing is loaded
    needs_scores  reads the auxiliary model's scores, which then start early, beside the loading
    placement     how the cached chunks are laid into the prompt
    """

    label: ClassVar[str]
    about: ClassVar[str]
    reuses: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = False
    placement: ClassVar[Placement] = Placement.JOINED

    @abstractmethod
    def plan(self, view: View) -> Plan: ...
