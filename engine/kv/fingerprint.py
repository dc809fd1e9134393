"""Keys of cached KV: fingerprints of model weights and configuration, shared prefix and token ids."""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from engine.model.decoder import Decoder

FORMAT_VERSION = "kv3"  # changes when the meaning of stored KV changes
SAMPLES_PER_WEIGHT = 64  # enough to distinguish finetuned models without reading gigabytes


@torch.inference_mode()
def model_fingerprint(decoder: Decoder) -> str:
    """Return 16 hex digits that identify a model's weights, configuration, dtype and device type, not its location."""
    spec, device = decoder.spec, decoder.device.type
    config = f"{FORMAT_VERSION} {decoder.dtype} {device} {spec.forward_config} {spec.inv_freq.tolist()}"
    digest = hashlib.sha256(config.encode())
    for name, weight in decoder.model.state_dict().items():
        flat = weight.flatten()
        sample = flat[:: max(1, len(flat) // SAMPLES_PER_WEIGHT)][:SAMPLES_PER_WEIGHT].float().cpu().numpy()
        digest.update(f"{name} {tuple(weight.shape)}".encode() + sample.tobytes())
    return digest.hexdigest()[:16]


def chunk_fingerprint(model: str, prefix: Sequence[int], ids: Sequence[int]) -> str:
    """Return the hex digest that identifies one chunk's KV."""
    digest = hashlib.sha256(f"{model} {len(prefix)} ".encode())
    digest.update(np.asarray([*prefix, *ids], dtype=np.int64).tobytes())
    return digest.hexdigest()


def path_fingerprint(parent: str, chunk: str) -> str:
    """Return the hex digest of a path, from the digests of its parent path and its last chunk."""
    return hashlib.sha256(f"{parent} {chunk}".encode()).hexdigest()
