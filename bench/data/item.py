"""One question of a measurement: what is asked over which passages, and how its answer is judged.

Every source - a published data set, a file of one's own, a generator - becomes this, so a measure knows only items.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

Splitter = Callable[[str], list[str]]  # cuts a long text into passages, as the library's chunker does


@dataclass(frozen=True)
class Item:
    """One question over given passages.

    answers         RULER: every one must be found; data sets: any one is right
    group           data set or task; rows are reported per group
    metric          the headline metric's name in bench/metrics.py
    opening         start of the answer that the model is given (RULER's answer prefix)
    max_new_tokens  a right answer fits
    """

    id: str
    question: str
    passages: tuple[str, ...]
    answers: tuple[str, ...]
    group: str
    metric: str
    opening: str = ""
    max_new_tokens: int = 32

    @property
    def name(self) -> str:
        """What its outcomes are filed under: another text, or another file's question of the same id, is another."""
        digest = hashlib.sha256(repr(self).encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.group}/{self.id}/{digest[:12]}"
