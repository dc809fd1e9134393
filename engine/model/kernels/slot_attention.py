"""Attention of chosen rows of a prompt on the CPU: the compiled kernel of `slot_attention.cpp`."""

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

HEAD_DIMS = (32, 64, 96, 128, 256)
_OUT_OF_MEMORY = 2
_POINTER, _INT64, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int


class SlotAttention:
    """A compiled kernel. Raises OSError if the library cannot be loaded."""

    def __init__(self, library: Path) -> None:
        # torch, imported above, has loaded the OpenMP runtime that the library then shares.
        functions = ctypes.CDLL(str(library))
        self._function = functions.slot_attention
        tensor: list[Any] = [_POINTER, _INT64, _INT64]
        self._function.argtypes = [*4 * tensor, _POINTER, _POINTER, _INT64, *3 * [_INT], ctypes.c_float, _INT, _INT]
        self._function.restype = _INT
        self.use_amx = bool(functions.has_amx())

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, slots: Tensor, scaling: float) -> Tensor:
        """Return softmax(query keys^T scaling) values, [1, query heads, R, D], where row i sees slots 0..slots[i].

        query         [1, query heads, R, D] bf16; D is one of HEAD_DIMS and contiguous in all tensors
        keys, values  [1, H, T, D] bf16; each head serves query heads / H adjacent query heads
        slots         [R] int64, ascending and below T

        Raises MemoryError.
        """
        return self._run(query, keys, values, slots, scaling, None)

    def attend_with_log_sums(
        self, query: Tensor, keys: Tensor, values: Tensor, slots: Tensor, scaling: float
    ) -> tuple[Tensor, Tensor]:
        """Return what `attend` does, and the log-sum-exp of each row's logits, [1, query heads, R] in fp32."""
        log_sums = torch.empty(query.shape[:3])
        return self._run(query, keys, values, slots, scaling, log_sums), log_sums

    def _run(
        self, query: Tensor, keys: Tensor, values: Tensor, slots: Tensor, scaling: float, log_sums: Tensor | None
    ) -> Tensor:
        num_heads, rows, head_dim = query.shape[1:]
        out = query.new_empty((1, rows, num_heads, head_dim)).transpose(1, 2)  # as the output projection reads it
        slots = slots.contiguous()
        arguments: list[int | None] = []
        for tensor in (query, keys, values, out):
            arguments += [tensor.data_ptr(), tensor.stride(1), tensor.stride(2)]
        arguments += [None if log_sums is None else log_sums.data_ptr(), slots.data_ptr()]
        threads = torch.get_num_threads()
        error = self._function(*arguments, rows, num_heads, keys.shape[1], head_dim, scaling, threads, self.use_amx)
        if error == _OUT_OF_MEMORY:
            raise MemoryError("There is no memory for the attention kernel's buffers.")
        assert error == 0, f"the attention kernel does not support a head dimension of {head_dim}"
        return out
