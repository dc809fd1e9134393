"""A decoder run layer by layer: token ids in, hidden states or logits out.

The layers are transformers' own modules, called one by one with our attention, or fused ones with their weights. So
every model with plain rotary attention works, a long pass can be cancelled between layers, and the LM head runs only
for the rows that need it.
"""

from collections.abc import Sequence
from threading import Event
from typing import Any

import torch
from torch import Tensor

from engine.errors import Cancelled
from engine.model.attention import ATTENTION_NAME, AttentionPass
from engine.model.kernels.decode_step import DecodeStep
from engine.model.kernels.fused_layer import FusedLayer, LayerOps, Memory
from engine.model.kernels.slot_attention import HEAD_DIMS, SlotAttention
from engine.model.kv_buffer import BatchDecode, KVBuffer, RowPass
from engine.model.spec import ModelSpec, SelfTestResult, read_spec
from engine.model.step_batcher import DecodeRows, StepBatcher

Rotation = tuple[Tensor, Tensor]  # cosines and sines of positions, [B, R, D] each


class Decoder:
    """A transformers causal model, whose attention is replaced in place, and its fast tokenizer.

    Raises UnsupportedModel unless the model has plain rotary attention. `load_decoder` sets `selftest_result`.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:
        self.spec: ModelSpec = read_spec(model)
        model.set_attn_implementation(ATTENTION_NAME)
        self.model = model
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.tokenizer = tokenizer
        self.name = name
        self.selftest_result: SelfTestResult | None = None
        self.attention_kernel: SlotAttention | None = None  # see `use_kernel`
        self.fused_layers: list[FusedLayer] = []  # instead of transformers', except for training
        self.layer_ops: LayerOps | None = None  # with them
        self.decode_step: DecodeStep | None = None  # instead of transformers' layers, see `engine.model.sampling`
        self.batcher = StepBatcher(self.run_rows)
        self.tokens_per_second: float | None = None  # of decoding, measured at load for a main model

    def use_kernel(self, kernel: SlotAttention | None) -> None:
        """Attend with a kernel instead of torch from the next buffer on, if it supports the model."""
        is_supported = self.device.type == "cpu" and self.dtype == torch.bfloat16 and self.spec.head_dim in HEAD_DIMS
        self.attention_kernel = kernel if is_supported else None

    def can_step(self, buffer: KVBuffer) -> bool:
        """Return whether the compiled decoding step is used for a buffer."""
        return self.decode_step is not None and buffer.parallel is None

    @torch.inference_mode()
    def run_rows(self, batch: Sequence[DecodeRows]) -> list[Tensor]:
        """Return the logits [R, V] after the next rows of several answers; at most MAX_ROWS rows in all."""
        after: dict[DecodeRows, Tensor] = {}
        if stepping := [rows for rows in batch if self.can_step(rows.buffer)]:
            assert self.decode_step is not None
            logits = self.decode_step.run(
                [token for rows in stepping for token in rows.ids],
                [rows.buffer for rows in stepping for _ in rows.ids],
                [slot for rows in stepping for slot in rows.slots],
            )
            after |= zip(stepping, logits.split([len(rows.ids) for rows in stepping]), strict=True)
        if singles := [rows for rows in batch if rows not in after and len(rows.ids) == 1]:
            together = BatchDecode([rows.buffer for rows in singles], [torch.tensor(rows.slots) for rows in singles])
            ids = torch.tensor([rows.ids for rows in singles])
            after |= zip(singles, self.logits(self.forward(ids, together.positions, together)), strict=True)
        for rows in batch:
            if rows not in after:
                slots = torch.tensor(rows.slots)
                row_pass, positions = RowPass(rows.buffer, slots), rows.buffer.positions(slots)
                after[rows] = self.logits(self.forward(torch.tensor([rows.ids]), positions[None], row_pass)[0])
        return [after[rows] for rows in batch]

    def synchronize(self) -> None:
        """Wait for the GPU's pending work, so that timings are correct."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def new_buffer(self, capacity: int) -> KVBuffer:
        """Return an empty buffer of `capacity` slots on the model's device."""
        shape = (self.spec.num_layers, self.spec.num_kv_heads, capacity, self.spec.head_dim)
        keys, values = (torch.empty(shape, dtype=self.dtype, device=self.device) for _ in range(2))
        return KVBuffer(keys, values, kernel=self.attention_kernel)

    @torch.inference_mode()
    def forward_rows(self, ids: Tensor, buffer: KVBuffer, slots: Tensor, cancel: Event | None = None) -> Tensor:
        """Compute the KV of `slots` [R] of a buffer from token `ids` [R]; return the last row's logits [V] in fp32."""
        hidden = self.forward(ids[None], buffer.positions(slots)[None], RowPass(buffer, slots), cancel)
        return self.logits(hidden[0, -1])

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        attention_pass: AttentionPass,
        cancel: Event | None = None,
        with_grad: bool = False,
    ) -> Tensor:
        """Run ids [B, R] at positions [B, R] through all layers; return [B, R, hidden_size]. Raises Cancelled."""
        with torch.inference_mode(not with_grad):
            hidden, rotation = self.embed(ids, positions)
            memory: Memory = {}
            for layer in range(self.spec.num_layers):
                hidden = self.run_layer(layer, hidden, rotation, attention_pass, cancel, memory)
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
        memory: Memory | None = None,
    ) -> Tensor:
        """Run one layer; all layers of a pass may share `memory`. Raises Cancelled before it if `cancel` is set."""
        if cancel is not None and cancel.is_set():
            raise Cancelled
        with self.batcher.layer():
            if self.fused_layers and not torch.is_grad_enabled():
                memory = {} if memory is None else memory
                return self.fused_layers[layer](hidden, rotation, attention_pass, self.batcher.pause_layer, memory)
            return self.model.model.layers[layer](
                hidden,
                position_embeddings=rotation,
                past_key_values=attention_pass,
                attention_pass=attention_pass,
                pause=self.batcher.pause_layer,
            )

    def logits(self, hidden: Tensor, with_grad: bool = False) -> Tensor:
        """Return next-token logits [..., V] in fp32 for hidden states [..., hidden_size]."""
        with torch.inference_mode(not with_grad):
            return self.model.lm_head(self.model.model.norm(hidden)).float()

    @torch.inference_mode()
    def reference_logits(self, ids: Tensor) -> Tensor:
        """Return the last token's logits [V] for `ids` [T] from transformers' own forward pass, for checks."""
        self.model.set_attn_implementation("sdpa")
        try:
            return self.model(ids[None].to(self.device), use_cache=False).logits[0, -1].float()
        finally:
            self.model.set_attn_implementation(ATTENTION_NAME)
