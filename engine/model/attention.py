"""Attention that is defined by the forward pass, not by the model.

transformers calls the attention function registered under `ATTENTION_NAME`. Ours delegates to the `AttentionPass` among
the layer's keyword arguments. So recomputation, scoring and decoding all use the model's own, unpatched layers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from engine.types import ParallelAttention

ATTENTION_NAME = "kvscope"


@dataclass(frozen=True, slots=True)
class ParallelLayout:
    """Chunks that share positions (APE), in slots `context`; the tokens after them follow the longest one."""

    context: slice
    longest_tokens: int
    attention: ParallelAttention


class AttentionPass(Protocol):
    """One forward pass: its keys and values, and what its rows attend to. Takes the place of transformers' Cache."""

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Store the rows' keys (rotated) and values, [B, H, R, D]; return the keys and values to attend to."""
        ...

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        """Return the attention output of a rotated query, both [B, query heads, R, D], to what `update` returned."""
        ...


def _attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    attention_pass: AttentionPass | None = None,
    pause: Callable[[], None] = lambda: None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    if attention_pass is None:
        raise RuntimeError("a model with kvscope attention runs through engine.model.decoder.Decoder only")
    layer: Any = module.layer_idx
    pause()
    output = attention_pass.attend(layer, query, key, value, scaling or query.shape[-1] ** -0.5)
    pause()
    return output.transpose(1, 2), None


AttentionInterface.register(ATTENTION_NAME, _attention_forward)
AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)  # without one, transformers would ignore masks silently


def attend(query: Tensor, keys: Tensor, values: Tensor, scaling: float, mask: Tensor | None) -> Tensor:
    """Return softmax(query keys^T scaling + mask) values, [B, query heads, R, D].

    query         [B, query heads, R, D]
    keys, values  [B, H, T, D]; each head serves query heads / H adjacent query heads
    mask          additive, broadcast to [B, 1, R, T]; None if the only row sees all keys, or if R == T rows are causal
    """
    groups = query.shape[1] // keys.shape[1]
    if groups > 1 and query.shape[2] == 1 and mask is None:
        # One row: make the query heads of a key head its rows, so that each key is read once.
        batch, heads, _, head_dim = query.shape
        folded = query.view(batch, heads // groups, groups, head_dim)
        return F.scaled_dot_product_attention(folded, keys, values, scale=scaling).reshape(batch, heads, 1, head_dim)
    causal = mask is None and query.shape[2] > 1
    return F.scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=causal, scale=scaling, enable_gqa=groups > 1
    )


def attend_parallel(
    query: Tensor, keys: Tensor, values: Tensor, scaling: float, mask: Tensor | None, layout: ParallelLayout
) -> Tensor:
    """Return APE's attention (arXiv:2502.05431) to the context slots, which the mask must not mask, and all others.

    The context's logits are divided by the temperature, and its log-sum-exp is multiplied by scale and temperature.
    A softmax over both log-sum-exps then weights the two outputs. With temperature = scale = 1 this is plain attention.
    Computed in fp32; arguments and result as for `attend`.
    """
    context, parallel = layout.context, layout.attention
    logits = attention_logits(query, keys, scaling, mask)
    context_logits = logits[..., context] / parallel.temperature
    other_logits = torch.cat((logits[..., : context.start], logits[..., context.stop :]), dim=-1)
    other_values = torch.cat((values[:, :, : context.start], values[:, :, context.stop :]), dim=2).float()
    context_lse = context_logits.logsumexp(-1) * parallel.scale * parallel.temperature
    context_weight = torch.sigmoid(context_lse - other_logits.logsumexp(-1))[..., None]
    output = context_weight * (context_logits.softmax(-1) @ values[:, :, context].float())
    output += (1 - context_weight) * (other_logits.softmax(-1) @ other_values)
    return output.reshape(query.shape).to(query.dtype)


def attention_logits(query: Tensor, keys: Tensor, scaling: float, mask: Tensor | None) -> Tensor:
    """Return query keys^T scaling + mask, [B, H, query heads / H * R, T] in fp32; arguments as for `attend`."""
    batch, heads, rows, head_dim = query.shape
    groups = heads // keys.shape[1]
    folded = query.reshape(batch, keys.shape[1], groups * rows, head_dim).float()
    logits = folded @ keys.float().transpose(2, 3) * scaling
    return logits if mask is None else logits + mask.float().repeat(1, 1, groups, 1)


def causal_mask(row_slots: Tensor, num_keys: int, dtype: torch.dtype) -> Tensor:
    """Return the additive mask [1, 1, R, num_keys] in which row i attends to slots 0..row_slots[i]."""
    masked = torch.arange(num_keys, device=row_slots.device)[None, :] > row_slots[:, None]
    mask = torch.zeros(masked.shape, dtype=dtype, device=row_slots.device)
    return mask.masked_fill_(masked, float("-inf"))[None, None]
