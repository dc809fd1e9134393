"""Documents take turns step by step; few run at a time, and no session waits for another's many files."""

from contextlib import suppress
from threading import Event, Thread
from time import monotonic, sleep

from backend.runtime import ingest_queue
from backend.runtime.ingest_queue import MAX_RUNNING, MAX_WITH_NEW_SESSIONS, IngestQueue, TimeLimit
from engine.errors import Cancelled


def until(is_reached):
    end = monotonic() + 30
    while not is_reached():
        assert monotonic() < end
        sleep(0.001)


class Documents:
    """Documents in threads: each is its session's name and a number, and runs until it is ended."""

    def __init__(self, queue):
        self.queue = queue
        self.running, self.stopped = [], []
        self._ends, self._cancels = {}, {}

    def add(self, *names):
        for name in names:
            self._ends[name], self._cancels[name] = Event(), Event()
            arrived = len(self.queue._waiting) + len(self.running)
            Thread(target=self._run, args=[name], daemon=True).start()
            until(lambda: len(self.queue._waiting) + len(self.running) > arrived)  # noqa: B023

    def end(self, *names):
        for name in names:
            self._ends[name].set()
            until(lambda: name not in self.running)  # noqa: B023

    def cancel(self, name):
        self._cancels[name].set()
        until(lambda: name in self.stopped)

    def _run(self, name):
        try:
            with self.queue.slot(name[0], self._cancels[name]):
                self.running.append(name)
                self._ends[name].wait(30)
                self.running.remove(name)
        except Cancelled:
            self.stopped.append(name)


def test_a_session_with_many_files_leaves_the_others_free_and_waiting_ones_start_in_turn():
    queue = IngestQueue()
    documents = Documents(queue)
    documents.add("a1", "a2", "a3", "a4", "a5", "a6")
    assert documents.running == ["a1", "a2", "a3", "a4"] and len(documents.running) == MAX_RUNNING
    documents.add("b1")
    until(lambda: documents.running[-1] == "b1")
    documents.add("b2", "b3")
    documents.cancel("b2")
    documents.end("a1", "a2")
    until(lambda: len(documents.running) == MAX_RUNNING)
    assert documents.running == ["a3", "a4", "b1", "b3"]
    documents.end("b1")
    until(lambda: len(documents.running) == MAX_RUNNING)
    assert documents.running == ["a3", "a4", "b3", "a5"]
    documents.add("c1", "d1", "e1", "f1", "g1")
    until(lambda: len(documents.running) == MAX_WITH_NEW_SESSIONS)
    assert "g1" not in documents.running
    documents.end("a3")
    until(lambda: "g1" in documents.running)
    documents.end(*documents.running, "a6")
    assert not queue._waiting and not queue._running and documents.stopped == ["b2"]


def test_steps_are_computed_one_at_a_time_in_the_order_in_which_they_came():
    queue, order = IngestQueue(), []
    cancels = {name: Event() for name in "abcd"}

    def compute(name):
        with suppress(Cancelled), queue.turn(cancels[name]):
            order.append(name)

    with queue.turn(Event()):
        threads = []
        for count, name in enumerate("abcd", start=1):
            threads.append(Thread(target=compute, args=[name], daemon=True))
            threads[-1].start()
            until(lambda: len(queue._steps) == 1 + count)  # noqa: B023
        cancels["b"].set()
        until(lambda: len(queue._steps) == 4)
        assert order == []
    for thread in threads:
        thread.join(30)
    assert order == ["a", "c", "d"] and not queue._steps


def test_a_time_limit_is_set_after_its_time_and_with_its_event(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(ingest_queue, "monotonic", lambda: now[0])
    cancel = Event()
    limit, endless = TimeLimit(cancel, 60.0), TimeLimit(cancel, float("inf"))
    now[0] += 60
    assert not limit.is_set()
    now[0] += 1
    assert limit.is_set() and not endless.is_set()
    cancel.set()
    assert endless.is_set()
