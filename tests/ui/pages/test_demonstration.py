"""The first screen: what it claims follows from the runs, and a live run replaces the recording or leaves it."""

import time
from dataclasses import replace

import pytest

from store.errors import KVScopeError
from store.types import Document
from tests.ui.conftest import ME
from ui.layout import App
from ui.pages.ask.demonstration import Lane, headline, read_recording, render

FULL, REUSE = Lane(9000.0, "20 pounds [1]", 6000), Lane(3000.0, "20 pounds [1]", 1200)


@pytest.fixture
def recording():
    return replace(read_recording(), lanes=(FULL, REUSE))


@pytest.fixture
def backend(backend):
    backend.comparison.pace_s = 0
    backend.stored_documents = [Document("1" * 64, "one.txt", 10, None, 8, time.time())]
    return backend


@pytest.fixture
def demonstration(app, backend):
    return app.ask.demonstration


def screens(demonstration):
    """Return what the panel shows after each update of a live run."""
    updates = list(demonstration.run(ME))
    assert not demonstration.tasks.is_busy("me")
    return [update[demonstration._html] for update in updates if demonstration._html in update]


@pytest.mark.parametrize(
    ("reuse", "said"),
    [
        (REUSE, "Same answer, 3.0\u00d7 sooner"),
        (replace(REUSE, answer="20  pounds [1]"), "Same answer, 3.0\u00d7 sooner"),
        (replace(REUSE, answer="20 euros [1]"), "A different answer, 3.0\u00d7 sooner"),
        (replace(REUSE, ttft_ms=8900.0), "Not faster in this run"),
        (Lane(is_running=True), "Running both on this machine"),
    ],
)
def test_the_headline_says_what_the_two_runs_show(recording, reuse, said):
    assert headline(replace(recording, lanes=(FULL, reuse))) == said


def test_the_bundled_recording_shows_the_same_answer_sooner_with_its_machine_and_date():
    recording = read_recording()
    assert recording.is_same and recording.gain > 2
    assert any(recomputed for _, recomputed in recording.marked) and not all(each for _, each in recording.marked)
    assert recording.lanes[1].recomputed_tokens < 0.25 * recording.lanes[0].recomputed_tokens
    shown = render(recording)
    assert recording.source in shown and "Same words in both answers" in shown and recording.source.startswith("Rec")


def test_texts_are_data(recording):
    hostile = replace(REUSE, answer="<img src=x onerror=alert(1)>")
    shown = render(replace(recording, lanes=(FULL, hostile), question="<b>", marked=(("<i>", True),)))
    assert "<img" not in shown and "<b>" not in shown and "<i>" not in shown


def test_a_live_run_fills_the_lanes_in_turn_and_says_that_it_ran_here(demonstration, backend):
    waiting, *_, last = shown = screens(demonstration)
    (request,) = backend.comparison.requests
    assert request.documents == ("1" * 64,) and request.ratios == (0.2,) and request.methods == ("cacheclip",)
    assert "Waiting for the model" in waiting and "sooner" not in waiting
    assert any("data-running" in each and "1.24" in each for each in shown)  # CacheClip runs, full prefill has ended
    assert "Same answer, 3.0\u00d7 sooner" in last and "on this machine, just now" in last
    assert "Recorded" not in last


def test_the_recording_comes_back_if_a_live_run_fails_is_stopped_or_lacks_the_samples(demonstration, backend):
    backend.comparison.error = KVScopeError("The disk is full.")
    *_, failed = screens(demonstration)
    backend.comparison.error = None
    cancelling = demonstration.run(ME)
    next(cancelling)
    demonstration.tasks.stop(ME)
    stopped = [each[demonstration._html] for each in cancelling if demonstration._html in each][-1]
    backend.stored_documents = []
    *_, deleted = screens(demonstration)
    backend.state = replace(backend.state, ready=False, failed=True, message="There is no model.")
    *_, unloaded = screens(demonstration)
    messages = {"The disk is full.": failed, "Stopped.": stopped, "were deleted or renamed": deleted}
    messages["There is no model."] = unloaded
    for message, shown in messages.items():
        assert "Recorded" in shown and message in shown


def test_a_live_run_waits_until_the_samples_have_been_added(demonstration, backend):
    sample, backend.stored_documents = backend.stored_documents, []
    backend.state = replace(backend.state, message="Adding the samples", adding_samples=True)
    running = demonstration.run(ME)
    next(running)
    assert "First: Adding the samples" in next(running)[demonstration._html] and not backend.comparison.requests
    backend.state, backend.stored_documents = replace(backend.state, adding_samples=False), sample
    *_, last, _ = running
    assert "just now" in last[demonstration._html]
    assert backend.comparison.requests[-1].documents == (sample[0].id,)


def test_a_question_stops_a_live_run_whose_screen_it_hides(app, demonstration, backend):
    running = demonstration.run(ME)
    next(running)
    app.ask.acknowledge("why?", ME)
    assert not demonstration.tasks.is_busy("me")
    stopped = [update[demonstration._html] for update in running if demonstration._html in update]
    assert "Stopped." in stopped[-1] and backend.comparison.requests == []


def test_without_samples_there_is_no_live_run(backend):
    assert not App(backend).ask.demonstration._live.visible


def test_a_second_click_starts_nothing(demonstration, backend):
    first = demonstration.run(ME)
    next(first)
    assert len(list(demonstration.run(ME))) == 1
    first.close()
    assert not demonstration.tasks.is_busy("me") and backend.comparison.requests == []
