"""Chunk KV in 8 bits, for keeping only: a scale for each key channel and for each value token.

Keys have few channels that are large for all tokens, values have none: so keys share a scale along a channel and values
along a token, as KIVI found (arXiv:2402.02750).
"""

import torch
from torch import Tensor

from engine.types import ChunkKV

LARGEST = 127


def stored(kv: ChunkKV, bits: int) -> dict[str, Tensor]:
    """Return chunk KV as named tensors: as it is for 16 `bits`, quantised for 8."""
    start = torch.tensor([kv.start])
    if bits == 16:
        return {"keys": kv.keys, "values": kv.values, "start": start}
    keys, key_scales = _quantised(kv.keys, along=2)
    values, value_scales = _quantised(kv.values, along=3)
    kind = torch.empty(0, dtype=kv.keys.dtype)
    return {
        **{"keys": keys, "key_scales": key_scales, "values": values, "value_scales": value_scales},
        **{"start": start, "kind": kind},
    }


def restored(held: dict[str, Tensor]) -> ChunkKV:
    """Return the chunk KV that `stored` was given; of 8 bits, the nearest to it."""
    keys, values = held["keys"], held["values"]
    if "kind" in held:
        kind = held["kind"].dtype
        keys = (keys.float() * held["key_scales"]).to(kind)
        values = (values.float() * held["value_scales"]).to(kind)
    return ChunkKV(keys, values, int(held["start"]), quantized="kind" in held)


def quantised_bytes(kv: ChunkKV) -> int:
    """Return the bytes of chunk KV in 8 bits, its scales in fp32 among them."""
    layers, heads, tokens, width = kv.keys.shape
    return 2 * kv.keys.numel() + 4 * layers * heads * (width + tokens)


def _quantised(values: Tensor, along: int) -> tuple[Tensor, Tensor]:
    """Return int8 values and their fp32 scales; all values along an axis share one."""
    largest = values.float().abs().amax(along, keepdim=True)
    scales = largest.clamp_min(1e-12) / LARGEST
    return (values.float() / scales).round().to(torch.int8), scales
