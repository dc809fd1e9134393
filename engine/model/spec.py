"""What the engine needs to know about a model, and which models it rejects.

Moving a key to another position requires RoPE whose angles depend on the distance alone. Sliding-window, linear or
hybrid attention, and frequencies that depend on the text's length, would make KV reuse silently wrong.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from engine.errors import ModelNotFound, UnsupportedModel

MODEL_TYPES = ("llama", "qwen2", "qwen3", "mistral")  # half-split RoPE in every layer, no other position encoding
ROPE_TYPES = ("default", "linear", "llama3", "yarn")  # fixed frequencies


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """How far recomputed logits are from the reference, in standard deviations of the reference logits."""

    deviation: float  # root mean square of the differences
    max_difference: float  # of a single logit
    bound: float  # of the deviation
    ms: float


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Shapes and limits of a decoder."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    vocab_size: int
    max_positions: int
    inv_freq: Tensor  # RoPE frequencies, [D/2] fp32, radians per token
    num_parameters: int  # including the token embeddings, without a separate LM head
    forward_config: str = ""  # further values that change what the same weights compute; part of the fingerprint

    def kv_bytes(self, tokens: int, element_bytes: int) -> int:
        """Return the size of the KV of `tokens`."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * tokens * element_bytes

    def flops(self, rows: int, keys: int) -> float:
        """Return the floating-point operations of a pass over `rows`, whose rows attend to `keys` keys in total."""
        projections = self.hidden_size * self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads)
        layer_weights = (self.num_parameters - self.vocab_size * self.hidden_size) / self.num_layers
        weights = max(projections, layer_weights)
        return self.num_layers * (2.0 * rows * weights + 4.0 * keys * self.num_heads * self.head_dim)

    def flops_at(self, slots: Tensor) -> float:
        """Return the floating-point operations of rows at `slots` [R], each attending to all slots up to its own."""
        return self.flops(len(slots), int((slots + 1).sum()))


def read_spec(model: Any) -> ModelSpec:
    """Return the spec of a loaded transformers model. Raises UnsupportedModel."""
    config = model.config
    check_config(config.to_dict(), config.name_or_path)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    inv_freq = model.model.rotary_emb.inv_freq.detach().float().cpu().clone()
    if 2 * len(inv_freq) != head_dim:
        raise UnsupportedModel(f"The model rotates only {2 * len(inv_freq)} of {head_dim} channels of a head.")
    return ModelSpec(
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=head_dim,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        max_positions=config.max_position_embeddings,
        inv_freq=inv_freq,
        num_parameters=sum(weight.numel() for weight in model.model.parameters()),
        forward_config=f"{config.rms_norm_eps} {config.hidden_act} {model.model.rotary_emb.attention_scaling}",
    )


def check_config(config: Any, name: str) -> None:
    """Raise UnsupportedModel if a config.json lacks plain RoPE or full attention, ModelNotFound if it has no model."""
    if not isinstance(config, dict) or "model_type" not in config:
        raise ModelNotFound(f"The config.json of {name} does not describe a model.")
    if config["model_type"] not in MODEL_TYPES:
        raise UnsupportedModel(f"Model type {config['model_type']!r} is not supported, only {', '.join(MODEL_TYPES)}.")
    rope = config.get("rope_parameters") or {}
    rope_type = rope.get("rope_type", "default")
    if rope_type not in ROPE_TYPES:
        raise UnsupportedModel(f"The model's RoPE frequencies ({rope_type!r}) depend on the length of the text.")
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise UnsupportedModel("The model rotates only a part of each head.")
    layer_types = set(config.get("layer_types") or ["full_attention"])
    sliding_window = config.get("sliding_window") is not None and config.get("use_sliding_window", True)
    if layer_types != {"full_attention"} or sliding_window:
        raise UnsupportedModel("Some layers of the model use sliding-window attention or no attention.")
