"""A LoRA adapter on a decoder (arXiv:2106.09685), in peft's own file format."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model_state_dict, inject_adapter_in_model, set_peft_model_state_dict
from peft.helpers import disable_input_dtype_casting
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.errors import ModelNotFound, UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.loading.lora import WEIGHTS

PREFIX = "base_model.model."  # peft's name for the model that an adapter belongs to
FILES = ("adapter_config.json", WEIGHTS)
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True)
class AdapterConfig:
    """rank: of the update of each linear layer; the update is scaled by alpha / rank."""

    rank: int = 16
    alpha: int = 32


class Adapter:
    """Trainable low-rank updates of all linear layers of a decoder, in fp32; the decoder's own weights are frozen."""

    def __init__(self, decoder: Decoder, config: AdapterConfig) -> None:
        self._decoder, self.config = decoder, config
        self._settings: dict[str, Any] = {"r": config.rank, "lora_alpha": config.alpha, "target_modules": LINEAR}
        decoder.model.requires_grad_(False)
        try:
            inject_adapter_in_model(LoraConfig(**self._settings), decoder.model)
        except ValueError as error:
            raise UnsupportedModel(f"{decoder.name} has no layers that an adapter fits ({error}).") from error
        self.named: dict[str, nn.Parameter] = {
            name: weight for name, weight in decoder.model.named_parameters() if weight.requires_grad
        }
        for weight in self.named.values():
            weight.data = weight.data.float()

    @property
    def weights(self) -> dict[str, Tensor]:
        """The adapter's tensors by peft's names."""
        return {name: weight.detach() for name, weight in get_peft_model_state_dict(self._decoder.model).items()}

    def load(self, weights: dict[str, Tensor]) -> None:
        set_peft_model_state_dict(self._decoder.model, weights)

    def start_from(self, folder: Path) -> None:
        """Take the weights of a saved adapter. Raises ModelNotFound, or UnsupportedModel if it has other shapes."""
        try:
            held = {name.removeprefix(PREFIX): w.float() for name, w in load_file(folder / WEIGHTS).items()}
        except (OSError, SafetensorError) as error:
            raise ModelNotFound(f"The adapter in {folder} cannot be read ({error}).") from error
        if {name: w.shape for name, w in held.items()} != {name: w.shape for name, w in self.weights.items()}:
            raise UnsupportedModel(f"The adapter in {folder} has another rank, or was made for another model.")
        self.load(held)

    def save(self, folder: Path) -> None:
        """Write the adapter as peft keeps it, in bf16: it comes from weights of that precision and goes into them."""
        named = {f"{PREFIX}{name}": weight.to(torch.bfloat16).cpu() for name, weight in self.weights.items()}
        save_file(named, folder / WEIGHTS, metadata={"format": "pt"})
        LoraConfig(**{**self._settings, "inference_mode": True}).save_pretrained(str(folder))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Multiply in the decoder's format: the updates are fp32, their products need not be."""
        half = self._decoder.dtype != torch.float32
        with (
            torch.autocast(self._decoder.device.type, self._decoder.dtype, enabled=half),
            disable_input_dtype_casting(self._decoder.model),
        ):
            yield
