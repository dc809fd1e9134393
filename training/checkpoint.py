"""Save and load training checkpoints: tensors as safetensors and state as JSON, replaced atomically."""

import json
import shutil
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.errors import KVScopeError

# Configurations are stored under these keys, whatever their fields are called; all others under the field's name.
STORED_KEYS = {
    "checkpoint_steps": "every",
    "epochs": "rounds",
    "eval_examples": "judged",
    "eval_fraction": "held",
    "examples": "lessons",
    "full_prefill_fraction": "plain",
    "head": "heads",
    "head_size": "size",
    "learning_rate": "rate",
    "lora": "adapter",
    "max_grad_norm": "clip",
    "max_passages": "passages",
    "max_questions": "questions",
    "max_tokens": "tokens",
    "num_heads": "heads",
    "recompute_range": "fresh",
    "steps": "lessons",
    "synthetic_fraction": "records",
    "unanswerable_fraction": "absent",
    "warmup_steps": "warmup",
}


ADDED_FIELDS = (
    "batch_size",
    "split_fraction",
)  # stored only if they differ from the default: checkpoints made before stay valid


class BadCheckpoint(KVScopeError):
    hint = "Delete that folder to start over, or pass another --out."


class CheckpointNotWritten(KVScopeError):
    hint = "Free some disk space, then run the same command: it resumes from the last checkpoint."


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write a checkpoint, then replace the previous one. Raises CheckpointNotWritten, and keeps the previous one."""
    draft = folder.with_suffix(".new")
    previous = folder.with_suffix(".old")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft / "tensors.safetensors")
        (draft / "state.json").write_text(json.dumps(state, indent=1) + "\n")
        shutil.rmtree(previous, ignore_errors=True)
        if folder.exists():
            folder.replace(previous)
        draft.replace(folder)
        shutil.rmtree(previous, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise CheckpointNotWritten(f"The checkpoint {folder} cannot be written ({error}).") from error


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Return the last complete checkpoint, or None if there is none. Raises BadCheckpoint if it cannot be read."""
    if not folder.exists():
        folder = folder.with_suffix(".old")  # the run was killed between the two renames
        if not folder.exists():
            return None
    try:
        return load_file(folder / "tensors.safetensors"), json.loads((folder / "state.json").read_text())
    except (OSError, ValueError, SafetensorError) as error:
        raise BadCheckpoint(f"The checkpoint in {folder} cannot be read ({error}).") from error


def to_json(config: Any) -> Any:
    """Return a configuration as checkpoints and reports store it."""
    if is_dataclass(config):
        values = {each: getattr(config, each.name) for each in fields(config)}
        return {
            STORED_KEYS.get(each.name, each.name): to_json(value)
            for each, value in values.items()
            if each.name not in ADDED_FIELDS or value != each.default
        }
    return list(config) if isinstance(config, tuple) else config
