"""Data types of the engine that contain tensors.

Shapes: L layers, H KV heads, D head dimension, T tokens, R recomputed rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

NO_ROWS = torch.empty(0, dtype=torch.int64)


@dataclass(frozen=True, slots=True)
class ChunkKV:
    """Keys and values of one chunk, or of the shared prefix.

    keys       [L, H, T, D], rotated
    values     [L, H, T, D]
    start      position of the first token: len(prefix) for chunk KV, higher for KV from a path, 0 for the prefix
    quantized  restored from 8 bits, so not exact
    """

    keys: Tensor
    values: Tensor
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
    """How cached chunks are placed into a prompt. Slots are always consecutive; positions depend on the placement.

    CONCATENATED  computed after the shared prefix, keys re-rotated to the positions of their slots (CacheClip,
                  CacheBlend, EPIC)
    PARALLEL      computed after the shared prefix, not re-rotated: all chunks start at len(prefix) (APE)
    NO_PREFIX     computed without a prefix, not re-rotated: all chunks start at position 0 ("full KV reuse" without
                  position recovery)
    EXACT_PREFIX  only the longest path of the knowledge tree; later slots stay empty (prefix caching, RAGCache)
    """

    CONCATENATED = "concatenated"
    PARALLEL = "parallel"
    NO_PREFIX = "no prefix"
    EXACT_PREFIX = "exact prefix"


class ScoreMode(Enum):
    """How context tokens are scored for a question.

    PER_CHUNK  the auxiliary model attends to each chunk independently, as in CacheClip (arXiv:2510.10129)
    JOINT      the auxiliary model attends to all chunks at once, so that they compete for its attention
    LEARNED    a trained token selector; JOINT if no selector is loaded
    """

    PER_CHUNK = "per chunk"
    JOINT = "joint"
    LEARNED = "learned"


def _not_available() -> Tensor:
    raise RuntimeError("this selection context has no such scores")


@dataclass(frozen=True, slots=True)
class SelectionContext:
    """The input of a strategy: chunk spans, and scores that are computed on first use.

    spans               slots of each chunk in the prompt, in prompt order, after the shared prefix
    per_chunk_scores    auxiliary scores, each chunk scored independently, [context tokens]; higher is more worth
                        recomputing
    joint_scores        auxiliary scores, all chunks scored jointly, [context tokens]
    learned_scores      scores of the token selector, or `joint_scores` without one, [context tokens]
    question_attention  the main model's attention over the assembled chunks, [L, context tokens]; mean over heads and
                        question rows
    oracle_attention    the same for the last layer of a full prefill, [context tokens]; costs a full prefill
    num_exact_chunks    leading chunks whose KV equals full prefill's; the first concatenated chunk always does
    num_layers          of the main model
    seed                of this prompt, for random strategies
    """

    spans: tuple[range, ...]
    per_chunk_scores: Callable[[], Tensor] = _not_available
    joint_scores: Callable[[], Tensor] = _not_available
    learned_scores: Callable[[], Tensor] = _not_available
    question_attention: Callable[[], Tensor] = _not_available
    oracle_attention: Callable[[], Tensor] = _not_available
    num_exact_chunks: int = 1
    num_layers: int = 1
    seed: int = 0

    @property
    def context_tokens(self) -> int:
        return sum(self.lengths)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each chunk."""
        return [len(span) for span in self.spans]

    @property
    def num_exact_tokens(self) -> int:
        return sum(self.lengths[: self.num_exact_chunks])

    @property
    def slots(self) -> Tensor:
        """Slots of all context tokens, [context tokens] int64, ascending."""
        return torch.cat([torch.arange(span.start, span.stop) for span in self.spans]) if self.spans else NO_ROWS


@dataclass(frozen=True, slots=True)
class Deviation:
    """Squared difference between fresh and cached KV of one layer, summed over heads and width.

    keys    [R]
    values  [R]
    """

    keys: Tensor
    values: Tensor


# Called before each layer with the layer's number and a function that measures the deviation of the remaining context
# rows. Returns the ascending indices [R'] into those rows to continue with, or None to continue with all.
RowFilter = Callable[[int, Callable[[], Deviation]], Tensor | None]


@dataclass(frozen=True, slots=True)
class ParallelAttention:
    """Attention to chunks of equal positions, merged with all other attention by log-sum-exp (APE, arXiv:2502.05431).

    temperature  divides the chunks' logits
    scale        weight of the chunks' log-sum-exp, together with the temperature
    """

    temperature: float
    scale: float


@dataclass(frozen=True, slots=True)
class RecomputePlan:
    """The context tokens that get fresh KV before the first token.

    rows                [R] int64, prompt slots, ascending and unique
    row_filter          drops rows between layers; None keeps all
    parallel_attention  how question and answer attend to chunks placed in parallel
    num_exact_chunks    leading chunks whose KV is exact after the plan was carried out; set by `plan_recompute`
    """

    rows: Tensor
    row_filter: RowFilter | None = None
    parallel_attention: ParallelAttention | None = None
    num_exact_chunks: int = 0
