"""What the engine needs to know of a model, and which models it refuses.

Moving a key needs positions that enter as a rotation whose angles depend on nothing but the distance. Attention that
forgets (sliding window, linear, hybrid) or frequencies that change with the length would make reuse silently wrong.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from engine.errors import UnsupportedModel

FAMILIES = (
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
)  # half-split rotary in every layer, no other source of position
ROTARIES = ("default", "linear", "llama3", "yarn")  # fixed frequencies


@dataclass(frozen=True, slots=True)
class Spec:
    """Shapes and limits of one decoder."""

    layers: int
    heads: int  # query heads
    kv_heads: int
    width: int  # of one head
    hidden: int
    vocab: int
    max_positions: int
    inv_freq: Tensor  # [D/2] fp32, radians per token
    parameters: int
    forward: str = ""  # what else of the configuration changes what the same weights compute

    def kv_bytes(self, tokens: int, element_bytes: int) -> int:
        """Return the bytes that the KV of `tokens` takes."""
        return 2 * self.layers * self.kv_heads * self.width * tokens * element_bytes

    def operations(self, rows: int, keys: int) -> float:
        """Return the floating-point operations of `rows` rows that see `keys` keys in sum over the rows."""
        matrices = self.hidden * self.width * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (2.0 * rows * (matrices + self._mlp) + 4.0 * keys * self.heads * self.width)

    def operations_of(self, slots: Tensor) -> float:
        """Return the floating-point operations of rows at these slots [R], each seeing all slots up to its own."""
        return self.operations(len(slots), int((slots + 1).sum()))

    @property
    def _mlp(self) -> float:
        attention = self.hidden * self.width * (2 * self.heads + 2 * self.kv_heads)
        return max(0.0, (self.parameters - self.vocab * self.hidden) / self.layers - attention)


def read_spec(model: Any) -> Spec:
    """Return the spec of a loaded transformers model. Raises UnsupportedModel with the property that is in the way."""
    config = model.config
    check(config)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    inv_freq = model.model.rotary_emb.inv_freq.detach().float().cpu().clone()
    if 2 * len(inv_freq) != width:
        raise UnsupportedModel(f"{config.model_type}: {2 * len(inv_freq)} of {width} channels are rotated.")
    return Spec(
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        width=width,
        hidden=config.hidden_size,
        vocab=config.vocab_size,
        max_positions=config.max_position_embeddings,
        inv_freq=inv_freq,
        parameters=sum(weight.numel() for weight in model.model.parameters()),
        forward=f"{config.rms_norm_eps} {config.hidden_act} {model.model.rotary_emb.attention_scaling}",
    )


def check(config: Any) -> None:
    """Raise UnsupportedModel unless a transformers config describes a plain rotary decoder."""
    if config.model_type not in FAMILIES:
        raise UnsupportedModel(f"A {config.model_type!r} model is not one of {', '.join(FAMILIES)}.")
    rope = getattr(config, "rope_parameters", None) or {}
    kind = rope.get("rope_type", "default")
    if kind not in ROTARIES:
        raise UnsupportedModel(f"Its rotary frequencies ({kind!r}) depend on the length of the text.")
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise UnsupportedModel("Only a part of each head is rotated.")
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    windowed = getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True)
    if kinds != {"full_attention"} or windowed:
        raise UnsupportedModel("Some of its layers attend to a sliding window or not at all.")
