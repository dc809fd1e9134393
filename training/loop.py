"""The training loop: AdamW with warm-up and a cosine to zero, one lesson a step, resumable."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from training import checkpoint
from training.checkpoint import BadCheckpoint

WEIGHT = "weight:"  # before the names of trained weights in a checkpoint, beside the optimizer's
Progress = Callable[[str, int, int, float], None]  # what is being done, how much of how much, loss in nats a token


class Trainable(Protocol):
    """What is trained: an adapter on a decoder, or the heads of a selector.

    named   its parameters, in fp32
    config  a dataclass; a checkpoint belongs to one
    """

    named: dict[str, nn.Parameter]
    config: Any

    @property
    def weights(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        ...

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take what `weights` gave."""
        ...

    def computing(self) -> AbstractContextManager[None]:
        """In which format a loss is computed."""
        ...


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how fast.

    lessons  steps, one lesson each
    rate     highest learning rate, after `warmup` lessons; it falls to zero at the end
    every    lessons between two checkpoints
    """

    lessons: int = 1200
    rate: float = 1e-3
    warmup: int = 40
    every: int = 50
    clip: float = 1.0

    def rate_at(self, lesson: int) -> float:
        """Return the learning rate of a lesson."""
        if lesson < self.warmup:
            return self.rate * (lesson + 1) / self.warmup
        return self.rate * 0.5 * (1 + math.cos(math.pi * (lesson - self.warmup) / max(1, self.lessons - self.warmup)))


def train(
    trained: Trainable,
    loss_of: Callable[[int], Tensor],
    config: TrainingConfig,
    folder: Path,
    data: Any,
    progress: Progress,
) -> float:
    """Train until `config.lessons`, from the last checkpoint in `folder` if there is one; return the seconds it took.

    loss_of  the loss of a lesson by its number, differentiable
    data     describes the lessons, as JSON can hold it: a run over others does not go on from this one

    Raises BadCheckpoint for a checkpoint that cannot be read or was made with other settings.
    """
    names, smooth, start, spent = list(trained.named), 0.0, 0, 0.0
    optimizer = torch.optim.AdamW(trained.named.values(), betas=(0.9, 0.98), weight_decay=0.0)
    made = {**asdict(config), **asdict(trained.config), "data": data}
    if (found := checkpoint.load(folder / "checkpoint")) is not None:
        tensors, state = found
        if state["made"] != made:
            where = folder / "checkpoint"
            raise BadCheckpoint(f"The checkpoint in {where} was made with other settings: {state['made']}.")
        trained.load({name.removeprefix(WEIGHT): t for name, t in tensors.items() if name.startswith(WEIGHT)})
        checkpoint.restore_optimizer(optimizer, names, tensors)
        start, smooth, spent = state["lesson"], state["loss"], state["seconds"]
    began = time.monotonic() - spent
    torch.set_flush_denormal(True)  # tiny gradients would make a CPU several times slower
    try:
        for number in range(start, config.lessons):
            for group in optimizer.param_groups:
                group["lr"] = config.rate_at(number)
            with trained.computing():
                loss = loss_of(number)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained.named.values(), config.clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            value = float(loss.detach())
            smooth = value if number == 0 else 0.97 * smooth + 0.03 * value
            progress("Training", number + 1, config.lessons, smooth)
            if (number + 1) % config.every == 0 or number + 1 == config.lessons:
                tensors = {f"{WEIGHT}{name}": tensor for name, tensor in trained.weights.items()}
                tensors |= checkpoint.optimizer_tensors(optimizer, names)
                spent = time.monotonic() - began
                state = {"made": made, "lesson": number + 1, "loss": smooth, "seconds": spent}
                checkpoint.save(folder / "checkpoint", tensors, state)
    finally:
        torch.set_flush_denormal(False)
    return spent
