"""What the Compare page asks of the house: one question through several methods, one outcome after the other."""

from collections.abc import Iterator
from threading import Event
from typing import Protocol

from engine.analysis.comparison import CompareRequest, Comparison


class CompareService(Protocol):
    """Every error meant for a person is a KVScopeError."""

    def compare(self, wanted: CompareRequest, cancel: Event) -> Iterator[Comparison]:
        """Yield one growing comparison. After `cancel` is set it ends within a layer or a token, as 'stopped'."""
        ...
