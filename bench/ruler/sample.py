"""Input and output of a task: random state and haystack in, a context of variable length and a question out."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class TaskInputs:
    """Input of a task.

    rng         seeded per sample
    words       of the haystack from this sample's position on, more than the context has tokens
    max_tokens  of the context
    """

    rng: Random
    words: list[str]
    max_tokens: int


@dataclass(frozen=True)
class TaskSample:
    """One sample before its length is chosen.

    context  maps a number of haystack pieces to the text; the needles stay the same
    needles  each must be complete in one passage
    """

    context: Callable[[int], str]
    needles: tuple[str, ...]
    question: str
    opening: str
    answers: tuple[str, ...]
    max_new_tokens: int
