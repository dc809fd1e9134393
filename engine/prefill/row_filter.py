"""Selective recompute that drops rows between layers, as CacheBlend (arXiv:2405.16444) does.

Before each layer a row filter may measure how far the rows' fresh KV deviates from the cached KV, and drop rows.
"""

from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any

import torch
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer, RowPass
from engine.types import Deviation, RowFilter


@torch.inference_mode()
def prefill_filtered(
    decoder: Decoder,
    ids: Tensor,
    buffer: KVBuffer,
    slots: Tensor,
    num_query_tokens: int,
    row_filter: RowFilter,
    cancel: Event | None = None,
) -> tuple[Tensor, list[Tensor], int]:
    """Compute KV for `slots` [R] of a buffer from token `ids` [R], dropping rows as the filter decides.

    The last `num_query_tokens` rows are never dropped. Returns the logits [V] of the last row, the context slots that
    got fresh KV in each layer, and the first filtered layer, or 0 if none was.
    """
    hidden, rotation = decoder.embed(ids[None], slots[None])
    row_pass = RowPass(buffer, slots)
    rows_by_layer = []
    first_filtered_layer = 0
    context_slots, query_slots = slots.tensor_split([len(slots) - num_query_tokens])
    for layer in range(decoder.spec.num_layers):
        kept = row_filter(layer, partial(_measure_deviation, decoder, layer, hidden, rotation, buffer, context_slots))
        if kept is not None:
            first_filtered_layer = first_filtered_layer or layer
            indices = torch.cat((kept, torch.arange(len(context_slots), len(context_slots) + num_query_tokens)))
            hidden = hidden[:, indices]
            rotation = rotation[0][:, indices], rotation[1][:, indices]
            context_slots = context_slots[kept]
            row_pass = RowPass(buffer, torch.cat((context_slots, query_slots)))
        rows_by_layer.append(context_slots)
        hidden = decoder.run_layer(layer, hidden, rotation, row_pass, cancel)
    return decoder.logits(hidden[0, -1]), rows_by_layer, first_filtered_layer


def _measure_deviation(
    decoder: Decoder, layer: int, hidden: Tensor, rotation: tuple[Tensor, Tensor], buffer: KVBuffer, slots: Tensor
) -> Deviation:
    """Return the deviation of `slots` [R] in a layer; theirs are the first R rows of hidden and rotation."""
    if not (count := len(slots)):
        return Deviation(torch.empty(0), torch.empty(0))
    fresh = _KVCapture()
    with suppress(_LayerStopped):
        decoder.run_layer(layer, hidden[:, :count], (rotation[0][:, :count], rotation[1][:, :count]), fresh)
    return Deviation(
        _squared_difference(fresh.keys[0], buffer.keys[layer][:, slots]),
        _squared_difference(fresh.values[0], buffer.values[layer][:, slots]),
    )


def _squared_difference(fresh: Tensor, cached: Tensor) -> Tensor:
    """Return the squared difference of two [H, R, D], summed over heads and width, [R] on the CPU."""
    return (fresh.float() - cached.float()).square().sum(dim=(0, 2)).cpu()


class _LayerStopped(Exception):
    """Ends a layer after its keys and values were captured."""


class _KVCapture:
    """An `AttentionPass` that captures a layer's fresh keys and values, and ends the layer before attention."""

    keys: Tensor
    values: Tensor

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.keys = keys
        self.values = values
        raise _LayerStopped

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        raise AssertionError("the layer ends before its attention")
