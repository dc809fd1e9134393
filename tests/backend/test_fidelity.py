"""The loaded model is calibrated in idle time, and gives way to any task."""

from threading import Event
from time import monotonic, sleep

import pytest

from backend.runtime.tasks import TaskRegistry
from backend.services import fidelity
from engine.analysis import calibration
from engine.fidelity import RATIOS, FidelitySample
from engine.request import Request
from tests.support.doubles import last


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Shorten the idle time before a calibration."""
    monkeypatch.setattr(fidelity, "POLL_S", 0.01)
    monkeypatch.setattr(fidelity, "IDLE_S", 0.05)


def samples():
    return [FidelitySample(ratio, 0.2 - ratio / 4, 0.9, 20.0, 80.0) for ratio in RATIOS]


def quickly(engine, measured, cancel):
    """Replaces `calibrate`: one question every millisecond."""
    for question in measured.remaining:
        if cancel.wait(0.001):
            return
        measured.add(question, samples())
        yield measured


def wait_until(condition):
    end = monotonic() + 30
    while not condition():
        assert monotonic() < end
        sleep(0.01)


def test_work_in_idle_time_is_cancelled_by_any_task_that_starts():
    tasks, idle, other = TaskRegistry(), Event(), Event()
    with tasks.track_idle_work(idle):
        assert not idle.is_set()
        with tasks.track(other):
            assert idle.is_set() and not other.is_set()


def test_work_in_idle_time_does_not_start_beside_a_task():
    tasks, idle = TaskRegistry(), Event()
    with tasks.track(Event()), tasks.track_idle_work(idle):
        assert idle.is_set()


def test_only_running_tasks_end_the_idle_time():
    tasks = TaskRegistry()
    sleep(0.02)
    assert tasks.idle_seconds() >= 0.02
    with tasks.track(Event()):
        assert tasks.idle_seconds() == 0.0
    assert tasks.idle_seconds() < 0.02


def test_brief_calls_such_as_a_pages_polling_do_not_keep_a_calibration_from_running():
    tasks, idle = TaskRegistry(), Event()
    sleep(0.02)
    with tasks.track(Event(), is_brief=True):
        assert tasks.idle_seconds() >= 0.02
        with tasks.track_idle_work(idle), tasks.track(Event(), is_brief=True):
            assert not idle.is_set()


def test_an_idle_backend_calibrates_its_model_once_and_remembers_it(start, monkeypatch):
    monkeypatch.setattr(fidelity, "calibrate", quickly)
    backend = start(idle_calibration=True)
    total = backend.models.fidelity().total
    wait_until(lambda: (curve := backend.loader.runtime.engine.fidelity) and curve.num_questions == total)
    curve = backend.models.fidelity().curve
    assert curve == backend.loader.runtime.engine.fidelity
    backend = start(idle_calibration=False)
    last(backend.ask(Request("When does it sail?", max_new_tokens=2), Event()))
    assert backend.loader.runtime.engine.fidelity == curve  # from the first question on
    assert backend.models.fidelity().curve == curve and not backend.models.fidelity().is_enabled


def test_another_model_is_not_calibrated_yet(start, models, monkeypatch):
    monkeypatch.setattr(fidelity, "calibrate", quickly)
    backend = start(idle_calibration=True)
    wait_until(lambda: backend.models.fidelity().curve is not None)
    other = start(model=models["two"], idle_calibration=False)
    status = other.models.fidelity()
    assert status.curve is None and status.measured == 0 < status.total


def test_a_failure_is_shown_and_not_repeated(start, monkeypatch):
    calls = []

    def fail(*arguments):
        calls.append(arguments)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(fidelity, "calibrate", fail)
    backend = start(idle_calibration=True)
    wait_until(lambda: backend.models.fidelity().error)
    assert "out of memory" in backend.models.fidelity().error
    sleep(0.2)
    assert len(calls) == 1


def test_a_question_is_answered_during_a_calibration_which_then_continues(start, monkeypatch):
    monkeypatch.setattr(calibration, "ANSWER_TOKENS", 2)
    backend = start(idle_calibration=True)
    wait_until(lambda: backend.models.fidelity().measured >= 1)
    measured = backend.models.fidelity().measured
    assert last(backend.ask(Request("When does it sail?", max_new_tokens=2), Event())).state == "done"
    wait_until(lambda: backend.models.fidelity().measured > measured)
    assert not backend.models.fidelity().error
