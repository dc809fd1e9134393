"""What the Inspect page asks of the house."""

from collections.abc import Iterator
from threading import Event
from typing import Protocol

from engine.analysis.report import Step
from engine.request import Request


class InspectService(Protocol):
    """Looks into questions. Every error meant for a person is a KVScopeError."""

    def inspect(self, request: Request, cancel: Event) -> Iterator[Step]:
        """Yield what is being done; the last step holds what was found. Nothing is answered."""
        ...
