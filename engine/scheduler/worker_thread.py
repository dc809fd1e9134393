"""Run a generator from start to end in one thread of its own.

Each thread that uses torch gets its own OpenMP team, and more teams than cores halve the speed of decoding. A web
server runs the steps of a generator in arbitrary threads, so each request brings its own.
"""

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, TypeVar

Item = TypeVar("Item")


def run_in_thread(generate: Callable[[], Iterator[Item]], stop: Event) -> Iterator[Item]:
    """Yield the items of `generate()`, and raise its exception; it has to end soon after `stop` is set.

    What is no `Exception`, such as a panic of a library in Rust, is raised as a RuntimeError, which callers handle.
    """
    events: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def run() -> None:
        try:
            for item in generate():
                events.put(("item", item))
            events.put(("end", None))
        except BaseException as error:  # noqa: BLE001  raised again in the caller's thread, which waits for it
            events.put(("error", error))

    thread = Thread(target=run, name="question", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = events.get()
            if kind == "end":
                return
            if kind == "error":
                raise value if isinstance(value, Exception) else RuntimeError(repr(value)) from value
            yield value
    finally:
        stop.set()
        thread.join()
