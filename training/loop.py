"""The training loop: AdamW with linear warm-up and cosine decay to zero, one example per step, resumable."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from training.checkpoint import (
    BadCheckpoint,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
    to_json,
)
from training.lora import LoraAdapter

WEIGHT_PREFIX = "weight:"  # of trained weights in a checkpoint, to tell them from the optimizer's tensors
LOSS_EMA_WEIGHT = 0.03  # of the newest step in the displayed loss
Progress = Callable[[str, int, int, float], None]  # stage, steps done, steps in total, loss in nats per token (or 0)


class HeadTrainer:
    """A network in fp32 that is trained as a whole; has the interface of `LoraAdapter`.

    config      a dataclass; a checkpoint can only be resumed with the same one
    parameters  by name
    """

    def __init__(self, head: nn.Module, config: Any) -> None:
        self.config = config
        self.parameters = dict(head.named_parameters())
        self._head = head

    @property
    def weights(self) -> dict[str, Tensor]:
        """The tensors to checkpoint: parameters and buffers."""
        return dict(self._head.state_dict())

    def load(self, weights: dict[str, Tensor]) -> None:
        self._head.load_state_dict(weights)

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how fast to train.

    steps             one example each
    learning_rate     maximum, after `warmup_steps`
    checkpoint_steps  between two checkpoints
    max_grad_norm     gradients are clipped to it
    """

    steps: int = 1200
    learning_rate: float = 1e-3
    warmup_steps: int = 40
    checkpoint_steps: int = 50
    max_grad_norm: float = 1.0

    def learning_rate_at(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


def train(
    trained: LoraAdapter | HeadTrainer,
    loss_of: Callable[[int], Tensor],
    config: TrainingConfig,
    folder: Path,
    data: Any,
    progress: Progress,
) -> float:
    """Train for `config.steps`, resuming from the last checkpoint in `folder`; return the seconds spent in all runs.

    loss_of  returns the differentiable loss of a step
    data     describes the examples, as JSON: a checkpoint can only be resumed with the same ones

    Raises BadCheckpoint if the checkpoint cannot be read or was made with other settings.
    """
    names = list(trained.parameters)
    optimizer = torch.optim.AdamW(trained.parameters.values(), betas=(0.9, 0.98), weight_decay=0.0)
    settings = {**to_json(config), **to_json(trained.config), "data": data}
    average_loss = 0.0
    first_step = 0
    seconds = 0.0
    checkpoint = folder / "checkpoint"
    if (loaded := load_checkpoint(checkpoint)) is not None:
        tensors, state = loaded
        if state["made"] != settings:
            raise BadCheckpoint(f"The checkpoint in {checkpoint} was made with other settings: {state['made']}.")
        weights = {name.removeprefix(WEIGHT_PREFIX): t for name, t in tensors.items() if name.startswith(WEIGHT_PREFIX)}
        trained.load(weights)
        restore_optimizer(optimizer, names, tensors)
        first_step = state["lesson"]
        average_loss = state["loss"]
        seconds = state["seconds"]
    start = time.monotonic() - seconds
    torch.set_flush_denormal(True)  # tiny gradients make a CPU several times slower
    try:
        for step in range(first_step, config.steps):
            for group in optimizer.param_groups:
                group["lr"] = config.learning_rate_at(step)
            with trained.autocast():
                loss = loss_of(step)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained.parameters.values(), config.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            value = float(loss.detach())
            average_loss = value if step == 0 else (1 - LOSS_EMA_WEIGHT) * average_loss + LOSS_EMA_WEIGHT * value
            done = step + 1
            progress("Training", done, config.steps, average_loss)
            if done % config.checkpoint_steps == 0 or done == config.steps:
                tensors = {f"{WEIGHT_PREFIX}{name}": tensor for name, tensor in trained.weights.items()}
                tensors |= optimizer_tensors(optimizer, names)
                seconds = time.monotonic() - start
                # Stored keys: checkpoints of earlier versions must stay readable.
                state = {"made": settings, "lesson": done, "loss": average_loss, "seconds": seconds}
                save_checkpoint(checkpoint, tensors, state)
    finally:
        torch.set_flush_denormal(False)
    return seconds
