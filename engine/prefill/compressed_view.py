"""The attention of a question that has read a compressed view of the chunks (QCFuse, arXiv:2604.08585, 2606.05875).

Before the critical layer, the question attends to the shared prefix and to a few anchor tokens of each chunk, at their
positions in the prompt; in the critical layer, to all tokens. Later layers are not run. So of the chunks, only the
anchors' KV and one layer's keys are read and rotated.
"""

import math
from collections.abc import Sequence
from threading import Event
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.attention import attend, attention_logits, causal_mask
from engine.model.decoder import Decoder
from engine.model.rope import rerotate_keys
from engine.types import ChunkKV


@torch.inference_mode()
def compressed_view_attention(
    decoder: Decoder,
    prefix: ChunkKV,
    chunks: Sequence[ChunkKV],
    query_ids: Tensor,
    positions: Tensor,
    anchor_ratio: float,
    layer: int,
    cancel: Event | None = None,
) -> Tensor:
    """Return the mean attention in the critical `layer`, over heads and question rows, [context tokens] in fp32.

    chunks                in prompt order, after the prefix
    query_ids, positions  [R] each, after the chunks
    """
    view = _CompressedViewPass(decoder.spec.inv_freq, prefix, chunks, anchor_ratio, layer)
    hidden, rotation = decoder.embed(query_ids[None], positions[None])
    for number in range(layer + 1):
        hidden = decoder.run_layer(number, hidden, rotation, view, cancel)
    return view.attention


def find_anchors(keys: Tensor, ratio: float) -> Tensor:
    """Return the indices [L, anchors] of a chunk's anchors: ceil(ratio x T) tokens with the most distinctive keys.

    These have the smallest cosine similarity to the chunk's mean key (KeyDiff, arXiv:2504.15364), here the mean over
    heads. `keys` [L, H, T, D] may be rotated by any common shift.
    """
    count = math.ceil(ratio * keys.shape[2] - 1e-9)
    unit = F.normalize(keys.float(), dim=-1)
    similarity = F.cosine_similarity(unit, unit.mean(2, keepdim=True), dim=-1).mean(1)  # [L, T]
    return similarity.argsort(stable=True)[:, :count]


class _CompressedViewPass:
    """An `AttentionPass` of the question, over a compressed view before the critical layer and all keys in it."""

    def __init__(
        self, inv_freq: Tensor, prefix: ChunkKV, chunks: Sequence[ChunkKV], anchor_ratio: float, critical_layer: int
    ) -> None:
        layers = slice(critical_layer)
        view_keys, view_values, all_keys = [prefix.keys[layers]], [prefix.values[layers]], [prefix.keys[critical_layer]]
        start = self._prefix_tokens = prefix.tokens
        for chunk in chunks:
            anchors = find_anchors(chunk.keys[layers], anchor_ratio)[:, None, :, None]
            shift = start - chunk.start
            view_keys.append(rerotate_keys(chunk.keys[layers].take_along_dim(anchors, dim=2), shift, inv_freq))
            view_values.append(chunk.values[layers].take_along_dim(anchors, dim=2))
            all_keys.append(rerotate_keys(chunk.keys[critical_layer], shift, inv_freq))
            start += chunk.tokens
        self._view_keys = torch.cat(view_keys, dim=2)  # [critical layer, H, prefix + anchors, D]
        self._view_values = torch.cat(view_values, dim=2)
        self._all_keys = torch.cat(all_keys, dim=1)  # [H, prefix + context, D]
        self._critical_layer = critical_layer
        self.query_start = start
        self.attention = torch.empty(0)  # [context tokens] in fp32 after the critical layer

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if layer == self._critical_layer:
            return torch.cat((self._all_keys[None], keys), dim=2), values  # the values are not used
        return (
            torch.cat((self._view_keys[layer, None], keys), dim=2),
            torch.cat((self._view_values[layer, None], values), dim=2),
        )

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        rows, num_keys = query.shape[2], keys.shape[2]
        mask = causal_mask(torch.arange(num_keys - rows, num_keys, device=query.device), num_keys, query.dtype)
        if layer < self._critical_layer:
            return attend(query, keys, values, scaling, mask)
        weights = attention_logits(query, keys, scaling, mask)[0].softmax(-1)  # [H, query heads / H * R, T]
        self.attention = weights[..., self._prefix_tokens : self.query_start].mean((0, 1)).cpu()
        return query  # the output of the critical layer is not used
