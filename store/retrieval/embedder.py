"""What turns a text into vectors, as the library sees it; `store.retrieval.minilm` is the one we ship."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Embedder(Protocol):
    """Texts to vectors of length 1, so that their dot product is their cosine similarity.

    A model reads only so many tokens and drops the rest in silence. So a chunk is embedded as the `passages` that
    the model can read whole; a search takes the best of them for the chunk.
    """

    @property
    def fingerprint(self) -> str:
        """Names the model and how it is used; vectors of two fingerprints must never meet in one index.

        Precision does not count: vectors that differ by rounding find the same.
        """
        ...

    def segments(self, text: str) -> list[str]:
        """Return the pieces of a text, in order, each short enough to be read whole; at least one for any text."""
        ...

    def truncate_left(self, text: str) -> str:
        """Return as much of a text's end as is read whole: below a pasted text stands what is asked of it."""
        ...

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return float32 [n, D], each row of length 1."""
        ...
