"""Under which name KV is filed: the model's weights and what it does with them, the shared prefix, the chunk's ids."""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from engine.model.decoder import Decoder

FORMAT = "kv3"  # changes when the meaning of stored KV changes
SAMPLED = 64  # values read of each weight: enough to tell finetuned models apart, without reading gigabytes


@torch.inference_mode()
def model_fingerprint(decoder: Decoder) -> str:
    """Return 16 hex digits that name a model's weights, dtype and kind of device, wherever its files lie."""
    spec = decoder.spec
    digest = hashlib.sha256(
        f"{FORMAT} {decoder.dtype} {decoder.device.type} {spec.forward} {spec.inv_freq.tolist()}".encode()
    )
    for name, weight in decoder.model.state_dict().items():
        flat = weight.flatten()
        sample = flat[:: max(1, len(flat) // SAMPLED)][:SAMPLED].float().cpu().numpy()
        digest.update(f"{name} {tuple(weight.shape)}".encode() + sample.tobytes())
    return digest.hexdigest()[:16]


def chunk_fingerprint(model: str, prefix: Sequence[int], ids: Sequence[int]) -> str:
    """Return the hex digest under which one chunk's KV is filed."""
    digest = hashlib.sha256(f"{model} {len(prefix)} ".encode())
    digest.update(np.asarray([*prefix, *ids], dtype=np.int64).tobytes())
    return digest.hexdigest()


def path_fingerprint(parent: str, chunk: str) -> str:
    """Return the hex digest of a path: the digest of the path before it, and that of its last chunk."""
    return hashlib.sha256(f"{parent} {chunk}".encode()).hexdigest()
