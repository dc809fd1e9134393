"""Base class of the small networks that are trained over the frozen encoder: passage cache, size and file."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.errors import KVScopeError
from engine.lru import LRUCache
from engine.model.encoder import Encoder
from engine.model.tokenizer import TokenizedText

Head = TypeVar("Head", bound=nn.Module)
PassageData = TypeVar("PassageData")


class TrainedHead(ABC, Generic[Head, PassageData]):
    """An encoder and a network ("head") trained on its vectors; whatever depends on a passage alone is cached.

    encoder  frozen; it is not part of the file
    head     set to inference mode
    maxsize  of the cache, in the unit of `sizeof`; by default in passages
    """

    file_name: ClassVar[str]

    def __init__(
        self, encoder: Encoder, head: Head, maxsize: int, sizeof: Callable[[PassageData], int] = lambda data: 1
    ) -> None:
        self.encoder = encoder
        self.head = head.eval().requires_grad_(False)
        self._passages = LRUCache(self._encode_passage, maxsize, sizeof)

    @abstractmethod
    def _encode_passage(self, text: str, passage: TokenizedText) -> PassageData:
        """Return what is cached for a passage, given its text and the main model's tokens of it."""

    @property
    def num_parameters(self) -> int:
        return sum(weight.numel() for weight in self._weights)

    @property
    def size_bytes(self) -> int:
        return sum(weight.nbytes for weight in self._weights)

    @property
    def _weights(self) -> list[Tensor]:
        return [*self.encoder.parameters, *self.head.parameters()]

    def warm(self, text: str, passage: TokenizedText) -> None:
        """Cache a passage unless the cache is full."""
        if not self._passages.is_full:
            self._passages(text.strip(), passage)

    def evict(self, text: str) -> None:
        """Drop a passage from the cache."""
        self._passages.evict(text.strip())

    def clear(self) -> None:
        """Empty the cache."""
        self._passages.clear()

    def save(self, folder: Path) -> None:
        """Write the head in bf16."""
        tensors = {name: weight.to(torch.bfloat16).contiguous() for name, weight in self.head.state_dict().items()}
        save_file(tensors, folder / self.file_name)


def load_head(path: Path, build: Callable[[Mapping[str, Tensor]], Head], name: str, error: type[KVScopeError]) -> Head:
    """Return the head in a safetensors file.

    build  returns an untrained head of the shapes of the given tensors
    name   of the kind of head, for messages

    Raises `error` if the file is missing or damaged, or was trained for another encoder.
    """
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as cause:
        raise error(f"The {name} in {path} cannot be read ({cause}).") from cause
    try:
        head = build(tensors)
        head.load_state_dict(tensors)
    except (RuntimeError, KeyError, TypeError, IndexError, ValueError, ArithmeticError) as cause:
        raise error(f"The {name} in {path} was trained for another encoder or version.") from cause
    return head
