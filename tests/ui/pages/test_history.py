"""Handlers of the chat bar, and of the data that browsers send, without a browser."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import gradio as gr
import pytest

from store.types import COLLECTION, Document
from tests.ui.conftest import ME
from tests.ui.pages.test_chat import TURN, chat
from tests.ui.test_flow import ask
from ui.format import UNKNOWN, day
from ui.pages.ask.chat import Chat
from ui.pages.ask.history import parse_summaries

ROW = {"id": "c2", "title": "Boats", "at": 7.0, "turns": 2}


@pytest.fixture
def page(app):
    return app.ask


def press(page, act, **data):
    return page.history.handle_action(chat(TURN), SimpleNamespace(_data={"act": act, **data}), ME)


@pytest.mark.parametrize("act", ["open", "new", "delete"])
def test_editing_a_question_ends_when_another_chat_is_opened(page, act):
    assert press(page, act)[page.replaces_last] is False


@pytest.mark.parametrize("act", ["open", "new", "delete", "rename", "markdown"])
def test_a_chat_can_be_neither_left_nor_changed_while_an_answer_is_generated(page, act):
    answers = ask(page, "why?", chat=chat(TURN))
    assert " inert=" in next(answers)[page.chat_bar]
    assert press(page, act, title="Boats") == gr.skip()
    assert page.history.refresh_bar(json.dumps({"listing": [ROW]}), chat(TURN), ME) == {page.carrier: None}
    answers.close()
    assert press(page, act, title="Boats") != gr.skip()
    assert " inert=" not in page.history.refresh_bar(json.dumps({"listing": [ROW]}), chat(TURN), ME)[page.chat_bar]


def test_renaming_changes_the_chat_and_keeps_its_answer_in_view(page):
    update = press(page, "rename", title="Boats")
    assert set(update) == {page.chat, page.carrier} and update[page.chat].title == "Boats"
    assert json.loads(update[page.carrier])["chat"]["title"] == "Boats"


def test_a_chat_is_pinned_or_archived_but_not_both(page):
    pinned = press(page, "pin")[page.chat]
    assert pinned.pinned and not pinned.archived
    event = SimpleNamespace(_data={"act": "archive"})
    archived = json.loads(page.history.handle_action(pinned, event, ME)[page.carrier])["chat"]
    assert archived["archived"] and not archived["pinned"]
    rows = [ROW, ROW | {"id": "c3", "archived": True}, ROW | {"id": "c4", "pinned": True}, ROW | {"pinned": "x"}]
    assert [(each.pinned, each.archived) for each in parse_summaries(rows)] == [
        *((False, False), (False, True), (True, False))
    ]


def test_a_deleted_chat_is_deleted_by_the_browser_after_the_server_has_left_it(page):
    update = press(page, "delete")
    assert json.loads(update[page.carrier]) == {"here": update[page.chat].id, "deleted": "c1"}
    kept = chat(TURN, TURN)
    assert press(page, "open", chat=asdict(kept))[page.chat] == kept


def test_an_opened_chat_searches_where_its_last_question_did(page, backend):
    backend.stored_documents = [Document("1" * 64, "a.txt", 1, None, 1, 1.0, collections=("Boats",))]
    boats = chat(replace(TURN, scope=(f"{COLLECTION}Boats", "deleted")))
    update = press(page, "open", chat=asdict(boats))
    assert update[page.composer.picker.documents].value == [f"{COLLECTION}Boats"]
    assert page.composer.picker.documents not in press(page, "new")


def test_a_chat_whose_documents_are_gone_says_that_it_searches_everywhere(page):
    gone = chat(replace(TURN, scope=("deleted",)))
    sent = json.dumps({"listing": [ROW], "id": "c1", "problem": None})
    assert "searches all documents" in page.history.refresh_bar(sent, gone, ME)[page.chat_bar]
    assert "searches all documents" not in page.history.refresh_bar(sent, chat(TURN), ME)[page.chat_bar]


def test_a_chat_keeps_its_documents_while_these_are_unknown(page, backend):
    backend.stored_documents, backend.state = [], replace(backend.state, ready=False)
    limited = chat(replace(TURN, scope=("1" * 64,)))
    sent = json.dumps({"listing": [ROW], "id": "c1", "problem": None})
    picker = press(page, "open", chat=asdict(limited))[page.composer.picker.documents]
    for shown in (picker, page.composer.picker.refresh(picker.value)):
        assert shown.value == ["1" * 64] and shown.choices == [("Loading…", "1" * 64)]
    assert "searches all documents" not in page.history.refresh_bar(sent, limited, ME)[page.chat_bar]
    backend.state = replace(backend.state, ready=True)
    assert page.composer.picker.refresh(picker.value).value == []


def test_a_chat_changed_in_another_tab_continues_as_a_copy_with_a_warning(page):
    update = page.history.refresh_bar(json.dumps({"listing": [ROW], "id": "c9", "problem": "copied"}), chat(TURN), ME)
    assert update[page.chat].id == "c9" and update[page.chat].turns == chat(TURN).turns
    assert "Another tab" in update[page.chat_bar]
    sent = json.dumps({"listing": [], "id": "c1", "problem": None})
    assert page.chat not in page.history.refresh_bar(sent, chat(TURN), ME)


@pytest.mark.parametrize(("problem", "warning"), [("full", "storage is full"), ("off", "switched off"), (7, "Boats")])
def test_a_chat_that_is_not_saved_shows_a_warning(page, problem, warning):
    update = page.history.refresh_bar(json.dumps({"listing": [ROW], "id": "c1", "problem": problem}), chat(TURN), ME)
    assert warning in update[page.chat_bar]


@pytest.mark.parametrize(
    "stored", [None, 5, [], {"chat": {"turns": [{"question": 5}]}, "listing": [ROW, None, "x", 5]}]
)
def test_the_page_starts_with_whatever_a_browser_has_stored(page, stored):
    update = page.history.restore(json.dumps(stored))
    assert update[page.chat].turns == () and update[page.chat].id
    assert ("Boats" in update[page.chat_bar]) == isinstance(stored, dict)


def test_the_page_starts_without_anything_stored_and_with_text_that_is_no_json(page):
    assert page.history.restore(None)[page.chat].id and page.history.restore("{")[page.chat].id


def test_damaged_entries_of_the_list_are_skipped():
    odd = [{**ROW, "at": None}, {**ROW, "turns": float("inf")}, {**ROW, "at": 1e300}]
    assert [row.at for row in parse_summaries([*odd, ROW])] == [1e300, 7.0]
    assert day(1e300) == day(float("nan")) == UNKNOWN


def test_a_chat_has_an_id_once_it_has_a_turn():
    one, other = Chat("").add(TURN), Chat("").add(TURN)
    assert one.id and one.id != other.id and chat(TURN).add(TURN).id == "c1"
