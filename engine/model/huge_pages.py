"""Memory in huge pages for weights: reading all of them for each token, a processor translates fewer addresses."""

import mmap
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

ALIGNMENT = 64  # bytes: tensors start at a cache line


class HugePages:
    """Memory for tensors in pages of 2 MiB where Linux has them, else in usual pages; freed with its last tensor."""

    def __init__(self, sizes: Sequence[int]) -> None:
        """Reserve memory for tensors of so many bytes; it is taken when it is first written. Raises OSError."""
        num_bytes = max(1, sum(map(_aligned, sizes)))
        if hasattr(mmap, "MADV_HUGEPAGE"):
            pages = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with suppress(OSError):  # a kernel without them
                pages.madvise(mmap.MADV_HUGEPAGE)
            self._free = torch.frombuffer(pages, dtype=torch.uint8)
        else:
            self._free = torch.zeros(num_bytes, dtype=torch.uint8)

    def zeros(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return the next tensor. Raises RuntimeError if there is no memory left for it."""
        num_bytes = torch.Size(shape).numel() * dtype.itemsize
        tensor = self._free[:num_bytes].view(dtype).view(*shape)
        self._free = self._free[_aligned(num_bytes) :]
        return tensor


def use_huge_pages(model: torch.nn.Module) -> None:
    """Copy a model's parameters into huge pages. Raises OSError."""
    parameters = list(model.parameters())
    pages = HugePages([parameter.nbytes for parameter in parameters])
    for parameter in parameters:
        parameter.data = pages.zeros(parameter.shape, parameter.dtype).copy_(parameter.data)


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT
