"""What was made of texts, for a while: the latest ones, and nothing of a text that was deleted."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class LRUCache(Generic[V]):
    """Calls `make(text, ...)` once for each of the latest texts; from any thread.

    most  what is held, in all: as many texts, or what `size` gives for each
    size  of what was made

    Two threads that ask for the same text may both make it. What a text depends on beside itself is the same in every
    call.
    """

    def __init__(self, make: Callable[..., V], maxsize: int, sizeof: Callable[[V], int] = lambda made: 1) -> None:
        self._make, self._most, self._size, self._lock = make, maxsize, sizeof, Lock()
        self._held: OrderedDict[str, V] = OrderedDict()
        self._taken = self._forgotten = 0

    def __call__(self, text: str, *more: object) -> V:
        with self._lock:
            if text in self._held:
                self._held.move_to_end(text)
                return self._held[text]
            forgotten = self._forgotten
        made = self._make(text, *more)
        with self._lock:
            if forgotten == self._forgotten:  # else it may be this text that has gone meanwhile
                self._drop(text)  # which another thread may have made as well
                self._held[text], self._taken = made, self._taken + self._size(made)
                while self._taken > self._most:
                    self._drop(next(iter(self._held)))
        return made

    def __len__(self) -> int:
        return len(self._held)

    @property
    def full(self) -> bool:
        """Whether one more would push another out."""
        return self._taken >= self._most

    def forget(self, text: str) -> None:
        """Drop a text, also where another thread is making something of it just now."""
        with self._lock:
            self._forgotten += 1
            self._drop(text)

    def clear(self) -> None:
        """Drop all texts."""
        with self._lock:
            self._forgotten += 1
            self._held.clear()
            self._taken = 0

    def _drop(self, text: str) -> None:
        if text in self._held:
            self._taken -= self._size(self._held.pop(text))
