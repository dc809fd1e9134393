"""KL divergence and Jaccard overlap of attention over the same context.

Attention sinks would dominate both measures. Callers drop the columns of the shared prefix and of the passages' own
sinks first; the rest is renormalized to sum to 1.
"""

from torch import Tensor

EPSILON = 1e-9  # added to every probability, so that its logarithm is finite


def renormalize(attention: Tensor) -> Tensor:
    """Return attention [..., T] over the context as a distribution, fp32."""
    positive = attention.float() + EPSILON
    return positive / positive.sum(-1, keepdim=True)


def kl_divergence(reference: Tensor, other: Tensor) -> Tensor:
    """Return KL(reference || other) in nats, [...], for attention [..., T]; both are renormalized first."""
    p = renormalize(reference)
    q = renormalize(other)
    return (p * (p / q).log()).sum(-1)


def jaccard(one: Tensor, other: Tensor) -> float:
    """Return |intersection| / |union| of two sets of token indices, [R] and [S]; 1 for two empty sets."""
    intersection = len(set(one.tolist()) & set(other.tolist()))
    union = len(one) + len(other) - intersection
    return intersection / union if union else 1.0
