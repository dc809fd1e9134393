"""The nouns of the engine that hold tensors. No behaviour beyond their own arithmetic."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ChunkKV:
    """Keys and values of one chunk, computed after the shared prefix: its positions start at len(prefix).

    The prefix itself is a ChunkKV whose positions start at 0.
    """

    keys: Tensor  # [L, H, T, D], rotated
    values: Tensor  # [L, H, T, D]

    @property
    def tokens(self) -> int:
        return self.keys.shape[2]

    @property
    def size_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def to(self, device: torch.device) -> "ChunkKV":
        return ChunkKV(self.keys.to(device), self.values.to(device))


@dataclass(frozen=True, slots=True)
class View:
    """Everything a strategy may look at.

    spans   slots of each chunk in the prompt, in prompt order; the shared prefix lies before the first
    scores  the auxiliary model's score of each context token, [sum of span lengths], higher is more worth
            recomputing; the first call waits for it
    """

    spans: tuple[range, ...]
    scores: Callable[[], Tensor]

    @property
    def context_tokens(self) -> int:
        return sum(len(span) for span in self.spans)

    @property
    def slots(self) -> Tensor:
        """Slots of all context tokens, [context tokens], ascending."""
        return torch.cat([torch.arange(span.start, span.stop) for span in self.spans]) if self.spans else NOTHING


@dataclass(frozen=True, slots=True)
class Plan:
    """The context tokens that get fresh KV before the first token."""

    rows: Tensor  # [R] slots, int64, ascending, unique


NOTHING = torch.empty(0, dtype=torch.int64)
