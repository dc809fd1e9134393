"""The nouns of the engine that hold tensors. No behaviour beyond their own arithmetic."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ChunkKV:
    """Keys and values of one chunk, computed after the shared prefix.

    start    position of its first token: len(prefix) for chunk KV, further on for a chunk that was computed behind
             others, and 0 for the prefix, which is a ChunkKV as well
    rounded  it was kept in 8 bits: close to what was computed, never exact
    """

    keys: Tensor  # [L, H, T, D], rotated
    values: Tensor  # [L, H, T, D]
    start: int
    quantized: bool = False

    @property
    def tokens(self) -> int:
        return self.keys.shape[2]

    @property
    def size_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def to(self, device: torch.device) -> "ChunkKV":
        return ChunkKV(self.keys.to(device), self.values.to(device), self.start, self.quantized)


class Placement(Enum):
    """How cached chunks are laid into a prompt. Their slots always follow each other; their positions may not."""

    CONCATENATED = "computed behind the shared prefix, keys moved to the positions of their slots"
    PARALLEL = "computed behind the shared prefix, keys left where they were computed: all start at len(prefix)"
    NO_PREFIX = "computed without any prefix, keys left where they were computed: all start at 0"
    EXACT_PREFIX = (
        "only those that are exact as they stand, a path of the knowledge tree; the slots behind it stay empty"
    )


class ScoreMode(Enum):
    """What tells which tokens a question looks at, and how it reads the chunks."""

    PER_CHUNK = "each chunk on its own behind the prefix, as the paper has it; scores of two chunks never compete"
    JOINT = "all chunks assembled, so that they compete for the question's attention as in the primary"
    LEARNED = "by the vectors of a small model of its own, the trained selector; joined where there is none"


def _unavailable() -> Tensor:
    raise RuntimeError("this view has no such evidence")


@dataclass(frozen=True, slots=True)
class SelectionContext:
    """Everything a strategy may look at. What costs something is computed when it is first called.

    spans      slots of each chunk in the prompt, in prompt order; the shared prefix lies before the first
    scores     the auxiliary model's score of each context token, [context tokens], higher is more worth recomputing;
               each chunk read apart
    joined     the same, all chunks read together
    trained    the same, by the trained selector; `joined` where there is none
    attention  what the question's rows attend to when they run over the assembled chunks, [L, context tokens]; mean
               over heads and question tokens
    oracle     the same in the last layer of a full prefill, [context tokens]; costs a full prefill
    exact      leading chunks whose KV equals the full prefill's: where chunks are joined, the first always does
    layers     of the primary model
    lot        a number of this prompt's own, for what is drawn by chance
    """

    spans: tuple[range, ...]
    per_chunk_scores: Callable[[], Tensor] = _unavailable
    joint_scores: Callable[[], Tensor] = _unavailable
    learned_scores: Callable[[], Tensor] = _unavailable
    attention: Callable[[], Tensor] = _unavailable
    oracle_attention: Callable[[], Tensor] = _unavailable
    num_exact_chunks: int = 1
    num_layers: int = 1
    seed: int = 0

    @property
    def context_tokens(self) -> int:
        return sum(self.lengths)

    @property
    def lengths(self) -> list[int]:
        """TextTokenizer of each chunk."""
        return [len(span) for span in self.spans]

    @property
    def exact_tokens(self) -> int:
        return sum(self.lengths[: self.num_exact_chunks])

    @property
    def slots(self) -> Tensor:
        """Slots of all context tokens, [context tokens], ascending."""
        return torch.cat([torch.arange(span.start, span.stop) for span in self.spans]) if self.spans else NO_ROWS


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far fresh KV of one layer lies from the cached: the sum of squares over heads and width, [R] each."""

    keys: Tensor
    values: Tensor


# Called before each layer with its number and the deviation of the context rows that are still on their way; returns
# the ascending indices [R'] of the rows to go on with, or None for all of them.
RowFilter = Callable[[int, Callable[[], Deviation]], Tensor | None]


@dataclass(frozen=True, slots=True)
class ParallelAttention:
    """Attention over chunks of equal positions, merged with attention over everything else by log-sum-exp."""

    temperature: float
    scale: float


@dataclass(frozen=True, slots=True)
class RecomputePlan:
    """The context tokens that get fresh KV before the first token.

    thin   drops some of the rows on their way through the layers; None keeps them all
    merge  how question and answer attend to chunks placed in parallel
    """

    rows: Tensor  # [R] slots, int64, ascending, unique
    row_filter: RowFilter | None = None
    parallel_attention: ParallelAttention | None = None


NO_ROWS = torch.empty(0, dtype=torch.int64)
