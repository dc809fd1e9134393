"""Event handlers without a browser or a model: pacing, cancellation, errors, and what becomes a request."""

import json
import logging
from dataclasses import replace
from threading import Event
from types import SimpleNamespace

import gradio as gr
import pytest

from backend.interface.backend import Status
from backend.interface.errors import user_message
from engine.errors import QuestionTooLong
from engine.request import Answer, Request
from engine.trace import Trace
from store.types import Document
from tests.support.fake_backend.backend import METHODS
from tests.ui.conftest import ME
from ui import format as formats
from ui.components.method_options import extra_params
from ui.events import MODEL_QUEUE, SessionTasks, coalesce
from ui.layout import launch_options
from ui.pages.ask.chat import Chat
from ui.pages.ask.page import _time_left
from ui.pages.ask.results import render_answer

DEFAULTS = [param.default for method in METHODS for param in extra_params(method)]


class Clock:
    """Advances by ten milliseconds with each call."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.01
        return self.now


@pytest.fixture
def page(app):
    return app.ask


@pytest.fixture
def chat(page):
    """A chat with one answered question."""
    *_, ended = ask(page, "why?")
    return ended[page.chat]


def ask(page, question, method="full", chat=None, replaces_last=False):
    """Click Ask and stream the answer, with the composer's inputs as on a fresh page."""
    pending = page.acknowledge(question, ME)[page.pending_question]
    return stream(page, pending, method, chat, replaces_last)


def stream(page, pending, method="full", chat=None, replaces_last=False):
    values = [method, 6, 20, 0, 64, False, [], False, *DEFAULTS]
    return page.respond(pending, chat or Chat(), replaces_last, ME, *values)


def test_updates_are_rate_limited_except_milestones_and_the_last_one():
    states = ["a"] * 50 + ["b"] + ["c"] * 49
    snapshots = list(enumerate(states))
    shown = list(coalesce(snapshots, lambda s: s[1], interval_s=0.1, clock=Clock()))
    assert {state for _, state in shown} == {"a", "b", "c"}
    assert shown[0] == snapshots[0] and shown[-1] == snapshots[-1]
    assert len(shown) < 20


def test_coalescing_yields_nothing_for_nothing_and_nothing_twice():
    assert list(coalesce([], lambda s: s)) == []
    assert list(coalesce([1, 1, 1], lambda s: s, interval_s=0)) == [1, 1, 1]
    assert list(coalesce([1, 1, 1], lambda s: s, interval_s=9)) == [1, 1]


def test_stop_cancels_only_its_own_session():
    tasks = SessionTasks()
    mine, yours = (tasks.start(each) for each in ("me", "you"))
    tasks.stop(ME)
    tasks.stop(SimpleNamespace(session_hash="unknown"))
    assert mine.is_set() and not yours.is_set()


def test_a_session_runs_one_task_at_a_time():
    tasks = SessionTasks()
    first = tasks.start("me")
    assert tasks.start("me") is None and tasks.is_busy("me") and not first.is_set()
    tasks.finish("me", first)
    assert first.is_set() and not tasks.is_busy("me") and len(tasks) == 0


def test_a_closed_tab_is_discarded_and_its_old_task_ends_without_effect():
    tasks = SessionTasks()
    old = tasks.start("me")
    tasks.discard("me")
    tasks.discard("unknown")
    assert len(tasks) == 0 and old.is_set()
    new = tasks.start("me")
    tasks.finish("me", old)
    assert tasks.is_busy("me") and not new.is_set()


def test_closing_a_tab_discards_its_tasks_on_every_page_and_its_copy_of_the_components(app):
    (unload,) = (fn for fn in app.blocks.fns.values() if fn.name == "close_session")
    cancel = app.ask.tasks.start(ME.session_hash)
    session = app.blocks.state_holder[ME.session_hash]
    assert len(session.config_values) > 100
    unload.fn(ME)
    assert len(app.ask.tasks) == 0 and cancel.is_set() and not session.config_values


def test_a_user_error_is_shown_and_not_logged_and_a_bug_is_both(caplog):
    assert user_message(QuestionTooLong("It has 5,000 words.")).startswith("It has 5,000 words. Shorten the question")
    assert not caplog.records
    with caplog.at_level(logging.ERROR):
        message = user_message(ValueError("<object at 0x7f00>"))
    assert message == "Something went wrong (ValueError). See the log for details."
    assert caplog.records[0].exc_info


def test_these_endpoints_are_public_and_all_others_hidden(app):
    public = {fn.api_name for fn in app.blocks.fns.values() if fn.api_visibility == "public"}
    documents = {f"{act}_document" for act in ("add", "delete", "rename", "reindex")} | {"list_documents"}
    assert public == {"ask", "inspect", "compare", "list_methods"} | documents
    questions = [fn for fn in app.blocks.fns.values() if fn.name in ("respond", "ask")]
    assert {fn.concurrency_id for fn in questions} == {MODEL_QUEUE["concurrency_id"]}


def test_launch_options_contain_no_address():
    options = launch_options()
    assert "http" not in options["head"] and "http" not in options["css_paths"][0].read_text()
    assert options["run_history"] is False


def test_inputs_become_a_request(page, backend):
    values = ["epic", 4, 35, 0.5, 64, True, ["d" * 64], True, *DEFAULTS]
    page.acknowledge("  why?\n", ME)
    list(page.respond("  why?\n", Chat(), False, ME, *values))
    (request,) = backend.requests
    assert (request.question, request.passages, request.max_new_tokens) == ("why?", 4, 64)
    assert (request.recompute_ratio, request.temperature) == (0.35, 0.5)
    assert (request.documents, request.whole_document, request.draft) == (("d" * 64,), True, True)
    assert request.options == {"tokens": 32}


def test_closing_the_stream_early_cancels_the_request_and_ends_the_task(page, backend):
    answers = ask(page, "why?", "cacheclip")
    for _ in range(3):
        next(answers)
    answers.close()
    assert len(backend.requests) == 1
    assert len(page.tasks) == 0


@pytest.mark.parametrize("question", ["", " \n "])
def test_an_empty_question_never_reaches_the_engine_and_keeps_the_last_answer(page, backend, question):
    update = page.acknowledge(question, ME)
    assert update.pop(page.pending_question) == ""
    ((component, message),) = update.items()
    assert "Type a question first" in message and component is page.composer.message
    assert list(stream(page, "")) == [gr.skip()]
    assert backend.requests == [] and len(page.tasks) == 0


def test_enter_while_an_answer_runs_neither_cancels_it_nor_asks_again(page, backend):
    answers = ask(page, "why?")
    next(answers)
    for question in ("why?", "and then?", ""):
        assert page.acknowledge(question, ME) == gr.skip()
    assert list(stream(page, "why?")) == [gr.skip()]
    list(answers)
    assert [request.question for request in backend.requests] == ["why?"] and backend.cancelled == [False]
    assert len(page.tasks) == 0


def test_enter_while_a_question_waits_for_the_model_keeps_it(page, backend):
    pending = page.acknowledge("why?", ME)[page.pending_question]
    assert page.acknowledge("why?", ME) == gr.skip()
    first, second = stream(page, pending), stream(page, pending)
    *_, ended = first
    assert list(second) == [gr.skip()] and ended[page.chat].turns[-1].text
    assert [request.question for request in backend.requests] == ["why?"] and len(page.tasks) == 0


def test_stop_before_the_model_is_free_ends_the_task_without_an_answer(page, backend):
    pending = page.acknowledge("why?", ME)[page.pending_question]
    page.tasks.stop(ME)
    *_, ended = stream(page, pending)
    assert page.chat not in ended or not ended[page.chat].turns[-1].text
    assert ended[page.composer.buttons.run].visible and len(page.tasks) == 0


def test_a_complete_answer_clears_its_question_from_the_box_and_a_stopped_one_does_not(page):
    *_, ended = ask(page, " why?\n")
    assert json.loads(ended[page.carrier])["answered"] == " why?\n" and page.composer.question not in ended
    answers = ask(page, "and then?")
    next(answers)
    page.tasks.stop(ME)
    *_, ended = answers
    assert json.loads(ended[page.carrier])["answered"] is None


def test_the_session_is_free_again_before_the_page_shows_that_the_answer_has_ended(page):
    ended = next(update for update in ask(page, "why?") if page.carrier in update)
    assert ended and "and then?" in page.acknowledge("and then?", ME)[page.results.reply]


def test_retry_asks_the_last_question_again_and_keeps_the_text_in_the_box(page, chat):
    begun = page.retry(chat, ME)
    assert begun[page.pending_question] == "why?" and begun[page.replaces_last]
    assert "why?" in begun[page.results.reply] and begun[page.composer.buttons.stop].visible
    assert page.retry(chat, ME) == gr.skip()
    *_, ended = stream(page, "why?", chat=chat, replaces_last=True)
    assert page.composer.question not in begun | ended
    assert [turn.replaced for turn in ended[page.chat].turns] == [True, False]
    assert page.retry(Chat(), ME) == {page.pending_question: ""}
    assert page.edit(chat)[page.composer.question] == "why?" and page.edit(Chat()) == gr.skip()


def test_an_answer_is_saved_as_a_document(app, page, backend, chat):
    updates = list(page.save(chat, ME))
    (document,) = backend.documents()
    assert document.name.endswith("why?.md") and document.name.startswith("Answer")
    assert "why?.md" in updates[-2][app.documents.document_list]
    list(page.save(replace(chat, turns=(replace(chat.turns[-1], question="How many km/h?"),)), ME))
    assert [each.name for each in backend.documents()] == ["Answer: How many km-h?.md", document.name]
    backend.stored_documents = [document]
    unfinished = [replace(chat.turns[-1], **change) for change in ({"stopped": True}, {"unverified": True})]
    for other in (Chat(), *(replace(chat, turns=(turn,)) for turn in unfinished)):
        assert list(page.save(other, ME)) == [gr.skip()]
    assert len(backend.documents()) == 1


@pytest.mark.parametrize(("state", "text", "expected"), [("done", "Ada.", 1), ("stopped", "Ad", 0), ("done", "", 0)])
def test_only_whole_answers_have_a_button_to_save_them(state, text, expected):
    html = render_answer(Answer(Request("why?"), Trace(), state=state, text=text))
    assert html.count('data-act="upload"') == expected


def test_an_error_keeps_the_answer_it_would_have_replaced_and_later_answers_replace_nothing(page, backend, chat):
    backend.error = QuestionTooLong("It has 5,000 words.")
    *_, ended = ask(page, "why?", chat=chat, replaces_last=True)
    assert ended[page.replaces_last] is False and page.chat not in ended
    assert "5730264" in ended[page.results.thread] and "5,000 words" in ended[page.results.reply]


def test_an_answer_stopped_before_its_first_word_replaces_none(page, chat):
    answers = ask(page, "why?", chat=chat, replaces_last=True)
    next(answers)
    page.tasks.stop(ME)
    *_, ended = answers
    assert ended[page.replaces_last] is False and page.chat not in ended
    assert "5730264" in ended[page.results.thread] and "nothing was added to the chat" in ended[page.results.reply]
    answers = ask(page, "and then?", chat=chat)
    next(answers)
    page.tasks.stop(ME)
    *_, ended = answers
    assert [turn.question for turn in ended[page.chat].visible_turns] == ["why?", "and then?"]


def test_each_method_is_sent_only_its_own_options(page, backend):
    for method in METHODS:
        list(ask(page, "why?", method.name))
    sent = [request.options for request in backend.requests]
    assert sent == [{param.name: param.default for param in extra_params(method)} for method in METHODS]


def test_the_status_timer_sends_only_changes_and_keeps_a_list_that_waits_for_a_confirmation(app, backend):
    tick = app.documents.tick
    components = tick(("", ""), "")
    first = next(value for value in components.values() if isinstance(value, tuple))
    assert len(components) == 4 and len(tick(first, "")) == 1
    backend.stored_documents = [Document("a" * 64, "a.txt", 1, None, 1, 0.0)]
    assert len(tick(first, "a" * 64)) == 1
    assert any("a.txt" in str(value) for value in tick(first, "").values())


def test_a_cancelled_upload_adds_nothing(backend, tmp_path):
    cancel = Event()
    (tmp_path / "a.txt").write_text("text")
    cancel.set()
    *_, ended = backend.ingest([(tmp_path / "a.txt", "a.txt")], cancel)
    assert ended[0].stage == "failed" and backend.documents() == []


def test_numbers_have_units_and_few_digits():
    texts = [formats.duration(386.4), formats.duration(1240), formats.percent(0.1818, 1), formats.size(1_204_113)]
    assert [text.replace("\u00a0", " ") for text in texts] == ["386 ms", "1.24 s", "18.2 %", "1.1 MiB"]
    assert formats.duration(None) == formats.UNKNOWN
    assert formats.duration(0.04) == "<1\u00a0ms" and formats.duration(0) == "0\u00a0ms"
    assert [formats.size(n).replace("\u00a0", " ") for n in (0, 1023, 2**10, 2**20 - 1, 2**20, 2**30 - 1, 2**30)] == [
        *("0 B", "1023 B", "1 KiB", "1.0 MiB", "1.0 MiB", "1.00 GiB", "1.00 GiB")
    ]
    assert formats.short("one\ntwo three", 9) == "one two…"


def test_model_events_run_even_while_the_browser_still_handles_the_previous_one(app):
    events = [fn for fn in app.blocks.fns.values() if fn.concurrency_id == MODEL_QUEUE["concurrency_id"]]
    modes = {fn.name: fn.trigger_mode for fn in events if fn.api_visibility == "private"}
    assert modes.keys() >= {"respond", "run", "run_inspection", "answer"} and set(modes.values()) == {"multiple"}
    modes = {fn.name: fn.trigger_mode for fn in app.blocks.fns.values() if fn.name in ("add", "add_page", "save")}
    assert len(modes) == 3 and set(modes.values()) == {"multiple"}


def test_a_question_waits_while_the_model_is_loading_and_is_then_answered(page, monkeypatch):
    monkeypatch.setattr("ui.pages.ask.page.LOADING_POLL_S", 0)
    page._backend.state = Status(ready=False, message="Loading the main model")
    updates = ask(page, "why?")
    for update in updates:
        if "Loading the main model" in str(update.get(page.results.reply)):
            break
    assert page._backend.requests == []
    page._backend.state = Status(ready=True, message="tiny")
    *_, ended = updates
    assert ended[page.chat].visible_turns[-1].question == "why?"


@pytest.mark.parametrize("status", [Status(ready=False, message="Loading"), Status(True, "tiny", adding_samples=True)])
def test_a_waiting_question_can_be_stopped(page, monkeypatch, status):
    monkeypatch.setattr("ui.pages.ask.page.LOADING_POLL_S", 0)
    monkeypatch.setattr(page._backend, "documents", lambda: [])
    page._backend.state = status
    updates = ask(page, "why?")
    for _ in range(4):
        next(updates)
    page.tasks.stop(ME)
    assert len(list(updates)) > 0 and len(page.tasks) == 0
    assert [request.question for request in page._backend.requests] == (["why?"] if status.ready else [])


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ([], ""),
        ([(10.0, 0.5)], ""),
        ([(10.0, 0.5), (14.0, 0.5)], ""),
        ([(10.0, 0.5), (14.0, 0.9)], " (about 1 s left)"),
        ([(10.0, 0.0), (12.0, 0.1), (20.0, 0.2)], " (about 40 s left)"),
        ([(0.0, 0.0), (60.0, 0.1)], " (about 9 min left)"),
        ([(0.0, 0.2), (6.0, 1.0)], " (about 0 s left)"),
    ],
)
def test_the_time_that_loading_still_takes_is_estimated_from_its_progress(seen, text):
    assert _time_left(seen) == text


def test_a_waiting_question_learns_that_loading_failed(page, monkeypatch):
    monkeypatch.setattr("ui.pages.ask.page.LOADING_POLL_S", 0)
    page._backend.state = Status(ready=False, message="The model is still loading")
    updates = ask(page, "why?")
    for _ in range(3):
        next(updates)
    page._backend.state = Status(ready=False, failed=True, message="no model")
    *_, ended = updates
    assert "still loading" in ended[page.results.reply]  # the fake backend's refusal
