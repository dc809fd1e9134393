"""A generator run from its first step to its last in one thread of its own.

Each thread that uses torch gets an OpenMP team, and with more teams alive than cores the small operations of decoding
slow down by half. A web server takes a generator's steps in whatever thread is free; so a question brings its own.
"""

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, TypeVar

Item = TypeVar("Item")


def run_in_thread(generate: Callable[[], Iterator[Item]], stop: Event) -> Iterator[Item]:
    """Yield what `generate()` yields, and raise what it raises.

    stop  set when the caller is done, early or not; `generate` has to end soon after, and is waited for
    """
    handed: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def run() -> None:
        try:
            for item in generate():
                handed.put(("item", item))
            handed.put(("end", None))
        except Exception as error:  # noqa: BLE001  it is raised again where it is waited for
            handed.put(("error", error))

    thread = Thread(target=run, name="question", daemon=True)
    thread.start()
    try:
        while True:
            kind, what = handed.get()
            if kind == "end":
                return
            if kind == "error":
                raise what
            yield what
    finally:
        stop.set()
        thread.join()
