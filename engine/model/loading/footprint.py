"""What a model would take, told from its configuration and the heads of its files, before any weight is read.

A folder answers from its own files. A model on the hub answers with two small requests: its file list, which counts
the parameters, and its config.json.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import psutil
import torch
from httpx2 import HTTPError
from huggingface_hub import hf_hub_download, model_info
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from safetensors import SafetensorError, safe_open

from engine.errors import HubUnreachable, ModelNotFound
from engine.model.loading import bundled as embedded
from engine.model.loading.resolve import WANTED, found_here
from engine.model.spec import check

TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a decoder takes, in any number format.

    family       'llama', 'qwen3' and the like
    parameters   of all its weights
    kv_elements  numbers that the KV of one token has: 2 * L * H * D
    context      tokens it was trained to read at once
    fetch_bytes  what has to be downloaded first; 0 for a model that is on this machine
    """

    family: str
    parameters: int
    kv_elements: int
    context: int
    fetch_bytes: int = 0

    def weights_bytes(self, dtype: torch.dtype) -> int:
        return self.parameters * dtype.itemsize

    def kv_bytes(self, tokens: int, dtype: torch.dtype) -> int:
        """Return the bytes of the KV of so many tokens, or of a whole context where it is shorter."""
        return min(tokens, self.context) * self.kv_elements * dtype.itemsize


# Until it is unpacked, the embedded model is a file in a wheel whose head is not worth reading.
EMBEDDED = Footprint("llama", 134_515_008, 2 * 30 * 3 * 64, embedded.CONTEXT, fetch_bytes=93_000_000)


def footprint(name: str, folder: Path) -> Footprint:
    """Return what the model `name` would take; arguments as for `resolve`, and nothing but small files is fetched.

    Raises ModelNotFound where `resolve` would, UnsupportedModel where `load` would refuse the configuration, and
    HubUnreachable if the model is not on this machine and the hub gives no answer.
    """
    if (place := found_here(name, folder)) is not None:
        return of_folder(place)
    return EMBEDDED if name == embedded.NAME else of_hub(name)


def of_folder(folder: Path) -> Footprint:
    """Return what the model in a folder takes. Raises ModelNotFound if its files are missing or torn."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        parameters = sum(_parameters(path) for path in folder.glob("*.safetensors"))
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelNotFound(f"The model in {folder} cannot be read ({str(error).splitlines()[0]}).") from error
    if not parameters:
        raise ModelNotFound(f"The folder {folder} has no safetensors weights.")
    return _shaped(config, str(folder), parameters)


def of_hub(name: str) -> Footprint:
    """Return what a model on the hub takes. Raises ModelNotFound and HubUnreachable."""
    try:
        info = model_info(name, files_metadata=True, timeout=TIMEOUT_S)
        with TemporaryDirectory() as apart:  # in the hub's cache, this one file would pass for the whole model
            held = hf_hub_download(name, "config.json", etag_timeout=TIMEOUT_S, local_dir=apart)
            config = json.loads(Path(held).read_text())
    except HFValidationError as error:
        raise ModelNotFound(f"{name!r} is neither a folder nor a name on the hub.") from error
    except HfHubHTTPError as error:  # the hub answers, and says no
        raise ModelNotFound(f"The hub does not give {name!r} ({str(error).splitlines()[0]}).") from error
    except (HTTPError, OSError, ValueError) as error:
        raise HubUnreachable(f"{name!r} is not on this machine, and the hub cannot be reached.") from error
    if info.safetensors is None:
        raise ModelNotFound(f"{name!r} has no safetensors weights.")
    wanted = [file for file in info.siblings or () if any(Path(file.rfilename).match(kind) for kind in WANTED)]
    return _shaped(config, name, info.safetensors.total, sum(file.size or 0 for file in wanted))


def free_bytes(device: torch.device) -> int:
    """Return the bytes of the device's memory that a model may take now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def _parameters(path: Path) -> int:
    with safe_open(path, framework="pt") as weights:
        return sum(torch.Size(weights.get_slice(name).get_shape()).numel() for name in weights.keys())  # noqa: SIM118


def _shaped(config: Any, name: str, parameters: int, fetch_bytes: int = 0) -> Footprint:
    """Return the footprint that a config.json describes. Raises UnsupportedModel, and ModelNotFound for no config."""
    if not isinstance(config, dict) or "model_type" not in config:
        raise ModelNotFound(f"The config.json of {name} does not describe a model.")
    check(SimpleNamespace(**config))
    try:
        heads = config["num_attention_heads"]
        kv_heads = config.get("num_key_value_heads") or heads
        width = config.get("head_dim") or config["hidden_size"] // heads
        kv_elements = 2 * config["num_hidden_layers"] * kv_heads * width
        return Footprint(config["model_type"], parameters, kv_elements, config["max_position_embeddings"], fetch_bytes)
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise ModelNotFound(f"The config.json of {name} does not say {error}.") from error
