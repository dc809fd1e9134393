"""Files of trained weights: matrices in 8 bits with a scale per row, vectors in bf16."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from assets import ASSETS

QUOTE_ENCODER = ASSETS / "quote_encoder"
QUOTE_ENCODER_FILE = "quote_encoder.safetensors"  # all-MiniLM-L6-v2, finetuned for search and to compare quotes
SCALE = ":scale"  # after the name of a matrix: its scales [rows, 1]
MIN_SCALE = 1e-12


def trained_weights(module: nn.Module) -> dict[str, Tensor]:
    """Return the weights of a BERT that training changes: all but the embeddings of pieces, positions and types."""
    return {name: weight for name, weight in module.named_parameters() if "embeddings." not in name}


def save_weights(weights: Mapping[str, Tensor], path: Path) -> None:
    """Write weights in 8 bits."""
    tensors = {}
    for name, weight in weights.items():
        if weight.ndim == 2:
            scale = weight.detach().float().abs().amax(1, keepdim=True).clamp_min(MIN_SCALE) / 127
            tensors[name] = (weight.detach() / scale).round().to(torch.int8)
            tensors[name + SCALE] = scale
        else:
            tensors[name] = weight.detach().to(torch.bfloat16)
    save_file(tensors, path)


def load_weights(path: Path, module: nn.Module) -> None:
    """Give a module the trained weights in a file; a matrix without its scale is as it is.

    Raises OSError or SafetensorError if the file cannot be read, and ValueError if it is for another module.
    """
    tensors = load_file(path)
    weights = {
        name: tensor.float() * tensors[name + SCALE] if name + SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(SCALE)
    }
    if {name: w.shape for name, w in weights.items()} != {n: w.shape for n, w in trained_weights(module).items()}:
        raise ValueError(f"The weights in {path} were trained for another encoder or version.")
    module.load_state_dict(weights, strict=False)


def load_mean(paths: Sequence[Path], module: nn.Module) -> None:
    """Give a module the mean of the trained weights in some files. Raises as `load_weights`.

    The mean of a model and one that was trained on from it, or on other data, generalizes better than either (model
    soups, arXiv:2203.05482).
    """
    total = {name: torch.zeros_like(weight) for name, weight in trained_weights(module).items()}
    for path in paths:
        load_weights(path, module)
        total = {name: total[name] + weight.detach() for name, weight in trained_weights(module).items()}
    module.load_state_dict({name: weight / len(paths) for name, weight in total.items()}, strict=False)
