"""A draft on the Ask page: shown until it is verified, then compared with the answer; kept if it was stopped."""

import pytest

from engine.request import Answer, Request
from engine.trace import Stage, Trace
from tests.support.fake_backend.backend import METHODS
from tests.ui.conftest import ME
from ui.components.method_options import extra_params
from ui.pages.ask.chat import Chat, Turn
from ui.pages.ask.results import render_answer, render_error

HOSTILE = "<script>alert(1)</script>"
SETTINGS = ["full", 6, 20, 0, 64, True, [], False, *(p.default for method in METHODS for p in extra_params(method))]


@pytest.fixture
def page(app):
    return app.ask


def updates(page, draft, backend):
    backend.draft = draft
    page.acknowledge("why?", ME)
    return list(page.respond("why?", Chat(), False, ME, *SETTINGS))


def test_the_draft_is_shown_until_the_verified_answer_replaces_it(page, backend):
    shown = [str(update[page.results.reply]) for update in updates(page, f"The code is {HOSTILE} [1].", backend)]
    drafted = [reply for reply in shown if "kv-draft" in reply and "details" not in reply]
    assert drafted and all("&lt;script&gt;" in reply and 'aria_busy="false"' not in reply for reply in drafted)
    assert 'data-rank="1"' in drafted[0] and "not verified" in drafted[0]
    assert not [reply for reply in shown if HOSTILE in reply]
    verified = [reply.partition("<details")[0] for reply in shown if "5730264" in reply]
    assert verified and not [reply for reply in verified if "kv-draft" in reply]


def test_what_the_verification_changed_is_marked(page, backend):
    *_, ended = updates(page, backend.answer.replace("5730264", HOSTILE), backend)
    reply = str(ended[page.results.reply])
    answer, _, draft = reply.partition("<details>")
    assert "5730264" in answer and "kv-verdict-low" in answer
    assert 'title="Answer: 5730264"' in draft and draft.count("<mark") == 1 and HOSTILE not in draft
    assert ended[page.chat].turns[-1].text == backend.answer
    assert "58\xa0ms" in str(ended[page.results.metrics])


def test_an_unchanged_draft_is_not_shown_again(page, backend):
    *_, ended = updates(page, backend.answer, backend)
    reply = str(ended[page.results.reply])
    assert "kv-verdict-high" in reply and "kv-draft" not in reply and "<details" not in reply


def test_a_stopped_draft_stays_and_is_called_unverified_in_the_chat_too(page, backend):
    backend.draft, backend.pause_after_words = "At nine.", 0
    page.acknowledge("why?", ME)
    answers = page.respond("why?", Chat(), False, ME, *SETTINGS)
    for update in answers:
        if "At nine." in str(update.get(page.results.reply)):
            page.tasks.stop(ME)
        ended = update
    reply = str(ended[page.results.reply])
    assert "kv-draft" in reply and "kv-verdict-low" in reply
    (turn,) = ended[page.chat].turns
    assert (turn.text, turn.stopped, turn.unverified) == ("At nine.", True, True)
    assert "unverified draft" in turn.summary


def test_a_rejected_draft_is_not_shown_in_place_of_an_empty_answer(page, backend):
    draft = Answer(Request("why?"), Trace(ttft_ms=5.0), text="At nine.")
    answer = Answer(Request("why?"), Trace(ttft_ms=9.0), state="done", draft=draft)
    shown, _, details = str(render_answer(answer)).partition("<details")
    assert "At nine." not in shown and "At nine." in details


def test_an_error_before_verification_leaves_the_draft_marked_as_one():
    draft = Answer(Request("why?"), Trace(ttft_ms=5.0), text=f"At {HOSTILE}")
    reply = str(render_error("why?", "The disk is full.", Answer(Request("why?"), Trace(), draft=draft)))
    assert "kv-draft" in reply and "&lt;script&gt;" in reply and HOSTILE not in reply and "The disk is full." in reply


def test_a_full_prefill_after_a_draft_is_no_baseline_of_time(backend):
    trace = Trace(stages=[Stage("draft", 0.0, 5.0), Stage("prefill", 5.0, 20.0)], ttft_ms=26.0)
    answer = Answer(Request("why?", "full"), trace, state="done", text="At nine.")
    method = next(each for each in METHODS if each.name == "full")
    assert not Turn.from_answer(answer, method).whole
    del trace.stages[0]
    assert Turn.from_answer(answer, method).whole


def test_without_a_draft_nothing_is_said_about_one(page, backend):
    for update in updates(page, "", backend):
        assert "draft" not in str(update.get(page.results.reply)).lower()
