"""Chats in a real browser: they survive a refresh, stay in their tab, and can be renamed, exported and deleted."""

import json

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
KEPT = "Object.keys(localStorage).filter((key) => key.startsWith('kvscope-chat-')).length"


@pytest.fixture
def talked(visit):
    tab = visit()
    for question in ("What is the code?", "Where is it printed?"):
        tab.ask(question)
        tab.finish()
    return tab


def test_editing_replaces_the_last_question_and_after_a_refresh_the_next_leans_on_it(talked, backend):
    talked.page.click("#reply >> text=Edit")
    expect(talked.page.locator("#question textarea")).to_have_value("Where is it printed?")
    talked.ask("Where is it repeated?")
    talked.finish()
    expect(talked.page.locator("#thread article")).to_have_count(1)
    expect(talked.page.locator("#history tbody tr")).to_have_count(3)
    assert [exchange.question for exchange in backend.asked[-1].earlier] == ["What is the code?"]
    talked.page.reload()
    expect(talked.page.locator("#thread article")).to_have_count(2)
    expect(talked.page.locator("#history tbody tr")).to_have_count(3)
    talked.ask("And then?")
    talked.finish()
    assert [exchange.question for exchange in backend.asked[-1].earlier] == [
        "What is the code?",
        "Where is it repeated?",
    ]
    expect(talked.page.locator("#thread article")).to_have_count(2)
    assert talked.errors == [] and talked.outside == []


def test_a_new_chat_is_empty_the_old_one_a_click_away_and_can_be_renamed_exported_and_deleted(talked, backend):
    talked.page.click("#chatbar >> text=New chat")
    expect(talked.page.locator("#promise")).to_be_visible()
    expect(talked.page.locator("#thread article")).to_have_count(0)
    talked.ask("Something else?")
    talked.finish()
    assert backend.asked[-1].earlier == ()
    talked.page.click("#chatbar summary")
    expect(talked.page.locator(".kv-chat-list li")).to_have_count(2)
    talked.page.click(".kv-chat-list >> text=What is the code?")
    expect(talked.page.locator("#thread article")).to_have_count(2)
    talked.page.click("#chatbar >> text=Rename")
    talked.page.fill("#chatbar input", "<b>Boats</b>")
    talked.page.keyboard.press("Enter")
    expect(talked.page.locator("#chatbar summary")).to_have_text("<b>Boats</b>")
    with talked.page.expect_download() as download:
        talked.page.click("#chatbar >> text=Export")
    assert "## Where is it printed?" in download.value.path().read_text()
    with talked.page.expect_download() as download:
        talked.page.click("#chatbar >> text=JSON")
    assert json.loads(download.value.path().read_text())["title"] == "<b>Boats</b>"
    talked.page.reload()
    expect(talked.page.locator("#chatbar summary")).to_have_text("<b>Boats</b>")
    patient = "setTimeout = ((wait) => (then, ms, ...rest) => wait(then, ms === 4000 ? 6e5 : ms, ...rest))(setTimeout)"
    talked.page.evaluate(f"() => {{ window.{patient} }}")  # the question stands as long as this machine needs
    talked.page.click("#chatbar >> text=Delete")
    assert talked.page.evaluate(KEPT) == 2
    talked.page.click("#chatbar >> text=Really delete?")
    expect(talked.page.locator("#promise")).to_be_visible()
    expect(talked.page.locator("#chatbar summary")).to_have_text("New chat")
    assert talked.page.evaluate(KEPT) == 1  # the other chat's
    assert talked.errors == []


def test_two_tabs_with_the_same_chat_both_keep_what_was_said_in_them(talked, backend):
    other = talked.page.context.new_page()
    other.goto(talked.page.url)
    expect(other.locator("#promise")).to_be_visible()
    other.click("#chatbar summary")
    other.click(".kv-chat-list >> text=What is the code?")
    expect(other.locator("#thread article")).to_have_count(2)
    with backend.standing():
        other.fill("#question textarea", "Mine?")
        other.click("#ask")
        expect(other.locator("#chatbar nav")).to_have_attribute("inert", "")
    expect(other.locator("#reply .kv-acts")).to_be_visible()
    expect(other.locator("#chatbar nav")).not_to_have_attribute("inert", "")
    talked.ask("Still here?")
    talked.finish()
    expect(talked.page.locator("#chatbar .kv-warning")).to_contain_text("Another tab has gone on with this chat")
    assert talked.page.evaluate(KEPT) == 2
    for page, question in ((other, "Mine?"), (talked.page, "Still here?")):
        page.reload()
        expect(page.locator("#thread article")).to_have_count(3)
        expect(page.locator("#thread article h2").last).to_have_text(question)


def test_a_storage_that_is_damaged_full_or_switched_off_costs_no_chat_and_says_so(talked):
    page, damaged = talked.page, {"id": "bad", "title": "", "at": 1, "turns": [{"question": 5}]}
    page.evaluate("bad => localStorage.setItem('kvscope-chat-bad', bad)", json.dumps(damaged))
    full = "() => { throw new DOMException('', 'QuotaExceededError') }"
    page.evaluate(f"() => {{ Storage.prototype.setItem = {full} }}")
    talked.ask("Is there room?")
    talked.finish()
    expect(page.locator("#chatbar .kv-warning")).to_contain_text("storage is full: this chat is not kept")
    assert page.evaluate(KEPT) == 2
    page.reload()
    expect(page.locator("#thread article")).to_have_count(2)
    page.click("#chatbar summary")
    expect(page.locator(".kv-chat-list li")).to_have_count(1)
    off = page.context.new_page()
    names, refuse = "['localStorage', 'sessionStorage']", "{ get() { throw new DOMException('', 'SecurityError') } }"
    off.add_init_script(f"for (const name of {names}) Object.defineProperty(window, name, {refuse})")
    off.goto(page.url)
    off.click("#chatbar summary")
    expect(off.locator("#chatbar")).to_contain_text("There is none yet")
    off.fill("#question textarea", "Who keeps this?")
    off.click("#ask")
    expect(off.locator("#chatbar .kv-warning")).to_contain_text("switched off: this chat is not kept")
    assert talked.errors == []


def test_chosen_documents_go_with_the_question_and_one_can_be_read_whole(visit, backend, tmp_path):
    tab = visit()
    payload = {"name": "notes.md", "mimeType": "text/plain", "buffer": b"# Notes"}
    tab.page.set_input_files("#upload input[type=file]", payload)
    expect(tab.page.locator("#shelf bdi")).to_have_text("notes.md")
    expect(tab.page.locator("#whole")).to_be_hidden()
    tab.page.click("#where input")
    tab.page.get_by_role("option", name="notes.md").click()
    tab.page.keyboard.press("Escape")
    tab.page.check("#whole input")
    tab.ask("What is in it?")
    tab.finish()
    (document,) = backend.documents()
    assert backend.asked[-1].documents == (document.id,) and backend.asked[-1].whole
    assert tab.errors == []
