"""A thread-safe LRU cache keyed by text. Deleting a text while a value is being computed discards that value."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class LRUCache(Generic[V]):
    """Memoizes `compute(text, *args)` for the most recently used texts, up to a `maxsize` summed over `sizeof`.

    `args` must always be the same for one text. Two threads that miss the same text may both compute its value.
    """

    def __init__(self, compute: Callable[..., V], maxsize: int, sizeof: Callable[[V], int] = lambda value: 1) -> None:
        self._compute = compute
        self._maxsize = maxsize
        self._sizeof = sizeof
        self._lock = Lock()
        self._values: OrderedDict[str, V] = OrderedDict()
        self._size = 0
        self._num_deletions = 0

    def __call__(self, text: str, *args: object) -> V:
        with self._lock:
            if text in self._values:
                self._values.move_to_end(text)
                return self._values[text]
            num_deletions = self._num_deletions
        value = self._compute(text, *args)
        with self._lock:
            if num_deletions == self._num_deletions:  # otherwise this text may have been deleted in the meantime
                self._drop(text)  # another thread may have cached it as well
                self._values[text] = value
                self._size += self._sizeof(value)
                while self._size > self._maxsize:
                    self._drop(next(iter(self._values)))
        return value

    def keys(self) -> list[str]:
        """Return the cached texts, least recently used first."""
        with self._lock:
            return list(self._values)

    def evict(self, text: str) -> None:
        """Delete a text; a value that another thread is computing for it is not cached either."""
        with self._lock:
            self._num_deletions += 1
            self._drop(text)

    def clear(self) -> None:
        with self._lock:
            self._num_deletions += 1
            self._values.clear()
            self._size = 0

    def _drop(self, text: str) -> None:
        if text in self._values:
            self._size -= self._sizeof(self._values.pop(text))
