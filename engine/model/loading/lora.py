"""Merge a finetuned LoRA adapter, in peft's file format, into a model's weights: afterwards it costs nothing."""

import warnings
from pathlib import Path
from typing import Any

from peft import LoraConfig, PeftConfig, get_peft_model, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file

from engine.errors import AdapterUnusable

WEIGHTS = "adapter_model.safetensors"


def merged(model: Any, folder: Path) -> Any:
    """Return `model` with the adapter in `folder` added to its weights.

    Raises ReaderUnusable if the adapter's files are missing or torn, if it was made for a model of another shape, or is
    no LoRA adapter.
    """
    try:
        weights = load_file(folder / WEIGHTS)
        config = PeftConfig.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise AdapterUnusable(f"The adapter in {folder} cannot be read ({str(error).splitlines()[0]}).") from error
    if not isinstance(config, LoraConfig):
        raise AdapterUnusable(f"The adapter in {folder} is no LoRA adapter.")
    try:
        with warnings.catch_warnings():  # peft asks transformers for a name that will go; nothing we could change
            warnings.simplefilter("ignore", FutureWarning)
            wrapped = get_peft_model(model, config)
        found: Any = set_peft_model_state_dict(wrapped, weights)
    except (RuntimeError, ValueError) as error:
        raise AdapterUnusable(f"The adapter in {folder} was made for a model of another shape.") from error
    if found.unexpected_keys or any("lora_" in name for name in found.missing_keys):
        raise AdapterUnusable(f"The adapter in {folder} was made for a model with other layers.")
    return wrapped.merge_and_unload()
