"""The bar over a chat and the browser's word on what it keeps: the handlers, without a browser."""

from types import SimpleNamespace

import gradio as gr
import pytest

from tests.support.fake_backend.backend import FakeBackend
from tests.ui.pages.test_chat import TURN, chat
from ui.format import UNKNOWN, day
from ui.layout import build
from ui.pages.ask.chats.chat import Chat
from ui.pages.ask.chats.chat_bar import Listed

ME = SimpleNamespace(session_hash="me")
ROW = {"id": "c2", "title": "Boats", "at": 7.0, "turns": 2}


@pytest.fixture
def page():
    made = build(FakeBackend(pace_s=0))
    return next(fn.fn for fn in made.fns.values() if fn.name == "respond").__self__


def press(page, act, **told):
    return page._history.act(chat(TURN), SimpleNamespace(_data={"act": act, **told}), ME)


@pytest.mark.parametrize("act", ["open", "new", "delete"])
def test_the_question_that_was_to_be_edited_stays_behind_with_its_chat(page, act):
    assert press(page, act)[page._replacing] is False


@pytest.mark.parametrize("act", ["open", "new", "delete", "rename", "markdown"])
def test_while_an_answer_is_written_its_chat_can_be_neither_left_nor_changed(page, act):
    page.begin("why?", ME)
    assert press(page, act, title="Boats") == gr.skip()
    assert page._history.listed({"listing": [ROW]}, chat(TURN), ME) == {page._carrier: None}
    assert " inert=" in page._history.held(chat(TURN))[page._bar]
    page.stops.leave("me")
    assert press(page, act, title="Boats") != gr.skip()
    assert " inert=" not in page._history.listed({"listing": [ROW]}, chat(TURN), ME)[page._bar]


def test_a_name_is_given_to_the_chat_of_the_session_and_its_answer_stays_in_view(page):
    update = press(page, "rename", title="Boats")
    assert set(update) == {page._chat, page._carrier} and update[page._chat].title == "Boats"
    assert update[page._carrier]["chat"]["title"] == "Boats"


def test_the_browser_forgets_a_chat_when_the_server_has_left_it(page):
    update = press(page, "delete")
    assert update[page._carrier] == {"here": update[page._chat].id, "forget": "c1"}
    kept = chat(TURN, TURN)
    assert press(page, "open", chat=kept.as_dict())[page._chat] == kept


def test_a_chat_that_another_tab_has_changed_goes_on_as_a_copy_and_says_so(page):
    update = page._history.listed({"listing": [ROW], "id": "c9", "trouble": "copied"}, chat(TURN), ME)
    assert update[page._chat].id == "c9" and update[page._chat].turns == chat(TURN).turns
    assert "Another tab" in update[page._bar]
    assert page._chat not in page._history.listed({"listing": [], "id": "c1", "trouble": None}, chat(TURN), ME)


@pytest.mark.parametrize(("trouble", "said"), [("full", "storage is full"), ("off", "switched off"), (7, "Boats")])
def test_a_chat_that_is_not_kept_says_so(page, trouble, said):
    update = page._history.listed({"listing": [ROW], "id": "c1", "trouble": trouble}, chat(TURN), ME)
    assert said in update[page._bar]


@pytest.mark.parametrize("told", [None, 5, [], {"chat": {"turns": [{"question": 5}]}, "listing": [ROW, None, "x", 5]}])
def test_whatever_a_browser_has_kept_the_page_begins(page, told):
    update = page._history.restore(told)
    assert update[page._chat].turns == () and update[page._chat].id
    assert ("Boats" in update[page._bar]) == isinstance(told, dict)


def test_one_damaged_line_of_the_list_leaves_the_others():
    odd = [{**ROW, "at": None}, {**ROW, "turns": float("inf")}, {**ROW, "at": 1e300}]
    assert [row.at for row in Listed.all([*odd, ROW])] == [1e300, 7.0]
    assert day(1e300) == day(float("nan")) == UNKNOWN


def test_a_chat_has_an_id_once_it_has_a_turn():
    one, other = Chat("").add(TURN), Chat("").add(TURN)
    assert one.id and one.id != other.id and chat(TURN).add(TURN).id == "c1"
