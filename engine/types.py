"""Data types that contain tensors. Shapes: L layers, H KV heads, D head dimension, T tokens, R recomputed rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from engine.fidelity import FidelityCurve

NO_ROWS = torch.empty(0, dtype=torch.int64)


@dataclass(frozen=True, slots=True)
class ChunkKV:
    """Keys and values of one chunk, or of the shared prefix."""

    keys: Tensor  # [L, H, T, D], rotated
    values: Tensor  # [L, H, T, D]
    start: int  # position of the first token: len(prefix) for chunk KV, higher for KV from a path, 0 for the prefix
    quantized: bool = False  # restored from 8 bits, so not exact

    @property
    def tokens(self) -> int:
        return self.keys.shape[2]

    @property
    def size_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def to(self, device: torch.device) -> "ChunkKV":
        return ChunkKV(self.keys.to(device), self.values.to(device), self.start, self.quantized)


class Placement(Enum):
    """How cached chunks are placed into a prompt. Slots are always consecutive; positions depend on the placement."""

    CONCATENATED = "concatenated"  # computed after the shared prefix, keys re-rotated to their slots (CacheClip, EPIC)
    PARALLEL = "parallel"  # computed after the shared prefix, not re-rotated: all start at len(prefix) (APE)
    NO_PREFIX = "no prefix"  # computed without a prefix, not re-rotated: all start at 0 ("full KV reuse" in papers)
    EXACT_PREFIX = "exact prefix"  # only the longest path of the knowledge tree; later slots stay empty (RAGCache)


class ScoreMode(Enum):
    """How context tokens are scored for a question."""

    PER_CHUNK = "per chunk"  # the auxiliary model attends to each chunk independently, as in CacheClip
    JOINT = "joint"  # the auxiliary model attends to all chunks at once, so that they compete for its attention
    LEARNED = "learned"  # a trained token selector; JOINT if no selector is loaded


class ScoresUnavailable(RuntimeError):
    """A selection context does not have the scores that a strategy reads."""


def _not_available(*arguments: float) -> Tensor:
    raise ScoresUnavailable("this selection context has no such scores")


def _no_time(*arguments: int) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class SelectionContext:
    """The input of a strategy: chunk spans, and scores [context tokens] by `ScoreMode`, computed on first use.

    A higher score is more worth recomputing. Attention is the main model's, its mean over heads and question rows.
    """

    spans: tuple[range, ...]  # slots of each chunk in the prompt, in prompt order, after the shared prefix
    per_chunk_scores: Callable[[], Tensor] = _not_available
    joint_scores: Callable[[], Tensor] = _not_available
    learned_scores: Callable[[], Tensor] = _not_available
    question_attention: Callable[[], Tensor] = _not_available  # over the assembled chunks, [L, context tokens]
    oracle_attention: Callable[[], Tensor] = _not_available  # [context tokens], last layer; costs a full prefill
    question_attention_norm: Callable[[], Tensor] = _not_available  # L2 norm over question rows, [L, context tokens]
    # Of anchor ratio and layer: attention in that layer after reading only the anchors before it, [context tokens]
    compressed_view_attention: Callable[[float, int], Tensor] = _not_available
    num_exact_chunks: int = 1  # leading chunks whose KV equals full prefill's; the first concatenated one always does
    num_layers: int = 1  # of the main model
    seed: int = 0  # of this prompt, for random strategies
    fidelity: FidelityCurve | None = None  # of the main model; None until it is calibrated
    recompute_ms: Callable[[int], float] = _no_time  # predicted for so many context tokens and the question
    elapsed_ms: Callable[[], float] = _no_time  # since the request arrived

    @property
    def context_tokens(self) -> int:
        return sum(self.lengths)

    @property
    def lengths(self) -> list[int]:
        return [len(span) for span in self.spans]

    def recording(self) -> tuple["SelectionContext", dict[str, Tensor]]:
        """Return this context, and a dict that receives the scores that are read from it, by field."""
        scores: dict[str, Tensor] = {}

        def record(name: str) -> Callable[..., Tensor]:
            def read(*arguments: float) -> Tensor:
                scores[name] = getattr(self, name)(*arguments)
                return scores[name]

            return read

        recorded: dict[str, Any] = {name: record(name) for name in SCORE_FIELDS}
        return replace(self, **recorded), scores

    def with_scores(self, scores: Mapping[str, Tensor]) -> "SelectionContext":
        """Return a context that has copies of these scores, by field, and can compute or predict nothing else."""

        def copies_of(tensor: Tensor) -> Callable[..., Tensor]:
            return lambda *arguments: tensor.clone()  # the same arguments as when they were read

        kept: dict[str, Any] = dict.fromkeys(SCORE_FIELDS, _not_available)
        kept |= {name: copies_of(each.clone()) for name, each in scores.items()}
        return replace(self, **kept, recompute_ms=_no_time, elapsed_ms=_no_time)

    @property
    def num_exact_tokens(self) -> int:
        return sum(self.lengths[: self.num_exact_chunks])

    @property
    def slots(self) -> Tensor:
        """Slots of all context tokens, [context tokens] int64, ascending."""
        return torch.cat([torch.arange(span.start, span.stop) for span in self.spans]) if self.spans else NO_ROWS


SCORE_FIELDS = [each.name for each in fields(SelectionContext) if each.default is _not_available]


@dataclass(frozen=True, slots=True)
class Deviation:
    """Squared difference between fresh and cached KV of one layer, summed over heads and width."""

    keys: Tensor  # [R]
    values: Tensor  # [R]


# Called before each layer with the layer's number and a function that measures the deviation of the remaining context
# rows. Returns the ascending indices [R'] into those rows to continue with, or None to continue with all.
RowFilter = Callable[[int, Callable[[], Deviation]], Tensor | None]


@dataclass(frozen=True, slots=True)
class ParallelAttention:
    """Attention to chunks of equal positions is merged with all other by log-sum-exp (APE, arXiv:2502.05431)."""

    temperature: float  # divides the chunks' logits
    scale: float  # weight of the chunks' log-sum-exp, together with the temperature


@dataclass(frozen=True, slots=True)
class RecomputePlan:
    """The context tokens that get fresh KV before the first token."""

    rows: Tensor  # [R] int64, prompt slots, ascending and unique
    row_filter: RowFilter | None = None  # drops rows between layers; None keeps all
    parallel_attention: ParallelAttention | None = None  # how question and answer attend to chunks placed in parallel
    num_exact_chunks: int = 0  # leading chunks whose KV is exact after the plan was carried out
    reason: str = ""  # why so many rows, as a sentence for the user
