"""What happens between the click and the screen: pacing, stopping, errors, events; no browser, no model."""

import logging
from threading import Event
from types import SimpleNamespace

import gradio as gr
import pytest

from backend.interface.backend import Status
from backend.interface.errors import user_message
from engine.errors import QuestionTooLong
from store.types import Document
from tests.support.fake_backend.backend import METHODS, FakeBackend
from ui import format as words
from ui.cancellation import SessionTasks
from ui.components.method_options import own
from ui.events import MODEL
from ui.layout import build, launch_options
from ui.pages.ask.chats.chat import Chat
from ui.throttle import coalesce


class Clock:
    """Ten milliseconds pass at each look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.01
        return self.now


DEFAULTS = [setting.default for method in METHODS for setting in own(method)]
ME = SimpleNamespace(session_hash="me")


def asked(respond, question, method="full", chat=None, replacing=False):
    """Begin and ask with the composer's inputs as a fresh page has them."""
    respond.__self__.begin(question, ME)
    values = [method, 6, 20, 0, 64, [], False, *DEFAULTS]
    return respond(question, chat or Chat.new(), replacing, ME, *values)


def events_of(page: gr.Blocks) -> dict:
    return {block.name: block for block in page.fns.values()}


def test_updates_are_paced_but_milestones_and_the_last_one_always_come():
    states = ["a"] * 50 + ["b"] + ["c"] * 49
    snapshots = list(enumerate(states))
    shown = list(coalesce(snapshots, lambda s: s[1], pause_s=0.1, clock=Clock()))
    assert {state for _, state in shown} == {"a", "b", "c"}
    assert shown[0] == snapshots[0] and shown[-1] == snapshots[-1]
    assert len(shown) < 20


def test_nothing_comes_out_of_nothing_and_nothing_twice():
    assert list(coalesce([], lambda s: s)) == []
    assert list(coalesce([1, 1, 1], lambda s: s, pause_s=0)) == [1, 1, 1]
    assert list(coalesce([1, 1, 1], lambda s: s, pause_s=9)) == [1, 1]


def test_stop_reaches_its_own_session_only():
    stops = SessionTasks()
    mine, yours = (stops.start(each) and stops.take(each) for each in ("me", "you"))
    stops.stop("me")
    stops.stop("nobody")
    assert mine.is_set() and not yours.is_set()


def test_a_session_starts_one_thing_at_a_time_which_is_taken_up_once():
    stops = SessionTasks()
    assert stops.take("me") is None and stops.start("me") and not stops.start("me")
    first = stops.take("me")
    assert stops.take("me") is None and not stops.start("me") and not first.is_set()
    stops.finish("me", first)
    assert first.is_set() and not stops.busy("me") and len(stops) == 0


def test_a_closed_tab_is_forgotten_and_what_it_left_ends_alone():
    stops = SessionTasks()
    assert stops.start("me")
    stops.leave("me")
    stops.leave("nobody")
    assert len(stops) == 0 and stops.take("me") is None and stops.start("me")
    old = stops.take("me")
    stops.leave("me")
    assert old.is_set() and stops.start("me")
    stops.finish("me", old)
    assert stops.busy("me") and not stops.take("me").is_set()


def test_closing_a_tab_forgets_every_page_of_it():
    page = build(FakeBackend())
    (left,) = (fn for fn in page.fns.values() if fn.name == "left")
    asking = events_of(page)["respond"].fn.__self__
    asking.begin("why?", ME)
    left.fn(ME)
    assert len(asking.stops) == 0


def test_an_error_for_a_person_is_shown_and_not_logged_and_a_bug_is_both(caplog):
    assert user_message(QuestionTooLong("It has 5,000 words.")).startswith("It has 5,000 words. Shorten the question")
    assert not caplog.records
    with caplog.at_level(logging.ERROR):
        assert user_message(ValueError("x")) == "Something broke: x. The log has the details."
    assert caplog.records[0].exc_info


def test_the_page_offers_these_names_to_programs_and_hides_the_rest():
    page = build(FakeBackend(), {"one?": "one.txt"})
    public = {fn.api_name for fn in page.fns.values() if fn.api_visibility == "public"}
    documents = {f"{act}_document" for act in ("add", "delete", "rename", "reindex")} | {"list_documents"}
    assert public == {"ask", "inspect", "compare", "list_methods"} | documents
    questions = [fn for fn in page.fns.values() if fn.name in ("respond", "ask")]
    assert {fn.concurrency_id for fn in questions} == {"model"}


def test_launch_options_name_no_address():
    options = launch_options()
    assert "http" not in options["head"] and "http" not in options["css_paths"][0].read_text()
    assert options["theme"]._stylesheets == []
    assert options["run_history"] is False


def test_what_is_set_becomes_a_request():
    backend = FakeBackend(pace_s=0)
    respond = events_of(build(backend))["respond"].fn
    respond.__self__.begin("  why?\n", ME)
    values = ["epic", 4, 35, 0.5, 64, ["d" * 64], True, *DEFAULTS]
    list(respond("  why?\n", Chat.new(), False, ME, *values))
    (request,) = backend.asked
    assert (request.question, request.ratio, request.passages, request.max_new_tokens) == ("why?", 0.35, 4, 64)
    assert (request.documents, request.whole, request.temperature) == (("d" * 64,), True, 0.5)
    assert request.options == {"tokens": 32}


def test_closing_the_stream_early_stops_the_computation_and_forgets_the_session():
    backend = FakeBackend(pace_s=0)
    respond = events_of(build(backend))["respond"].fn
    stream = asked(respond, "why?", "cacheclip")
    for _ in range(3):
        next(stream)
    stream.close()
    assert len(backend.asked) == 1
    assert len(respond.__self__.stops) == 0


@pytest.mark.parametrize("question", ["", " \n "])
def test_an_empty_question_never_reaches_the_engine_and_leaves_the_last_answer_where_it_is(question):
    backend = FakeBackend(pace_s=0)
    respond = events_of(build(backend))["respond"].fn
    ((place, said),) = respond.__self__.begin(question, ME).items()
    assert "Type a question first" in said and place.elem_id == "ask-said"
    assert list(asked(respond, question)) == [gr.skip()]
    assert backend.asked == []


def test_enter_while_an_answer_runs_neither_stops_it_nor_asks_again():
    backend = FakeBackend(pace_s=0)
    respond = events_of(build(backend))["respond"].fn
    page, stream = respond.__self__, asked(respond, "why?")
    next(stream)
    assert page.begin("why?", ME) == page.begin("and then?", ME) == page.begin("", ME) == gr.skip()
    assert list(asked(respond, "and then?")) == [gr.skip()]
    list(stream)
    assert [request.question for request in backend.asked] == ["why?"] and backend.cancelled == [False]
    assert len(page.stops) == 0


def test_the_answer_is_to_what_was_begun_and_the_browser_clears_the_box_of_that_alone():
    backend = FakeBackend(pace_s=0)
    respond = events_of(build(backend))["respond"].fn
    page = respond.__self__
    assert page.begin(" why?\n", ME)[page._asked] == " why?\n"
    *_, ended = respond(" why?\n", Chat.new(), False, ME, "full", 6, 20, 0, 64, [], False, *DEFAULTS)
    assert ended[page._carrier]["answered"] == " why?\n" and page._box.question not in ended
    stream = asked(respond, "and then?")
    next(stream)
    page.stop(ME)
    *_, ended = stream
    assert ended[page._carrier]["answered"] is None


def test_the_session_is_free_again_before_the_page_says_that_the_answer_has_ended():
    backend = FakeBackend(pace_s=0)
    respond = events_of(build(backend))["respond"].fn
    page = respond.__self__
    ended = next(update for update in asked(respond, "why?") if page._carrier in update)
    assert ended and page.begin("and then?", ME)[page._asked] == "and then?"


def test_retry_asks_the_last_question_again_and_leaves_what_stands_in_the_box():
    backend = FakeBackend(pace_s=0)
    respond = events_of(build(backend))["respond"].fn
    page = respond.__self__
    *_, ended = asked(respond, "why?")
    chat = ended[page._chat]
    begun = page.retry(chat, ME)
    assert begun[page._asked] == "why?" and begun[page._replacing] and page._box.question not in begun
    assert page.retry(chat, ME) == gr.skip()
    assert page.retry(Chat.new(), SimpleNamespace(session_hash="you")) == gr.skip()
    assert page.edit(chat)[page._box.question] == "why?" and page.edit(Chat.new()) == gr.skip()


@pytest.fixture
def answered():
    """A backend, the handler of questions, and a chat of one answered question."""
    backend = FakeBackend(pace_s=0)
    respond = events_of(build(backend))["respond"].fn
    *_, ended = asked(respond, "why?")
    return backend, respond, ended[respond.__self__._chat]


def test_an_error_leaves_the_answer_it_was_to_replace_and_replaces_nothing_later(answered):
    backend, respond, chat = answered
    backend.error, page = QuestionTooLong("It has 5,000 words."), respond.__self__
    *_, ended = asked(respond, "why?", chat=chat, replacing=True)
    assert ended[page._replacing] is False and page._chat not in ended
    assert "5730264" in ended[page._results.thread] and "5,000 words" in ended[page._results.reply]


def test_an_answer_stopped_before_its_first_word_replaces_none(answered):
    _, respond, chat = answered
    page, stream = respond.__self__, asked(respond, "why?", chat=chat, replacing=True)
    next(stream)
    page.stop(ME)
    *_, ended = stream
    assert ended[page._replacing] is False and page._chat not in ended
    assert "5730264" in ended[page._results.thread] and "as it was" in ended[page._results.reply]
    stream = asked(respond, "and then?", chat=chat)
    next(stream)
    page.stop(ME)
    *_, ended = stream
    assert [turn.question for turn in ended[page._chat].shown] == ["why?", "and then?"]


def test_only_the_chosen_method_is_asked_for_its_options():
    backend = FakeBackend(pace_s=0)
    respond = events_of(build(backend))["respond"].fn
    for method in METHODS:
        list(asked(respond, "why?", method.name))
    sent = [request.options for request in backend.asked]
    assert sent == [{setting.name: setting.default for setting in own(method)} for method in METHODS]


def test_asking_before_the_model_is_ready_says_so():
    backend = FakeBackend(pace_s=0)
    backend.state = Status(ready=False, line="Loading the model: 40 %")
    respond = events_of(build(backend))["respond"].fn
    *_, last = asked(respond, "why?")
    assert any("Wait until the status says ready" in str(value) for value in last.values())


def test_the_clock_sends_only_what_changed_and_leaves_a_list_that_waits_for_a_yes():
    backend = FakeBackend()
    tick = events_of(build(backend))["tick"].fn
    components = tick(("", ()), "")
    first = next(value for value in components.values() if isinstance(value, tuple))
    assert len(components) == 4 and len(tick(first, "")) == 1
    backend._documents = [Document("a" * 64, "a.txt", 1, None, 1, 0.0)]
    assert len(tick(first, "a" * 64)) == 1
    assert any("a.txt" in str(value) for value in tick(first, "").values())


def test_an_upload_that_is_cancelled_keeps_nothing(tmp_path):
    backend, stop = FakeBackend(pace_s=0), Event()
    (tmp_path / "a.txt").write_text("text")
    stop.set()
    *_, ended = backend.ingest([(tmp_path / "a.txt", "a.txt")], stop)
    assert ended[0].stage == "failed" and backend.documents() == []


def test_numbers_have_units_and_few_digits():
    plain = [words.duration(386.4), words.duration(1240), words.percent(0.1818, 1), words.size(1_204_113)]
    assert [text.replace("\u00a0", " ") for text in plain] == ["386 ms", "1.24 s", "18.2 %", "1.2 MB"]
    assert words.duration(None) == words.UNKNOWN
    assert words.short("one\ntwo three", 9) == "one two…"


def test_what_a_click_has_begun_is_done_also_while_the_browser_tidies_up_after_the_one_before():
    begun = [each for each in build(FakeBackend(pace_s=0)).fns.values() if each.concurrency_id == MODEL]
    asked = {each.name: each.trigger_mode for each in begun if each.api_visibility == "private"}
    assert asked.keys() >= {"respond", "run", "look", "apply"} and set(asked.values()) == {"multiple"}
