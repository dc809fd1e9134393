"""The interface of embedding models; `store.retrieval.minilm` implements it."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Embedder(Protocol):
    """Maps texts to vectors of length 1, so that a dot product is a cosine similarity.

    A model silently truncates long texts. A chunk is therefore embedded as `segments` that fit the model, and its
    similarity is that of its best segment.
    """

    @property
    def fingerprint(self) -> str:
        """Identify the model and its use; vectors of different fingerprints must not share an index.

        Precision does not count, because rounding does not change the ranking.
        """
        ...

    def segments(self, text: str) -> list[str]:
        """Split a text into segments that fit the model, in order; at least one."""
        ...

    def truncate_left(self, text: str) -> str:
        """Return the longest end of a text that fits the model: a question usually follows a pasted text."""
        ...

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return float32 [n, D], each row of length 1."""
        ...
