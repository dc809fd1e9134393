"""Attention that each forward pass brings along.

transformers calls the attention function registered for a model. Ours hands the call to the pass that travels in the
keyword arguments of the layer (`reader`), so that prefill of chosen rows, the auxiliary model's batch of chunks and
decoding share the model's own layers and need no patched model code.
"""

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from engine.types import ParallelAttention

NAME = "kvscope"


class Reader(Protocol):
    """Where one forward pass keeps its keys and values, and what its rows see.

    It stands in for transformers' Cache inside a layer, hence the name and argument order of `update`.
    """

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Take the fresh [B, H, R, D] of one layer; return the keys and values to attend to."""
        ...

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        """Return [B, query heads, R, D] for the [B, query heads, R, D] queries."""
        ...


def _hand_over(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    reader: Reader | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    if reader is None:
        raise RuntimeError("a model with kvscope attention runs through engine.model.Decoder only")
    assert isinstance(module.layer_idx, int)
    mixed = reader.attend(module.layer_idx, query, key, value, scaling or query.shape[-1] ** -0.5)
    return mixed.transpose(1, 2), None


def register() -> None:
    """Make the attention known to transformers. Without the mask line transformers drops masks silently."""
    AttentionInterface.register(NAME, _hand_over)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def attend(query: Tensor, keys: Tensor, values: Tensor, scaling: float, mask: Tensor | None, causal: bool) -> Tensor:
    """Return softmax(query keys^T scaling + mask) values, [B, query heads, R, D].

    query         [B, query heads, R, D]
    keys, values  [B, H, T, D]; each serves query heads / H neighbouring query heads
    mask          additive, broadcast to [B, 1, R, T]; None sees everything
    causal        row i sees keys 0..i (only for R == T, without a mask)
    """
    groups = query.shape[1] // keys.shape[1]
    if groups > 1 and query.shape[2] == 1 and mask is None:
        # One row: its query heads become rows of their shared key head, so that no key is read twice.
        batch, heads, _, width = query.shape
        folded = query.view(batch, heads // groups, groups, width)
        return F.scaled_dot_product_attention(folded, keys, values, scale=scaling).view(batch, heads, 1, width)
    return F.scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=causal, scale=scaling, enable_gqa=groups > 1
    )


def attend_merged(
    query: Tensor, keys: Tensor, values: Tensor, scaling: float, mask: Tensor, context: slice, merge: ParallelAttention
) -> Tensor:
    """Return attention to the slots in `context` merged with attention to all others, [B, query heads, R, D] (APE).

    mask  additive, [1, 1, R, T]; must hide none of the context

    The context's logits are divided by the temperature, and its log-sum-exp is multiplied by scale and temperature
    before both meet in a softmax. With both at 1 this is plain attention. In fp32; source: arXiv:2502.05431.
    """
    batch, heads, rows, width = query.shape
    groups = heads // keys.shape[1]
    folded = query.reshape(batch, keys.shape[1], groups * rows, width).float()
    logits = folded @ keys.float().transpose(2, 3) * scaling + mask.float().repeat(1, 1, groups, 1)
    behind = logits[..., context] / merge.temperature
    other = torch.cat((logits[..., : context.start], logits[..., context.stop :]), dim=-1)
    other_values = torch.cat((values[:, :, : context.start], values[:, :, context.stop :]), dim=2).float()
    ours = behind.logsumexp(-1) * merge.scale * merge.temperature
    share = torch.sigmoid(ours - other.logsumexp(-1))[..., None]
    mixed = share * (behind.softmax(-1) @ values[:, :, context].float())
    mixed += (1 - share) * (other.softmax(-1) @ other_values)
    return mixed.reshape(batch, heads, rows, width).to(query.dtype)


def weights(query: Tensor, keys: Tensor, scaling: float, mask: Tensor) -> Tensor:
    """Return the attention weights written out, [query heads, R, T] in fp32.

    query  [1, query heads, R, D]
    keys   [1, H, T, D]
    mask   additive, [1, 1, R, T]
    """
    heads, rows, groups = keys.shape[1], query.shape[2], query.shape[1] // keys.shape[1]
    folded = query.reshape(1, heads, groups * rows, -1).float()
    logits = folded @ keys.float().transpose(2, 3) * scaling + mask.float().repeat(1, 1, groups, 1)
    return logits.softmax(-1).view(heads * groups, rows, -1)


def weighted(attention: Tensor, values: Tensor) -> Tensor:
    """Return what rows with these attention weights [query heads, R, T] read from values [1, H, T, D]."""
    heads, rows, keys = attention.shape
    folded = attention.view(values.shape[1], -1, keys).to(values.dtype)
    return (folded @ values[0]).view(1, heads, rows, -1)


def visible(row_slots: Tensor, keys: int, dtype: torch.dtype) -> Tensor:
    """Return the additive mask [1, 1, R, keys] in which row i sees the slots at or before row_slots[i]."""
    hidden = torch.arange(keys, device=row_slots.device)[None, :] > row_slots[:, None]
    return torch.zeros(hidden.shape, dtype=dtype, device=row_slots.device).masked_fill_(hidden, float("-inf"))[
        None, None
    ]
