"""Fewer updates: a browser repaints ten times a second with pleasure, a hundred times with a stutter."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from time import monotonic
from typing import TypeVar

Snapshot = TypeVar("Snapshot")


def coalesce(
    snapshots: Iterable[Snapshot],
    milestone: Callable[[Snapshot], Hashable],
    pause_s: float = 1 / 12,
    clock: Callable[[], float] = monotonic,
) -> Iterator[Snapshot]:
    """Yield snapshots at most every `pause_s`, but always the last one and each that changes its `milestone`."""
    held: list[Snapshot] = []  # empty, or the newest snapshot not shown yet
    shown: object = object()
    due = clock()
    for snapshot in snapshots:
        held = [snapshot]
        if (reached := milestone(snapshot)) != shown or clock() >= due:
            yield snapshot
            held, shown, due = [], reached, clock() + pause_s
    yield from held
