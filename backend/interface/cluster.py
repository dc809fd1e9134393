"""Engines on other machines that answer questions, as the backend sees them; `cluster.dispatch` implements it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING, Protocol

from engine.request import Answer, Request

if TYPE_CHECKING:
    from engine.engine import Engine


class EngineCluster(Protocol):
    """Answers in the place of the backend's own engine, which searches, and answers if no other can."""

    def ask(self, front: Engine, request: Request, cancel: Event) -> Iterator[Answer]:
        """Answer a request as `Engine.ask` does."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete chunks from all engines."""
