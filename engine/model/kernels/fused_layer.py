"""A decoder layer on the CPU whose norms, rotations and activation are kernels of `layer_ops.cpp`.

transformers computes each by several operations, which together take as long as the layer's matrix products. For few
rows, these are a kernel too, of `linear.cpp`.
"""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.attention import AttentionPass

Memory = dict[str, Tensor]  # of one pass: outputs that a layer no longer needs, which the next one overwrites
MAX_LINEAR_ROWS = 512  # for more, torch's matrix products are as fast
_BLOCK = 32  # rows, inputs and outputs that the kernel of linear layers computes together
_POINTER, _INT64, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float


class _Linear(ctypes.Structure):
    _fields_ = [("weight", _POINTER), ("bias", _POINTER), ("out", _POINTER), ("outputs", _INT64)]


class LayerOps:
    """The compiled kernels; tensors are bf16 and contiguous. Raises OSError if the library cannot be loaded."""

    def __init__(self, library: Path) -> None:
        functions = ctypes.CDLL(str(library))
        self._rms_norm, self._silu_multiply = functions.rms_norm, functions.silu_multiply
        self._rotate, self._rerotate = functions.rotate, functions.rerotate
        self._linear = functions.linear
        self._rms_norm.argtypes = [_POINTER, _POINTER, _FLOAT, _INT64, _INT64, _POINTER, _INT]
        self._rotate.argtypes = [*4 * [_POINTER], _FLOAT, *3 * [_INT64], _INT]
        self._silu_multiply.argtypes = [_POINTER, _POINTER, _INT64, _INT]
        tensor: list[Any] = [_POINTER, _INT64, _INT64]
        self._rerotate.argtypes = [*tensor, _POINTER, _POINTER, *4 * [_INT64], *tensor, _INT]
        self._linear.argtypes = [_POINTER, _INT64, _INT64, _POINTER, _INT, _POINTER, _INT]
        for function in (self._rms_norm, self._silu_multiply, self._rotate, self._rerotate, self._linear):
            function.restype = None
        self.has_amx = bool(functions.has_amx())  # which `linear_` needs

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Return x [..., D] / rms(x) * weight [D], the weight in fp32; D is a multiple of 16."""
        x = x.contiguous()
        out, size = torch.empty_like(x), x.shape[-1]
        threads = torch.get_num_threads()
        rows = x.numel() // size
        self._rms_norm(x.data_ptr(), weight.data_ptr(), epsilon, rows, size, out.data_ptr(), threads)
        return out

    def rotate_(self, x: Tensor, cosines: Tensor, sines: Tensor, norm: Tensor | None, epsilon: float) -> Tensor:
        """Rotate x [..., heads, D] in place by cosines and sines [..., D], whose halves are equal; 32 divides D.

        norm  [D] in fp32: the weight of an RMS norm of each head before, or None
        """
        heads, head_dim = x.shape[-2:]
        cosines, sines = cosines.contiguous(), sines.contiguous()
        pointers = x.data_ptr(), cosines.data_ptr(), sines.data_ptr(), None if norm is None else norm.data_ptr()
        rows = x.numel() // (heads * head_dim)
        self._rotate(*pointers, epsilon, rows, heads, head_dim, torch.get_num_threads())
        return x

    def silu_multiply_(self, gate: Tensor, up: Tensor) -> Tensor:
        """Replace gate by silu(gate) * up, of the same shape; the number of elements is a multiple of 16."""
        self._silu_multiply(gate.data_ptr(), up.data_ptr(), gate.numel(), torch.get_num_threads())
        return gate

    def linear_(self, x: Tensor, linears: Sequence[nn.Linear], outs: Sequence[Tensor]) -> None:
        """Overwrite outs [R, outputs] by linear layers of x [R, inputs], for up to MAX_LINEAR_ROWS rows with AMX.

        32 divides inputs and outputs. A row's outputs do not depend on the other rows.
        """
        rows, inputs = x.shape
        packed = x.new_empty(-(-rows // _BLOCK) * _BLOCK, inputs)
        layers = (_Linear * len(outs))()
        for layer, linear, out in zip(layers, linears, outs, strict=True):
            layer.weight, layer.out, layer.outputs = linear.weight.data_ptr(), out.data_ptr(), linear.out_features
            layer.bias = None if linear.bias is None else linear.bias.data_ptr()
        threads = torch.get_num_threads()
        self._linear(x.contiguous().data_ptr(), rows, inputs, layers, len(outs), packed.data_ptr(), threads)

    def rerotate(self, keys: Tensor, shift: int, inv_freq: Tensor, out: Tensor) -> Tensor:
        """Do what `rerotate_keys` does for keys and out [L, H, T, D], whose last two dimensions are contiguous."""
        layers, heads, tokens, head_dim = keys.shape
        assert keys.stride()[2:] == out.stride()[2:] == (head_dim, 1) and keys.dtype == out.dtype == torch.bfloat16
        angles = shift * inv_freq.float()
        cosines, sines = angles.cos(), angles.sin()
        source, target = ((each.data_ptr(), each.stride(0), each.stride(1)) for each in (keys, out))
        rotation = cosines.data_ptr(), sines.data_ptr()
        self._rerotate(*source, *rotation, layers, heads, tokens, head_dim, *target, torch.get_num_threads())
        return out


class FusedLayer:
    """Computes what a layer of transformers does, for a pass without gradients; its weights are that layer's own."""

    def __init__(self, ops: LayerOps, layer: Any) -> None:
        """Raises ValueError for a layer that the kernels cannot run."""
        self._ops, self._layer = ops, layer
        attention, mlp = layer.self_attn, layer.mlp
        config, weight = attention.config, mlp.gate_proj.weight
        is_supported = (
            weight.dtype is torch.bfloat16
            and weight.device.type == "cpu"
            and config.hidden_act == "silu"
            and attention.head_dim % 32 == 0
            and all(size % 16 == 0 for size in weight.shape)
        )
        if not is_supported:
            raise ValueError(f"{config.model_type} with {attention.head_dim} channels per head is not supported")
        weights = [module.weight for module in layer.modules() if isinstance(module, nn.Linear)]
        self._has_linear = ops.has_amx and not any(size % _BLOCK for weight in weights for size in weight.shape)
        self._epsilon = float(config.rms_norm_eps)
        self._attention_norm, self._mlp_norm = (
            norm.weight.detach().float() for norm in (layer.input_layernorm, layer.post_attention_layernorm)
        )
        head_norms = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
        self._query_norm, self._key_norm = (norm and norm.weight.detach().float() for norm in head_norms)

    def __call__(
        self,
        hidden: Tensor,
        rotation: tuple[Tensor, Tensor],
        attention_pass: AttentionPass,
        pause: Callable[[], None],
        memory: Memory,
    ) -> Tensor:
        """Return the layer's output [B, R, hidden_size], see `Decoder.run_layer`."""
        ops, attention, mlp = self._ops, self._layer.self_attn, self._layer.mlp
        inputs = ops.rms_norm(hidden, self._attention_norm, self._epsilon)
        query, keys, values = (
            projected.unflatten(-1, (-1, attention.head_dim))
            for projected in self._apply((attention.q_proj, attention.k_proj, attention.v_proj), inputs, {}, "qkv")
        )
        query = ops.rotate_(query, *rotation, self._query_norm, self._epsilon)
        keys = ops.rotate_(keys, *rotation, self._key_norm, self._epsilon)
        index = attention.layer_idx
        keys, values = attention_pass.update(keys.transpose(1, 2), values.transpose(1, 2), index)
        pause()
        output = attention_pass.attend(index, query.transpose(1, 2), keys, values, attention.scaling)
        pause()
        output = output.transpose(1, 2).flatten(2)
        (output,) = self._apply((attention.o_proj,), output, memory, "o")
        hidden = hidden + output
        inputs = ops.rms_norm(hidden, self._mlp_norm, self._epsilon)
        gate, up = self._apply((mlp.gate_proj, mlp.up_proj), inputs, memory, "gu")
        (output,) = self._apply((mlp.down_proj,), ops.silu_multiply_(gate, up), memory, "o")
        return hidden.add_(output)

    def _apply(self, linears: Sequence[nn.Linear], inputs: Tensor, memory: Memory, names: str) -> list[Tensor]:
        """Return the outputs of linear layers in `memory`: the operating system takes long to provide new pages."""
        rows = inputs.flatten(0, -2)
        outs = []
        for name, linear in zip(names, linears, strict=True):
            shape = len(rows), linear.out_features
            if name not in memory or memory[name].shape != shape:
                memory[name] = rows.new_empty(shape)
            outs.append(memory[name])
        if self._has_linear and len(rows) <= MAX_LINEAR_ROWS:
            self._ops.linear_(rows, linears, outs)
        else:
            for linear, out in zip(linears, outs, strict=True):
                if linear.bias is None:
                    torch.mm(rows, linear.weight.t(), out=out)
                else:
                    torch.addmm(linear.bias, rows, linear.weight.t(), out=out)
        return [out.view(*inputs.shape[:-1], -1) for out in outs]
