"""Re-rotate cached keys to new positions (RoPE: RoFormer, arXiv:2104.09864, section 3.2).

Rotations compose, R(q - p) R(p) = R(q), so a key cached at position p moves to q by rotating it by the difference.
Half-split layout only: channel i is paired with channel i + D/2, as in Llama, Qwen and Mistral.
"""

import torch
from torch import Tensor


def rerotate_keys(keys: Tensor, shift: int | Tensor, inv_freq: Tensor, out: Tensor | None = None) -> Tensor:
    """Return rotated `keys` [..., T, D] as if every token were `shift` positions later, written to `out` if given.

    shift     negative moves tokens to earlier positions; a tensor with one value per token broadcasts against [..., T]
    inv_freq  [D/2], the model's own frequencies, radians per token

    Angles are computed in fp32: near position 40,000, adjacent bf16 integers differ by 256. The model's cos and sin
    tables would apply YaRN's attention factor again, which cached keys already include.
    """
    half = inv_freq.numel()
    if isinstance(shift, int) and shift == 0:
        return keys if out is None else out.copy_(keys)
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
