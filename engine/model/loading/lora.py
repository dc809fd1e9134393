"""Merge a LoRA adapter (arXiv:2106.09685) in peft's file format into a model's weights, without importing peft.

Supported are adapters of linear layers as LoRA defines them; peft's variants are refused by name.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from engine.errors import LoraAdapterUnusable

LORA_CONFIG_FILE = "adapter_config.json"
LORA_WEIGHTS_FILE = "adapter_model.safetensors"
PLAIN_INITS = (True, False, None, "gaussian", "eva", "orthogonal")  # that leave the model's own weights as they are
_PREFIX = "base_model.model."  # of the tensors' names
_VARIANTS = (
    *("alpha_pattern", "rank_pattern", "modules_to_save", "target_parameters", "trainable_token_indices"),
    *("use_dora", "use_qalora", "use_bdlora", "fan_in_fan_out", "lora_bias", "layer_replication"),
    *("alora_invocation_tokens", "arrow_config", "monteclora_config", "velora_config", "kasa_config"),
)  # options of peft that change the merged weights, or of which there are none after merging


@torch.inference_mode()
def merge_lora(model: Any, folder: Path) -> None:
    """Add scaling * B @ A to the weight of each layer that the adapter in `folder` has. Raises LoraAdapterUnusable."""
    try:
        tensors = load_file(folder / LORA_WEIGHTS_FILE)
        config = json.loads((folder / LORA_CONFIG_FILE).read_text(encoding="utf-8"))
        rank, alpha, is_lora = int(config["r"]), float(config["lora_alpha"]), config["peft_type"] == "LORA"
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise LoraAdapterUnusable(f"The LoRA adapter in {folder} cannot be read ({reason}).") from error
    if not is_lora or rank < 1:
        raise LoraAdapterUnusable(f"The adapter in {folder} is not a LoRA adapter.")
    variants = [name for name in _VARIANTS if config.get(name)] + ["bias"] * (config.get("bias", "none") != "none")
    if config.get("init_lora_weights") not in PLAIN_INITS:
        variants.append("init_lora_weights")
    if variants:
        raise LoraAdapterUnusable(
            f"The LoRA adapter in {folder} uses {', '.join(variants)}, which KVScope does not support. "
            "Merge it into its model with peft, and use the merged model."
        )
    scaling = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    layers = {name.removesuffix(".lora_A.weight") for name in tensors if name.endswith(".lora_A.weight")}
    expected = {f"{layer}.lora_{half}.weight" for layer in layers for half in "AB"}
    modules = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    if not layers or tensors.keys() != expected or any(layer.removeprefix(_PREFIX) not in modules for layer in layers):
        raise LoraAdapterUnusable(f"The LoRA adapter in {folder} was made for a model with other layers.")
    weights = {layer: modules[layer.removeprefix(_PREFIX)].weight for layer in layers}
    halves = {layer: (tensors[f"{layer}.lora_A.weight"], tensors[f"{layer}.lora_B.weight"]) for layer in layers}
    for layer, (a, b) in halves.items():
        if a.shape != (rank, weights[layer].shape[1]) or b.shape != (weights[layer].shape[0], rank):
            raise LoraAdapterUnusable(f"The LoRA adapter in {folder} was made for a model of another shape.")
    for layer, (a, b) in halves.items():
        weights[layer] += b.float() @ a.float() * scaling  # rounded once if the weights are bf16
