"""A generator in its own thread behaves as in the caller's thread."""

from threading import Event, Thread, current_thread

import pytest

from engine.scheduler.worker_thread import run_in_thread


def test_items_arrive_in_order_from_one_other_thread():
    names = list(run_in_thread(lambda: (current_thread().name for _ in range(5)), Event()))
    assert names == ["question"] * 5


def test_an_error_is_raised_in_the_callers_thread():
    def broken():
        yield 1
        raise ValueError("two")

    items = run_in_thread(broken, Event())
    assert next(items) == 1
    with pytest.raises(ValueError, match="two"):
        next(items)


@pytest.mark.parametrize("panic", [SystemExit, type("PanicException", (BaseException,), {})])
def test_what_is_no_exception_does_not_leave_the_caller_waiting(panic):
    def broken():
        yield 1
        raise panic("index out of bounds")

    found = []

    def consume():
        try:
            list(run_in_thread(broken, Event()))
        except RuntimeError as error:
            found.append(error)

    caller = Thread(target=consume, daemon=True)  # a test that fails does not wait for it either
    caller.start()
    caller.join(timeout=10)
    assert len(found) == 1 and "index out of bounds" in str(found[0])


def test_leaving_early_stops_the_generator_and_waits_for_it():
    stop, ended = Event(), []

    def endless():
        while not stop.wait(0.001):
            yield 1
        ended.append(True)

    items = run_in_thread(endless, stop)
    next(items)
    items.close()
    assert ended == [True]
