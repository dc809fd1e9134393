"""How alike two views of the same context are.

Attention sinks would swamp every comparison: the columns of the shared prefix and of the passages' own sinks are left
out before anything comes here, and what is left is renormalised to sum to 1.
"""

from torch import Tensor

TINY = 1e-9  # attention that counts as none, so that a logarithm exists


def renormalised(attention: Tensor) -> Tensor:
    """Return attention [..., T] over the context alone as a distribution, fp32."""
    kept = attention.float() + TINY
    return kept / kept.sum(-1, keepdim=True)


def kl(reference: Tensor, other: Tensor) -> Tensor:
    """Return KL(reference || other) in nats, [...], for attention [..., T]; both are renormalised first."""
    ours, theirs = renormalised(reference), renormalised(other)
    return (ours * (ours / theirs).log()).sum(-1)


def jaccard(one: Tensor, other: Tensor) -> float:
    """Return |both| / |either| of two sets of slots, [R] and [S]; 1 for two empty sets."""
    both = len(set(one.tolist()) & set(other.tolist()))
    either = len(one) + len(other) - both
    return both / either if either else 1.0
