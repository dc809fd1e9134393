"""Move cached keys to new positions.

A key cached at position p carries the rotation R(p). Rotations add up, so R(q - p) R(p) = R(q): turning by the
difference moves the key, and the unrotated key never has to be kept. Values carry no position and are left alone.

Half-split layout only (channel i is paired with i + D/2), as in Llama, Qwen and Mistral.
Source: RoFormer, arXiv:2104.09864, section 3.2.
"""

import torch
from torch import Tensor


def move_keys(keys: Tensor, shift: int | Tensor, inv_freq: Tensor, out: Tensor | None = None) -> Tensor:
    """Return `keys` as if every token had been cached `shift` positions later.

    keys      [..., T, D]  rotated, any float dtype; not modified
    shift     signed; negative moves the tokens earlier. A tensor, one for each token, is broadcast against [..., T]
    inv_freq  [D/2]        the model's own frequencies, radians per token
    out       [..., T, D]  written if given, e.g. a place in a buffer

    Angles are formed in fp32: near position 40 000, bf16 integers are 256 apart. YaRN's attention factor is already
    inside the cached key and must not be applied again, which is why this takes frequencies and not the model's
    cos/sin tables.

    Raises ValueError if the last axis of `keys` is not twice the length of `inv_freq`.
    """
    half = inv_freq.numel()
    if keys.shape[-1] != 2 * half:
        raise ValueError(f"keys have width {keys.shape[-1]}, but {half} frequencies rotate width {2 * half}")
    if isinstance(shift, int) and shift == 0:
        return keys.clone() if out is None else out.copy_(keys)
    angle = (
        torch.as_tensor(shift, dtype=torch.float32, device=keys.device)[..., None] * inv_freq.to(keys.device).float()
    )
    cos, sin = angle.cos(), angle.sin()  # [..., D/2]
    if out is None:
        out = keys.new_empty(*torch.broadcast_shapes(keys.shape[:-1], angle.shape[:-1]), 2 * half)
    first, second = keys[..., :half].float(), keys[..., half:].float()
    out[..., :half] = (first * cos).addcmul_(second, sin, value=-1)
    out[..., half:] = (second * cos).addcmul_(first, sin)
    return out
