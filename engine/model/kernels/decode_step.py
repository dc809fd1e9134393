"""A decoding step on the CPU in one call: the compiled kernel of `decode_step.cpp` with the weights of one model."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.huge_pages import HugePages
from engine.model.kernels.thread_choice import ThreadChoice
from engine.model.kv_buffer import KVBuffer

MAX_ROWS = 8
HEAD_DIMS = (64, 128)
MAX_GROUPS = 16  # query heads per key head
OUTPUTS = 16  # of a linear layer, computed together: int8 weights are padded to a multiple of it
ROTATIONS = 256  # positions whose cosines and sines are computed together
_INT64, _POINTER = ctypes.c_int64, ctypes.c_void_p


class _Linear(ctypes.Structure):
    _fields_ = [("weight", _POINTER), ("scale", _POINTER), ("sums", _POINTER), ("bias", _POINTER)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Linear) for name in ("query", "key", "value", "output", "gate", "up", "down")),
        *((name, _POINTER) for name in ("attention_norm", "mlp_norm", "query_norm", "key_norm")),
    ]


class _Shape(ctypes.Structure):
    _fields_ = [
        (name, _INT64)
        for name in ("num_layers", "hidden", "heads", "key_heads", "head_dim", "intermediate", "vocabulary")
    ]


class _Row(ctypes.Structure):
    _fields_ = [
        *((name, _POINTER) for name in ("keys", "values")),
        *((name, _INT64) for name in ("layer", "head", "slot")),
        *((name, _POINTER) for name in ("embedding", "rotation")),
    ]


class DecodeStep:
    """The kernel and a model's weights: its own in bf16, or a copy in 8 bits with a scale per output."""

    def __init__(self, library: Path, model: Any, use_int8: bool) -> None:
        """Raises OSError if the library cannot be loaded, and ValueError for a model that the kernel cannot run."""
        config, layers = model.config, model.model.layers
        attention, mlp = layers[0].self_attn, layers[0].mlp
        groups = config.num_attention_heads // config.num_key_value_heads
        sizes = (config.hidden_size, config.intermediate_size)
        is_supported = (
            model.dtype is torch.bfloat16
            and model.device.type == "cpu"
            and config.hidden_act == "silu"
            and attention.head_dim in HEAD_DIMS
            and groups <= MAX_GROUPS
            and not any(size % 16 for size in sizes)
        )
        if not is_supported:
            raise ValueError(f"{config.model_type} with {attention.head_dim} channels per head is not supported")
        functions = ctypes.CDLL(str(library))
        self._pack_int8 = functions.pack_int8
        self._pack_int8.argtypes = [_POINTER, _INT64, _INT64, *3 * [_POINTER], ctypes.c_int]
        self._pack_int8.restype = None
        self._function = functions.decode_step
        self._function.argtypes = [*6 * [_POINTER], *2 * [ctypes.c_float], *4 * [ctypes.c_int]]
        self.use_amx = bool(functions.has_amx())  # for 8-bit weights; results are the same bits without it
        self._threads = ThreadChoice(torch.get_num_threads())
        self._tensors: list[Tensor] = []  # that the structures point to
        self._use_int8 = use_int8
        self._model = model.model
        self._epsilon, self._scaling = float(config.rms_norm_eps), float(attention.scaling)
        self._vocabulary = int(model.lm_head.weight.shape[0])
        self._shape = _Shape(
            len(layers),
            config.hidden_size,
            config.num_attention_heads,
            config.num_key_value_heads,
            attention.head_dim,
            mlp.down_proj.in_features,
            self._vocabulary,
        )
        linears = [module for layer in layers for module in layer.modules() if isinstance(module, nn.Linear)]
        self._pages = HugePages([_int8_bytes(linear) for linear in (*linears, model.lm_head)] if use_int8 else [])
        self._layers = (_Layer * len(layers))(*(self._pack_layer(layer) for layer in layers))
        self._embeddings = model.model.embed_tokens.weight.detach().contiguous()  # [V, hidden]
        self._rotations: dict[int, Tensor] = {}  # by block of positions, [ROTATIONS, 2, D] in fp32: cosines, sines
        self._final_norm = self._fp32(model.model.norm.weight)
        self._head = self._pack(model.lm_head)

    def _rotation(self, position: int) -> int:
        """Return the address of a position's cosines and sines, which are computed once for a block of positions."""
        block, offset = divmod(position, ROTATIONS)
        if block not in self._rotations:
            positions = torch.arange(block * ROTATIONS, (block + 1) * ROTATIONS)
            rotation = self._model.rotary_emb(torch.empty((), dtype=torch.float32), positions[None])
            self._rotations[block] = torch.stack([each[0] for each in rotation], dim=1).contiguous()
        return self._rotations[block][offset].data_ptr()

    def _pack_layer(self, layer: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        modules = attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj
        linears = (*modules, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        head_norms = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
        norms = (layer.input_layernorm, layer.post_attention_layernorm, *head_norms)
        return _Layer(*map(self._pack, linears), *(norm and self._fp32(norm.weight) for norm in norms))

    def _pack(self, linear: nn.Linear) -> _Linear:
        weight = linear.weight.detach().contiguous()
        bias = None if linear.bias is None else self._fp32(linear.bias)
        if weight.dtype is not torch.bfloat16:
            raise ValueError(f"weights in {weight.dtype} are not supported")
        if not self._use_int8:
            return _Linear(self._keep(weight), None, None, bias)
        outputs, inputs = weight.shape
        packed = self._keep(self._pages.zeros([_int8_bytes(linear)], torch.int8))
        padded = -(-outputs // OUTPUTS) * OUTPUTS
        scale, sums = self._keep(torch.zeros(padded)), self._keep(torch.zeros(padded, dtype=torch.int32))
        threads = torch.get_num_threads()
        self._pack_int8(weight.data_ptr(), outputs, inputs, packed, scale, sums, threads)
        return _Linear(packed, scale, sums, bias)

    def _fp32(self, tensor: Tensor) -> int:
        return self._keep(tensor.detach().float())

    def _keep(self, tensor: Tensor) -> int:
        """Return the address of a tensor, which lives as long as this object."""
        self._tensors.append(tensor.contiguous())
        return self._tensors[-1].data_ptr()

    @torch.inference_mode()
    def run(self, ids: Sequence[int], buffers: Sequence[KVBuffer], slots: Sequence[int]) -> Tensor:
        """Store the KV of token `ids` at `slots` of their buffers, and return the logits [R, V] after them.

        Slots of one buffer are adjacent and ascending; those before them have valid KV. At most MAX_ROWS rows, and no
        buffer with parallel chunks. Raises MemoryError, and ValueError for a slot past a buffer's capacity.
        """
        logits = torch.empty((len(ids), self._vocabulary))
        rows = (_Row * len(buffers))()
        for row, token, buffer, slot in zip(rows, ids, buffers, slots, strict=True):
            if slot >= buffer.capacity:
                raise ValueError(f"slot {slot} is past the buffer's capacity of {buffer.capacity}")
            keys, values = buffer.keys, buffer.values
            row.keys, row.values, row.slot = keys.data_ptr(), values.data_ptr(), slot
            row.layer, row.head = keys.stride(0), keys.stride(1)
            row.embedding, row.rotation = self._embeddings[token].data_ptr(), self._rotation(slot)
        if self._threads.maximum != torch.get_num_threads():
            self._threads = ThreadChoice(torch.get_num_threads())
        threads = self._threads.next()
        began = perf_counter()
        error = self._function(
            ctypes.byref(self._shape),
            self._layers,
            self._final_norm,
            ctypes.byref(self._head),
            rows,
            logits.data_ptr(),
            self._epsilon,
            self._scaling,
            len(buffers),
            threads,
            self._threads.maximum,
            self.use_amx,
        )
        self._threads.record(threads, len(buffers), perf_counter() - began)
        if error == 2:
            raise MemoryError("there is no memory for a decoding step")
        assert error == 0, "the shape was checked at the start"
        for buffer, slot in zip(buffers, slots, strict=True):
            buffer.length = max(buffer.length, slot + 1)
        return logits


def _int8_bytes(linear: nn.Linear) -> int:
    return -(-linear.out_features // OUTPUTS) * OUTPUTS * linear.in_features
