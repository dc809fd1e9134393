"""What was made of texts, for a while: the latest ones, and nothing of a text that was deleted."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Calls `make(text, ...)` once for each of the latest `most` texts; from any thread.

    Two threads that ask for the same text may both make it. What a text depends on beside itself is the same in every
    call.
    """

    def __init__(self, make: Callable[..., V], most: int) -> None:
        self._make, self._most, self._lock = make, most, Lock()
        self._held: OrderedDict[str, V] = OrderedDict()
        self._forgotten = 0

    def __call__(self, text: str, *more: object) -> V:
        with self._lock:
            if text in self._held:
                self._held.move_to_end(text)
                return self._held[text]
            forgotten = self._forgotten
        made = self._make(text, *more)
        with self._lock:
            if forgotten == self._forgotten:  # else it may be this text that has gone meanwhile
                self._held[text] = made
                while len(self._held) > self._most:
                    self._held.popitem(last=False)
        return made

    def __len__(self) -> int:
        return len(self._held)

    def forget(self, text: str) -> None:
        """Drop a text, also where another thread is making something of it just now."""
        with self._lock:
            self._forgotten += 1
            self._held.pop(text, None)

    def clear(self) -> None:
        """Drop all texts."""
        with self._lock:
            self._forgotten += 1
            self._held.clear()
