"""A trainable LoRA adapter of a decoder (arXiv:2106.09685), in peft's file format."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.errors import ModelNotFound, UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.loading.lora import LORA_CONFIG_FILE, LORA_WEIGHTS_FILE

try:
    from peft import LoraConfig, get_peft_model_state_dict, inject_adapter_in_model, set_peft_model_state_dict
    from peft.helpers import disable_input_dtype_casting
    from peft.tuners.lora import LoraLayer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"Training needs {error.name}: pip install -r requirements-dev.txt") from error

NAME_PREFIX = "base_model.model."  # of tensor names in peft's files
LORA_ADAPTER_FILES = (LORA_CONFIG_FILE, LORA_WEIGHTS_FILE)
TARGET_MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True)
class LoraAdapterConfig:
    rank: int = 16  # of each linear layer's update, which is scaled by alpha / rank
    alpha: int = 32

    def to_peft(self, inference_mode: bool = False) -> LoraConfig:
        return LoraConfig(
            r=self.rank, lora_alpha=self.alpha, target_modules=TARGET_MODULES, inference_mode=inference_mode
        )


class LoraAdapter:
    """Trainable low-rank updates, in fp32, of all linear layers of a decoder, whose own weights are frozen.

    Has those methods of a module that training needs. Raises UnsupportedModel if the decoder has none of these layers.
    """

    def __init__(self, decoder: Decoder, config: LoraAdapterConfig) -> None:
        self.config = config
        self._decoder = decoder
        decoder.model.requires_grad_(False)
        try:
            inject_adapter_in_model(config.to_peft(), decoder.model)
        except ValueError as error:
            raise UnsupportedModel(f"{decoder.name} has no layers that a LoRA adapter can update ({error}).") from error
        for _, weight in self.named_parameters():
            weight.data = weight.data.float()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, weight) for name, weight in self._decoder.model.named_parameters() if weight.requires_grad)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the adapter's tensors by peft's names."""
        return {name: weight.detach() for name, weight in get_peft_model_state_dict(self._decoder.model).items()}

    def load_state_dict(self, weights: dict[str, Tensor]) -> None:
        set_peft_model_state_dict(self._decoder.model, weights)

    def load(self, folder: Path) -> None:
        """Load a saved adapter. Raises ModelNotFound if it cannot be read, UnsupportedModel if its shapes differ."""
        try:
            tensors = load_file(folder / LORA_WEIGHTS_FILE)
        except (OSError, SafetensorError) as error:
            raise ModelNotFound(f"The LoRA adapter in {folder} cannot be read ({error}).") from error
        weights = {name.removeprefix(NAME_PREFIX): weight.float() for name, weight in tensors.items()}
        if {name: w.shape for name, w in weights.items()} != {name: w.shape for name, w in self.state_dict().items()}:
            raise UnsupportedModel(f"The LoRA adapter in {folder} has another rank, or was trained for another model.")
        self.load_state_dict(weights)

    def save(self, folder: Path) -> None:
        """Write the adapter in peft's format, in bf16, the precision of the weights that it is merged into."""
        tensors = {f"{NAME_PREFIX}{name}": w.to(torch.bfloat16).cpu() for name, w in self.state_dict().items()}
        save_file(tensors, folder / LORA_WEIGHTS_FILE, metadata={"format": "pt"})
        self.config.to_peft(inference_mode=True).save_pretrained(str(folder))

    def merge(self) -> None:
        """Add the updates to the decoder's weights, to decode faster. The adapter cannot be trained or saved then."""
        for module in self._decoder.model.modules():
            if isinstance(module, LoraLayer):
                module.merge()

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Multiply in the decoder's dtype, although the updates are fp32."""
        decoder = self._decoder
        autocast = torch.autocast(decoder.device.type, decoder.dtype, enabled=decoder.dtype != torch.float32)
        with autocast, disable_input_dtype_casting(decoder.model):
            yield
