"""Merge a LoRA adapter (arXiv:2106.09685) in peft's file format into a model's weights."""

import warnings
from pathlib import Path
from typing import Any

from peft import LoraConfig, PeftConfig, get_peft_model, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file

from engine.errors import LoraAdapterUnusable

LORA_WEIGHTS_FILE = "adapter_model.safetensors"


def merge_lora(model: Any, folder: Path) -> Any:
    """Return `model` with the adapter in `folder` merged into its weights, so that it costs nothing at inference.

    Raises LoraAdapterUnusable if the adapter's files are missing or damaged, do not fit the model, or contain another
    kind of adapter.
    """
    try:
        weights = load_file(folder / LORA_WEIGHTS_FILE)
        config = PeftConfig.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise LoraAdapterUnusable(f"The LoRA adapter in {folder} cannot be read ({reason}).") from error
    if not isinstance(config, LoraConfig):
        raise LoraAdapterUnusable(f"The adapter in {folder} is not a LoRA adapter.")
    try:
        with warnings.catch_warnings():  # peft uses a deprecated name of transformers
            warnings.simplefilter("ignore", FutureWarning)
            adapted = get_peft_model(model, config)
        keys: Any = set_peft_model_state_dict(adapted, weights)
    except (RuntimeError, ValueError) as error:
        raise LoraAdapterUnusable(f"The LoRA adapter in {folder} was made for a model of another shape.") from error
    if keys.unexpected_keys or any("lora_" in name for name in keys.missing_keys):
        raise LoraAdapterUnusable(f"The LoRA adapter in {folder} was made for a model with other layers.")
    return adapted.merge_and_unload()
