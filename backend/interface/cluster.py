"""Engines on other machines that answer questions, as the backend sees them; `cluster.dispatch` implements it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Protocol

from engine.request import Answer, Request

if TYPE_CHECKING:
    from engine.engine import Engine


class EngineCluster(Protocol):
    """Answers in the place of the backend's own engine, which searches, and answers if no other can."""

    @property
    def refused(self) -> Mapping[str, str]: ...  # engines that are not used, with the reason as a sentence

    def start(self, front: Callable[[], Engine | None]) -> None:
        """Look for engines from now on; `front` returns the backend's own engine, None until it is loaded."""

    def close(self) -> None:
        """Look for engines no more."""

    def engine_names(self) -> list[str]:
        """Return the engines that answer questions."""

    def ask(self, front: Engine, request: Request, cancel: Event) -> Iterator[Answer]:
        """Answer a request as `Engine.ask` does."""

    def chunk_keys(self) -> set[str]:
        """Return the keys of the chunks that some engine has, as far as is known."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete chunks from all engines."""
