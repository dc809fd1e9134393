"""What all training runs share: configuration, examples, and the loop, which can be interrupted and resumed.

AdamW with linear warm-up and cosine decay to zero.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_start_method
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from engine.prompt.template import PromptTemplate
from training.checkpoint import BadCheckpoint, load_checkpoint, save_checkpoint, to_json
from training.data.corpus import Corpus
from training.data.examples import DataMix, TrainingExamples, train_eval_split
from training.lora import LoraAdapter

MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # AdamW's state of one parameter
WEIGHT_PREFIX = "weight:"  # of trained weights in a checkpoint, to tell them from the optimizer's tensors
LOSS_EMA_WEIGHT = 0.03  # of the newest step in the displayed loss
LOADERS = 2  # processes that draw and tokenize examples while a GPU trains
Batch = TypeVar("Batch")
Example = TypeVar("Example", covariant=True)
Progress = Callable[[str, int, int, float], None]  # stage, steps done, steps in total, loss in nats per token (or 0)


@dataclass(frozen=True)
class RunConfig:
    """What every kind of training is configured with."""

    mix: DataMix = field(default=DataMix())
    seed: int = 0
    eval_examples: int = 40  # held-out examples to evaluate with
    eval_fraction: float = 0.05  # of each corpus' paragraphs that is held out, at its end


def prepare_run(
    prompt: PromptTemplate, corpora: Sequence[Corpus], config: RunConfig, out: Path
) -> tuple[TrainingExamples, TrainingExamples, dict[str, Any]]:
    """Seed torch and create `out`; return training examples, held-out examples and what determines these."""
    torch.manual_seed(config.seed)
    examples, eval_examples = train_eval_split(prompt, corpora, config.mix, config.seed, config.eval_fraction)
    out.mkdir(parents=True, exist_ok=True)
    eval_set = {  # keys of stored reports; only reports that agree in it are comparable
        "materials": {
            each.name: {"paragraphs": len(each.paragraphs), "questions": each.num_questions, "weight": each.weight}
            for each in corpora
        },
        "held": config.eval_fraction,
        "lessons": config.eval_examples,
        "passages": config.mix.max_passages,
        "tokens": config.mix.max_tokens,
        "questions": config.mix.max_questions,
        "absent": config.mix.unanswerable_fraction,
    }
    return examples, eval_examples, eval_set


def example_settings(eval_set: dict[str, Any], config: RunConfig) -> list[Any]:
    """Return what determines the examples of a run; it may be resumed with another number of evaluation examples."""
    return [{**eval_set, "lessons": None}, config.seed, to_json(config.mix)]


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how fast to train."""

    steps: int = 1200
    learning_rate: float = 1e-3  # maximum, after the warm-up
    warmup_steps: int = 40
    checkpoint_steps: int = 50  # between two checkpoints
    max_grad_norm: float = 1.0  # gradients are clipped to it
    batch_size: int = 1  # examples per step

    def learning_rate_at(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


class ExampleSequence(Protocol[Example]):
    """An endless sequence of examples, drawn by their index."""

    def __getitem__(self, index: int, /) -> Example: ...


def batches_from(
    first_step: int, examples: ExampleSequence[Example], config: TrainingConfig, device: torch.device
) -> Iterable[list[Example]]:
    """Return the examples of each step from `first_step` on; for a GPU, other processes draw them in advance."""
    size = config.batch_size
    indices = range(first_step * size, config.steps * size)
    uses_loaders = device.type != "cpu" and get_start_method() == "fork" and indices  # others would copy the model
    loaders = LOADERS if uses_loaders else 0
    return DataLoader(examples, size, sampler=indices, num_workers=loaders, collate_fn=list)  # type: ignore[arg-type]


def train(
    trained: LoraAdapter | nn.Module,
    loss_of: Callable[[Batch], Tensor],
    config: TrainingConfig,
    folder: Path,
    settings: dict[str, Any],
    progress: Progress,
    batches: Callable[[int], Iterable[Batch]],
) -> float:
    """Train for `config.steps`, resuming from the last checkpoint in `folder`; return the seconds spent in all runs.

    `batches` returns what `loss_of` takes, from a step on. `settings` describe the shape of what is trained and its
    examples, as JSON. Raises BadCheckpoint if the checkpoint cannot be read or was made with other settings or another
    `config`.
    """
    parameters = {name: weight for name, weight in trained.named_parameters() if weight.requires_grad}
    names = list(parameters)
    optimizer = torch.optim.AdamW(parameters.values(), betas=(0.9, 0.98), weight_decay=0.0)
    settings = to_json(config) | settings
    # Stored keys: checkpoints of earlier versions must stay readable.
    state: dict[str, Any] = {"made": settings, "lesson": 0, "loss": 0.0, "seconds": 0.0}
    checkpoint = folder / "checkpoint"
    if (loaded := load_checkpoint(checkpoint)) is not None:
        tensors, state = loaded
        if state["made"] != settings:
            raise BadCheckpoint(f"The checkpoint in {checkpoint} was made with other settings: {state['made']}.")
        weights = {name.removeprefix(WEIGHT_PREFIX): t for name, t in tensors.items() if name.startswith(WEIGHT_PREFIX)}
        trained.load_state_dict(weights)
        _restore_moments(optimizer, names, tensors)
    first_step = state["lesson"]
    start = time.monotonic() - state["seconds"]
    torch.set_flush_denormal(True)  # tiny gradients make a CPU several times slower
    try:
        for step, batch in zip(range(first_step, config.steps), batches(first_step), strict=False):
            for group in optimizer.param_groups:
                group["lr"] = config.learning_rate_at(step)
            loss = loss_of(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters.values(), config.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            value = float(loss.detach())
            state["loss"] = value if step == 0 else (1 - LOSS_EMA_WEIGHT) * state["loss"] + LOSS_EMA_WEIGHT * value
            state["lesson"] = done = step + 1
            progress("Training", done, config.steps, state["loss"])
            if done % config.checkpoint_steps == 0 or done == config.steps:
                tensors = {f"{WEIGHT_PREFIX}{name}": tensor for name, tensor in trained.state_dict().items()}
                state["seconds"] = time.monotonic() - start
                save_checkpoint(checkpoint, tensors | _moments(optimizer, names), state)
    finally:
        torch.set_flush_denormal(False)
    return state["seconds"]


def _moments(optimizer: torch.optim.Optimizer, names: list[str]) -> dict[str, Tensor]:
    """Return an AdamW's moments as named tensors for safetensors; `names` are those of its parameters, in order."""
    state = optimizer.state_dict()["state"]
    return {
        f"{moment}:{name}": state[index][moment]
        for index, name in enumerate(names)
        if index in state
        for moment in MOMENTS
    }


def _restore_moments(optimizer: torch.optim.Optimizer, names: list[str], tensors: dict[str, Tensor]) -> None:
    moments = {
        index: {moment: tensors[f"{moment}:{name}"] for moment in MOMENTS}
        for index, name in enumerate(names)
        if f"{MOMENTS[0]}:{name}" in tensors  # else it has had no gradient yet
    }
    optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})
