"""Store configuration dataclasses in checkpoints and reports, under keys that do not change with the field names."""

from dataclasses import fields, is_dataclass
from typing import Any

STORED_KEYS = {  # by field name; all other fields are stored by their names
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


def to_json(config: Any) -> dict[str, Any]:
    """Return a configuration as checkpoints and reports store it."""
    values = {STORED_KEYS.get(field.name, field.name): getattr(config, field.name) for field in fields(config)}
    return {key: to_json(value) if is_dataclass(value) else value for key, value in values.items()}
