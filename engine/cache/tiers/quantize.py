"""8-bit quantization of chunk KV for storage, as in KIVI (arXiv:2402.02750).

A few key channels are large for all tokens, so keys share a scale along each channel. Values have no such channels and
share a scale along each token.
"""

import torch
from torch import Tensor

from engine.types import ChunkKV

INT8_MAX = 127


def to_tensors(kv: ChunkKV, bits: int) -> dict[str, Tensor]:
    """Return chunk KV as named tensors: unchanged for 16 `bits`, quantized for 8."""
    start = torch.tensor([kv.start])
    if bits == 16:
        return {"keys": kv.keys, "values": kv.values, "start": start}
    keys, key_scales = _quantize(kv.keys, dim=2)
    values, value_scales = _quantize(kv.values, dim=3)
    return {
        "keys": keys,
        "key_scales": key_scales,
        "values": values,
        "value_scales": value_scales,
        "start": start,
        "kind": torch.empty(0, dtype=kv.keys.dtype),  # only its dtype is read
    }


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


def quantized_bytes(kv: ChunkKV) -> int:
    """Return the bytes of chunk KV in 8 bits, including its fp32 scales."""
    layers, heads, tokens, head_dim = kv.keys.shape
    return 2 * kv.keys.numel() + 4 * layers * heads * (head_dim + tokens)


def _quantize(tensor: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return int8 values and fp32 scales, one scale for all values along `dim`."""
    scales = tensor.float().abs().amax(dim, keepdim=True).clamp_min(1e-12) / INT8_MAX
    return (tensor.float() / scales).round().to(torch.int8), scales
