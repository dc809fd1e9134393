"""A recompute pass that loses rows on its way through the layers.

Before a layer, the plan may look at how far its rows' fresh keys and values lie from the cached ones and go on with
some of them; the others keep what the cache holds from there on. CacheBlend chooses its tokens this way.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any

import torch
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer, RowPass
from engine.types import Deviation, RowFilter


@dataclass(frozen=True, slots=True)
class FilteredPrefill:
    """What was left.

    logits  [V] of the last row
    rows    in each layer the context slots that got fresh KV, [R] each
    chosen  the first layer in which rows were chosen; 0 where that never happened
    """

    logits: Tensor
    rows: tuple[Tensor, ...]
    chosen: int


@torch.inference_mode()
def prefill_filtered(
    decoder: Decoder,
    ids: Tensor,
    buffer: KVBuffer,
    slots: Tensor,
    asked: int,
    thin: RowFilter,
    cancel: Event | None = None,
) -> FilteredPrefill:
    """Give `slots` [R] of a buffer fresh KV from token `ids` [R], dropping rows as `thin` says.

    asked  rows at the end that are never dropped: the question
    """
    hidden, where = decoder.embed(ids[None], slots[None])
    reader, rows, chosen = RowPass(buffer, slots), [], 0
    for layer in range(decoder.spec.layers):
        kept = thin(layer, _deviation(decoder, layer, hidden, where, buffer, slots, asked))
        if kept is not None:
            chosen = chosen or layer
            kept = torch.cat((kept, torch.arange(len(slots) - asked, len(slots))))
            hidden, where = hidden[:, kept], (where[0][:, kept], where[1][:, kept])
            slots = slots[kept]
            reader = RowPass(buffer, slots)
        rows.append(slots[: len(slots) - asked])
        hidden = decoder.layer(layer, hidden, where, reader, cancel)
    return FilteredPrefill(decoder.logits(hidden[0, -1]), tuple(rows), chosen)


def _deviation(
    decoder: Decoder, layer: int, hidden: Tensor, where: Any, buffer: KVBuffer, slots: Tensor, asked: int
) -> Callable[[], Deviation]:
    def measure() -> Deviation:
        seen, count = _Glance(), len(slots) - asked
        if not count:
            return Deviation(torch.empty(0), torch.empty(0))
        rows = slice(0, count)
        with suppress(_Seen):
            decoder.layer(layer, hidden[:, rows], (where[0][:, rows], where[1][:, rows]), seen)
        held = buffer.keys[layer][:, slots[rows]], buffer.values[layer][:, slots[rows]]
        keys, values = (
            (fresh[0].float() - cached.float()).square().sum(dim=(0, 2)).cpu()
            for fresh, cached in zip((seen.keys, seen.values), held, strict=True)
        )
        return Deviation(keys, values)

    return measure


class _Seen(Exception):
    """No error: a layer has shown its keys and values and need not go on."""


class _Glance:
    """A `Reader` that takes a layer's fresh keys and values and ends the layer there."""

    keys: Tensor
    values: Tensor

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.keys, self.values = keys, values
        raise _Seen

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        raise AssertionError("the layer ends before its attention")
