"""A decoder, layer by layer: rows in, hidden states out.

The layers are transformers' own modules, called one after the other with our attention; so every model with plain
rotary attention works, a long pass can be cancelled between layers, and the vocabulary head runs only where asked.
"""

from threading import Event
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from engine.errors import Cancelled
from engine.model.attention import NAME, Reader, register
from engine.model.kv_buffer import KVBuffer, RowPass
from engine.model.spec import Spec, read_spec

if TYPE_CHECKING:
    from engine.selftest_result import SelfTestResult

Rotation = tuple[Tensor, Tensor]  # cosines and sines of positions, [B, R, D] each


class Decoder:
    """A causal language model and its tokenizer.

    model      a transformers causal model with plain rotary attention; its attention is replaced in place
    tokenizer  a `tokenizers.Tokenizer`, or None for a model that is fed ids only
    name       what it is called on the page and in fingerprints

    `proof` is what its self-test measured, where `load` made it.

    Raises UnsupportedModel if the model's positions or attention are of another kind.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:
        self.spec: Spec = read_spec(model)
        register()
        model.set_attn_implementation(NAME)
        self._body, self._head = model.model, model.lm_head
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.selftest_result: SelfTestResult | None = None

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        return self.model.dtype

    def synchronize(self) -> None:
        """Wait for what the device still computes, before a clock is read."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def buffer(self, capacity: int) -> KVBuffer:
        """Return an empty buffer of `capacity` slots on the model's device."""
        return KVBuffer(self.spec.layers, self.spec.kv_heads, self.spec.width, capacity, self.dtype, self.device)

    @torch.inference_mode()
    def forward(self, ids: Tensor, positions: Tensor, reader: Reader, cancel: Event | None = None) -> Tensor:
        """Run [B, R] token ids at [B, R] positions through all layers; return [B, R, hidden].

        Raises Cancelled between two layers once `cancel` is set.
        """
        hidden, where = self.embed(ids, positions)
        for layer in range(self.spec.layers):
            hidden = self.layer(layer, hidden, where, reader, cancel)
        return hidden

    @torch.inference_mode()
    def embed(self, ids: Tensor, positions: Tensor) -> tuple[Tensor, Rotation]:
        """Return the embeddings [B, R, hidden] of [B, R] ids and the rotation of their positions."""
        hidden = self._body.embed_tokens(ids.to(self.device))
        return hidden, self._body.rotary_emb(hidden, positions.to(self.device))

    @torch.inference_mode()
    def layer(
        self, number: int, hidden: Tensor, where: Rotation, reader: Reader, cancel: Event | None = None
    ) -> Tensor:
        """Run one layer. Raises Cancelled before it once `cancel` is set."""
        if cancel is not None and cancel.is_set():
            raise Cancelled
        return self._body.layers[number](hidden, position_embeddings=where, past_key_values=reader, reader=reader)

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """Return next-token logits [..., V] in fp32 for hidden states [..., hidden]."""
        return self.differentiable_logits(hidden)

    def differentiable(self, ids: Tensor, positions: Tensor, reader: Reader) -> Tensor:
        """Like `forward`, with gradients: for finetuning."""
        hidden: Tensor = self._body.embed_tokens(ids.to(self.device))
        where = self._body.rotary_emb(hidden, positions.to(self.device))
        for layer in self._body.layers:
            hidden = layer(hidden, position_embeddings=where, past_key_values=reader, reader=reader)
        return hidden

    def differentiable_logits(self, hidden: Tensor) -> Tensor:
        """Like `logits`, with gradients."""
        found: Tensor = self._head(self._body.norm(hidden)).float()
        return found

    @torch.inference_mode()
    def reference_logits(self, ids: Tensor) -> Tensor:
        """Return the last token's logits [V] for `ids` [T] by transformers' own forward pass, for checks only."""
        self.model.set_attn_implementation("sdpa")
        try:
            return self.model(ids[None].to(self.device), use_cache=False).logits[0, -1].float()
        finally:
            self.model.set_attn_implementation(NAME)

    def prefill(self, ids: Tensor, buffer: KVBuffer, slots: Tensor, cancel: Event | None = None) -> Tensor:
        """Give `slots` [R] of a buffer fresh KV from token `ids` [R]; return the last row's logits [V]."""
        hidden = self.forward(ids[None], buffer.positions(slots)[None], RowPass(buffer, slots), cancel)
        return self.logits(hidden[0, -1])
