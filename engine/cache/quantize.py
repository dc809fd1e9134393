"""Chunk KV as named tensors, as it is stored on disk and on a KV server: unchanged, or quantized to 8 bits."""

import torch
from torch import Tensor

from engine.types import ChunkKV


def to_tensors(kv: ChunkKV, bits: int) -> dict[str, Tensor]:
    """Return chunk KV as named tensors: unchanged for 16 `bits`, quantized for 8 as in KIVI (arXiv:2402.02750).

    A few key channels are large for all tokens, so keys share a scale along each channel, and values along each token.
    """
    start = torch.tensor([kv.start])
    if bits == 16:
        return {"keys": kv.keys, "values": kv.values, "start": start}
    keys, key_scales = _quantize(kv.keys, dim=2)
    values, value_scales = _quantize(kv.values, dim=3)
    kind = torch.empty(0, dtype=kv.keys.dtype)  # only its dtype is read
    scales = {"key_scales": key_scales, "value_scales": value_scales}
    return {"keys": keys, "values": values, **scales, "start": start, "kind": kind}


def from_tensors(tensors: dict[str, Tensor]) -> ChunkKV:
    """Return the chunk KV that `to_tensors` was given; exact for 16 bits."""
    keys = tensors["keys"]
    values = tensors["values"]
    quantized = "kind" in tensors
    if quantized:
        dtype = tensors["kind"].dtype
        keys = (keys.float() * tensors["key_scales"]).to(dtype)
        values = (values.float() * tensors["value_scales"]).to(dtype)
    return ChunkKV(keys, values, int(tensors["start"]), quantized)


def _quantize(tensor: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return int8 values and fp32 scales, one scale for all values along `dim`."""
    scales = tensor.float().abs().amax(dim, keepdim=True).clamp_min(1e-12) / 127  # int8's largest value
    return (tensor.float() / scales).round().to(torch.int8), scales
