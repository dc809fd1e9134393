"""One benchmark question over given passages, whatever source it comes from."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

Splitter = Callable[[str], list[str]]  # splits a long text into passages, as the library's chunker does
TokenCounter = Callable[[str], int]  # counts a passage's tokens in the prompt


@dataclass(frozen=True)
class Item:
    id: str
    question: str
    passages: tuple[str, ...]
    answers: tuple[str, ...]  # RULER: all must be found; data sets: any one is correct
    group: str  # data set or task; rows are reported per group
    metric: str  # name of the headline metric in bench/metrics.py
    opening: str = ""  # start of the answer that is given to the model (RULER's answer prefix)
    max_new_tokens: int = 32

    @property
    def name(self) -> str:
        """Key of its outcomes, unique for id and content."""
        digest = hashlib.sha256(repr(self).encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.group}/{self.id}/{digest[:12]}"
