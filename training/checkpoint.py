"""Where a finetune stands, on disk: safetensors and JSON, written whole or not at all."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.errors import KVScopeError


class BadCheckpoint(KVScopeError):
    hint = "Delete that folder to start again, or give another --out."


class NotWritten(KVScopeError):
    hint = "Make room on the disk, then give the same command: it goes on from the last checkpoint."


def save(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write a checkpoint beside the last one, then put it in its place. Raises NotWritten; the last one is kept."""
    draft, old = folder.with_suffix(".new"), folder.with_suffix(".old")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft / "tensors.safetensors")
        (draft / "state.json").write_text(json.dumps(state, indent=1) + "\n")
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.replace(old)
        draft.replace(folder)
        shutil.rmtree(old, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise NotWritten(f"The checkpoint {folder} cannot be written ({error}).") from error


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Return the last whole checkpoint, or None without one. Raises BadCheckpoint when it cannot be read."""
    old = folder.with_suffix(".old")  # killed between the two renames
    found = next((place for place in (folder, old) if place.exists()), None)
    if found is None:
        return None
    try:
        return load_file(found / "tensors.safetensors"), json.loads((found / "state.json").read_text())
    except (OSError, ValueError, SafetensorError) as error:
        raise BadCheckpoint(f"The checkpoint in {found} cannot be read ({error}).") from error


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: list[str]) -> dict[str, Tensor]:
    """Return an AdamW's moments by parameter name."""
    state = optimizer.state_dict()["state"]
    return {
        f"{moment}:{name}": state[number][moment]
        for number, name in enumerate(names)
        if number in state
        for moment in ("step", "exp_avg", "exp_avg_sq")
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, names: list[str], tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` gave."""
    whole = optimizer.state_dict()
    whole["state"] = {
        number: {moment: tensors[f"{moment}:{name}"] for moment in ("step", "exp_avg", "exp_avg_sq")}
        for number, name in enumerate(names)
    }
    optimizer.load_state_dict(whole)
