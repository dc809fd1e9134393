"""How far apart two methods are: next-token distributions, attention over the same context, and selected tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer, RowPass

ANSWER_KL_TOKENS = 16  # first tokens of full prefill's answer, over which distributions are compared


@dataclass(frozen=True, slots=True)
class Agreement:
    """Distance of a method's next-token distributions from full prefill's: KL(full || method) in nats."""

    kl: float  # of the first token
    top1: float  # 1 if the most likely first token is the same, else 0
    answer_kl: float  # mean over the first tokens of full prefill's answer
    answer_top1: float  # fraction of these tokens where the most likely one is the same


def logits_along(
    decoder: Decoder, buffer: KVBuffer, logits: Tensor, prompt_tokens: int, token_ids: Sequence[int]
) -> Tensor:
    """Return the next-token logits [max(1, len(token_ids)), V] after the prompt and after each token but the last.

    The first row is `logits` [V]. The tokens' KV overwrites what was decoded into the buffer after the prompt.
    """
    if len(token_ids) < 2:
        return logits[None]
    slots = torch.arange(len(token_ids) - 1) + prompt_tokens
    hidden = decoder.forward(torch.tensor([token_ids[:-1]]), buffer.positions(slots)[None], RowPass(buffer, slots))
    return torch.cat((logits[None], decoder.logits(hidden[0])))


def compare_logits(reference: Tensor, other: Tensor) -> Agreement:
    """Return the distance of `other` from `reference`, both logits [T, V] from `logits_along`."""
    kl = F.kl_div(other.log_softmax(-1), reference.log_softmax(-1), log_target=True, reduction="none").sum(-1)
    kl = kl.clamp(min=0)
    same_top1 = (reference.argmax(-1) == other.argmax(-1)).float()
    return Agreement(float(kl[0]), float(same_top1[0]), float(kl.mean()), float(same_top1.mean()))


def renormalize(attention: Tensor) -> Tensor:
    """Return attention [..., T] over the context as a distribution, fp32."""
    positive = attention.float() + 1e-9  # so that every logarithm is finite
    return positive / positive.sum(-1, keepdim=True)


def kl_divergence(reference: Tensor, other: Tensor) -> Tensor:
    """Return KL(reference || other) in nats, [...], for attention [..., T]; both are renormalized first.

    Attention sinks would dominate it: drop the columns of the shared prefix and of the passages' own sinks before.
    """
    return F.kl_div(renormalize(other).log(), renormalize(reference), reduction="none").sum(-1)


def jaccard(one: Tensor, other: Tensor) -> float:
    """Return |intersection| / |union| of two sets of token indices, [R] and [S]; 1 for two empty sets."""
    intersection = len(set(one.tolist()) & set(other.tolist()))
    union = len(one) + len(other) - intersection
    return intersection / union if union else 1.0
