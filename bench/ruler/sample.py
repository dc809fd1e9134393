"""What a task makes of one draw: a context that can be made longer, what is hidden in it, and the question."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class TaskInputs:
    """What a sample is made from.

    draw       seeded by the sample alone
    words      of the text haystack from this sample's place on, more than a context has tokens
    tokens     most tokens of the context
    """

    rng: Random
    words: list[str]
    max_tokens: int


@dataclass(frozen=True)
class TaskSample:
    """One sample before its length is chosen.

    context  the text from so many pieces of haystack; more pieces, longer text, the same needles
    needles  each stands whole in one passage
    """

    context: Callable[[int], str]
    needles: tuple[str, ...]
    question: str
    opening: str
    answers: tuple[str, ...]
    max_new_tokens: int
