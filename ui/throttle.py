"""Rate limiting of UI updates: browsers render about ten per second smoothly, not a hundred."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from time import monotonic
from typing import TypeVar

Snapshot = TypeVar("Snapshot")


def coalesce(
    snapshots: Iterable[Snapshot],
    milestone: Callable[[Snapshot], Hashable],
    interval_s: float = 1 / 12,
    clock: Callable[[], float] = monotonic,
) -> Iterator[Snapshot]:
    """Yield at most one snapshot per `interval_s`, plus the last one and each that changes its `milestone`."""
    pending: list[Snapshot] = []  # empty, or the newest snapshot that was not yielded
    last_milestone: object = object()
    due = clock()
    for snapshot in snapshots:
        pending = [snapshot]
        reached = milestone(snapshot)
        if reached != last_milestone or clock() >= due:
            yield snapshot
            pending = []
            last_milestone = reached
            due = clock() + interval_s
    yield from pending
