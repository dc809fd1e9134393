"""A decoder run layer by layer: token ids in, hidden states or logits out.

The layers are transformers' own modules, called one by one with our attention. So every model with plain rotary
attention works, a long pass can be cancelled between layers, and the LM head runs only for the rows that need it.
"""

from threading import Event
from typing import Any

import torch
from torch import Tensor

from engine.errors import Cancelled
from engine.model.attention import ATTENTION_NAME, AttentionPass, register_attention
from engine.model.kv_buffer import KVBuffer, RowPass
from engine.model.spec import ModelSpec, SelfTestResult, read_spec

Rotation = tuple[Tensor, Tensor]  # cosines and sines of positions, [B, R, D] each


class Decoder:
    """A causal language model and its tokenizer.

    model            a transformers causal model with plain rotary attention; its attention is replaced in place
    tokenizer        a fast transformers tokenizer, or None for a model that is only given ids
    name             shown in the UI
    selftest_result  set by `load_decoder`

    Raises UnsupportedModel if the model's positions or attention are of another kind.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:
        self.spec: ModelSpec = read_spec(model)
        register_attention()
        model.set_attn_implementation(ATTENTION_NAME)
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.selftest_result: SelfTestResult | None = None

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        return self.model.dtype

    def synchronize(self) -> None:
        """Wait for the GPU's pending work, so that timings are correct."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def new_buffer(self, capacity: int) -> KVBuffer:
        """Return an empty buffer of `capacity` slots on the model's device."""
        return KVBuffer(
            self.spec.num_layers, self.spec.num_kv_heads, self.spec.head_dim, capacity, self.dtype, self.device
        )

    @torch.inference_mode()
    def forward_rows(self, ids: Tensor, buffer: KVBuffer, slots: Tensor, cancel: Event | None = None) -> Tensor:
        """Compute the KV of `slots` [R] of a buffer from token `ids` [R]; return the last row's logits [V] in fp32.

        Raises Cancelled between two layers once `cancel` is set.
        """
        hidden = self.forward(ids[None], buffer.positions(slots)[None], RowPass(buffer, slots), cancel)
        return self.logits(hidden[0, -1])

    @torch.inference_mode()
    def forward(
        self, ids: Tensor, positions: Tensor, attention_pass: AttentionPass, cancel: Event | None = None
    ) -> Tensor:
        """Run token ids [B, R] at positions [B, R] through all layers; return hidden states [B, R, hidden_size].

        Raises Cancelled between two layers once `cancel` is set.
        """
        return self.forward_with_grad(ids, positions, attention_pass, cancel)

    def forward_with_grad(
        self, ids: Tensor, positions: Tensor, attention_pass: AttentionPass, cancel: Event | None = None
    ) -> Tensor:
        """Like `forward`, with gradients, for training."""
        hidden, rotation = self.embed(ids, positions)
        for layer in range(self.spec.num_layers):
            hidden = self.run_layer(layer, hidden, rotation, attention_pass, cancel)
        return hidden

    def embed(self, ids: Tensor, positions: Tensor) -> tuple[Tensor, Rotation]:
        """Return the embeddings [B, R, hidden_size] of ids [B, R], and the rotation of their positions [B, R]."""
        hidden = self.model.model.embed_tokens(ids.to(self.device))
        return hidden, self.model.model.rotary_emb(hidden, positions.to(self.device))

    def run_layer(
        self,
        layer: int,
        hidden: Tensor,
        rotation: Rotation,
        attention_pass: AttentionPass,
        cancel: Event | None = None,
    ) -> Tensor:
        """Run one layer. Raises Cancelled before it if `cancel` is set."""
        if cancel is not None and cancel.is_set():
            raise Cancelled
        return self.model.model.layers[layer](
            hidden, position_embeddings=rotation, past_key_values=attention_pass, attention_pass=attention_pass
        )

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """Return next-token logits [..., V] in fp32 for hidden states [..., hidden_size]."""
        return self.logits_with_grad(hidden)

    def logits_with_grad(self, hidden: Tensor) -> Tensor:
        """Like `logits`, with gradients, for training."""
        return self.model.lm_head(self.model.model.norm(hidden)).float()

    @torch.inference_mode()
    def reference_logits(self, ids: Tensor) -> Tensor:
        """Return the last token's logits [V] for `ids` [T] from transformers' own forward pass, for checks."""
        self.model.set_attn_implementation("sdpa")
        try:
            return self.model(ids[None].to(self.device), use_cache=False).logits[0, -1].float()
        finally:
            self.model.set_attn_implementation(ATTENTION_NAME)
