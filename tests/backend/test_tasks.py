"""Ingestion gives way to questions, but not forever."""

from threading import Event, Timer
from time import monotonic

from backend.runtime.tasks import TaskRegistry


def test_work_between_questions_is_interrupted_by_the_next_one_and_by_its_own_cancel():
    tasks, cancel = TaskRegistry(), Event()
    with tasks.between_questions(cancel) as interrupt:
        assert not interrupt.is_set()
        with tasks.track(Event()):
            assert not interrupt.is_set()  # other ingestion
        with tasks.track_question(Event()):
            assert interrupt.is_set() and not cancel.is_set()
    with tasks.between_questions(cancel) as interrupt:
        assert not interrupt.is_set()
        cancel.set()
        assert interrupt.is_set()


def test_it_waits_for_the_end_of_a_running_question():
    tasks, ended = TaskRegistry(), Event()
    question = tasks.track_question(Event())

    def end():
        ended.set()
        question.__exit__(None, None, None)

    question.__enter__()
    timer = Timer(0.1, end)
    timer.start()
    with tasks.between_questions(Event(), 60.0) as interrupt:
        assert ended.is_set() and not interrupt.is_set()
    timer.join()


def test_after_its_longest_wait_it_runs_beside_questions():
    tasks, cancel, began = TaskRegistry(), Event(), monotonic()
    with tasks.track_question(Event()), tasks.between_questions(cancel, 0.05) as interrupt:
        assert monotonic() - began >= 0.05
        with tasks.track_question(Event()):
            assert not interrupt.is_set()
        cancel.set()
        assert interrupt.is_set()
    with tasks.between_questions(Event(), -1.0) as interrupt, tasks.track_question(Event()):
        assert not interrupt.is_set()
