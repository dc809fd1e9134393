"""Chats in a real browser: they survive a refresh, stay in their tab, and can be renamed, exported and deleted."""

import json

import docx
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
KEPT = "Object.keys(localStorage).filter((key) => key.startsWith('kvscope-chat-')).length"


@pytest.fixture
def chatting(visit):
    tab = visit()
    for question in ("What is the code?", "Where is it printed?"):
        tab.ask(question)
        tab.finish()
    return tab


def test_a_chat_is_edited_refreshed_left_opened_renamed_exported_and_deleted(chatting, backend):
    chatting.page.click("#reply >> text=Edit")
    expect(chatting.page.locator("#question textarea")).to_have_value("Where is it printed?")
    chatting.ask("Where is it repeated?")
    chatting.finish()
    expect(chatting.page.locator("#thread article")).to_have_count(1)
    expect(chatting.page.locator("#history tbody tr")).to_have_count(3)
    assert [exchange.question for exchange in backend.requests[-1].history] == ["What is the code?"]
    chatting.page.reload()
    expect(chatting.page.locator("#thread article")).to_have_count(2)
    expect(chatting.page.locator("#history tbody tr")).to_have_count(3)
    chatting.ask("And then?")
    chatting.finish()
    assert [exchange.question for exchange in backend.requests[-1].history] == [
        "What is the code?",
        "Where is it repeated?",
    ]
    expect(chatting.page.locator("#thread article")).to_have_count(2)

    chatting.page.click("#chatbar >> text=New chat")
    expect(chatting.page.locator("#tagline")).to_be_visible()
    expect(chatting.page.locator("#thread article")).to_have_count(0)
    chatting.ask("Something else?")
    chatting.finish()
    assert backend.requests[-1].history == ()
    chatting.page.click("#chatbar summary")
    listed = chatting.page.locator(".kv-chat-list li").locator("visible=true")
    expect(listed).to_have_count(2)
    chatting.page.fill("#chatbar input[type=search]", "where is it REPEATED")
    expect(listed).to_have_count(1)
    chatting.page.click(".kv-chat-list >> text=What is the code?")
    expect(chatting.page.locator("#thread article")).to_have_count(3)
    chatting.page.click("#chatbar >> text=Rename")
    chatting.page.fill("#chatbar form input", "<b>Boats</b>")
    chatting.page.keyboard.press("Enter")
    expect(chatting.page.locator("#chatbar summary")).to_have_text("<b>Boats</b>")
    chatting.page.click("#chatbar button[data-act=pin]")
    expect(chatting.page.locator("#chatbar button[data-act=pin]")).to_have_text("Unpin")
    chatting.page.click("#chatbar summary")
    expect(listed.first).to_contain_text("<b>Boats</b>pinned, 3\u00a0questions")
    chatting.page.click("#chatbar summary")
    chatting.page.click("#chatbar button[data-act=archive]")
    expect(chatting.page.locator("#chatbar button[data-act=archive]")).to_have_text("Unarchive")
    chatting.page.click("#chatbar summary")
    expect(listed).to_have_count(1)  # the other chat
    expect(chatting.page.locator("#chatbar details details summary")).to_have_text("Archived (1)")
    chatting.page.fill("#chatbar input[type=search]", "where is it REPEATED")
    expect(listed).to_contain_text(["<b>Boats</b>"])
    chatting.page.click("#chatbar summary >> nth=0")
    chatting.page.click("#chatbar button[data-act=archive]")
    expect(chatting.page.locator("#chatbar button[data-act=archive]")).to_have_text("Archive")
    with chatting.page.expect_download() as download:
        chatting.page.click("#chatbar >> text=Export")
    assert "## Where is it repeated?" in download.value.path().read_text()
    chatting.page.emulate_media(media="print")
    expect(chatting.page.locator("#composer, #side, #chatbar").locator("visible=true")).to_have_count(0)
    expect(chatting.page.locator("#thread .kv-question, #reply .kv-question").first).to_be_visible()
    chatting.page.emulate_media(media="screen")
    with chatting.page.expect_download() as download:
        chatting.page.click("#chatbar >> text=Word")
    assert "Where is it repeated?" in [each.text for each in docx.Document(download.value.path()).paragraphs]
    with chatting.page.expect_download() as download:
        chatting.page.click("#chatbar >> text=JSON")
    assert json.loads(download.value.path().read_text())["title"] == "<b>Boats</b>"
    chatting.page.reload()
    expect(chatting.page.locator("#chatbar summary")).to_have_text("<b>Boats</b>")
    patient = "setTimeout = ((wait) => (then, ms, ...rest) => wait(then, ms === 4000 ? 6e5 : ms, ...rest))(setTimeout)"
    chatting.page.evaluate(f"() => {{ window.{patient} }}")  # the question stands as long as this machine needs
    chatting.page.click("#chatbar >> text=Delete")
    assert chatting.page.evaluate(KEPT) == 2
    chatting.page.click("#chatbar >> text=Delete chat?")
    expect(chatting.page.locator("#tagline")).to_be_visible()
    expect(chatting.page.locator("#chatbar summary")).to_have_text("New chat")
    assert chatting.page.evaluate(KEPT) == 1  # the other chat's
    assert chatting.errors == [] and chatting.outside == []


@pytest.mark.parametrize(
    "size", [(390, 844), pytest.param((1280, 900), marks=pytest.mark.slow)], ids=["phone", "desktop"]
)
@pytest.mark.slow
def test_the_question_box_of_a_saved_chat_is_one_line_that_opens_its_settings(visit, size):
    tab = visit(viewport={"width": size[0], "height": size[1]})
    settings, toggle = tab.page.locator("#settings"), tab.page.get_by_role("button", name="Answer settings")
    expect(settings).to_be_visible()
    expect(toggle).to_be_hidden()
    tab.ask("What is the code?")
    tab.finish()
    tab.page.reload()
    expect(tab.page.locator("#thread article")).to_have_count(1)
    expect(toggle).to_be_visible()
    assert tab.page.locator("#composer").bounding_box()["height"] < 80
    toggle.click()
    expect(settings).to_be_visible()
    expect(toggle).to_have_attribute("aria-expanded", "true")
    toggle.click()
    expect(settings).to_be_hidden()
    tab.page.click("#chatbar >> text=New chat")
    expect(settings).to_be_visible()
    assert tab.errors == []


@pytest.mark.slow
def test_two_tabs_with_the_same_chat_lose_no_turn(chatting, backend):
    other = chatting.page.context.new_page()
    other.goto(chatting.page.url)
    expect(other.locator("#tagline")).to_be_visible()
    other.click("#chatbar summary")
    other.click(".kv-chat-list >> text=What is the code?")
    expect(other.locator("#thread article")).to_have_count(2)
    with backend.paused():
        other.fill("#question textarea", "Mine?")
        other.click("#ask")
        expect(other.locator("#chatbar nav")).to_have_attribute("inert", "")
    expect(other.locator("#reply .kv-acts")).to_be_visible()
    expect(other.locator("#chatbar nav")).not_to_have_attribute("inert", "")
    chatting.ask("Still here?")
    chatting.finish()
    expect(chatting.page.locator("#chatbar .kv-warning")).to_contain_text("Another tab has changed this chat")
    assert chatting.page.evaluate(KEPT) == 2
    for page, question in ((other, "Mine?"), (chatting.page, "Still here?")):
        page.reload()
        expect(page.locator("#thread article")).to_have_count(3)
        expect(page.locator("#thread article h2").last).to_have_text(question)


@pytest.mark.slow
def test_damaged_full_or_disabled_storage_loses_no_chat_and_shows_a_warning(chatting):
    page, damaged = chatting.page, {"id": "bad", "title": "", "at": 1, "turns": [{"question": 5}]}
    page.evaluate("bad => localStorage.setItem('kvscope-chat-bad', bad)", json.dumps(damaged))
    full = "() => { throw new DOMException('', 'QuotaExceededError') }"
    page.evaluate(f"() => {{ Storage.prototype.setItem = {full} }}")
    chatting.ask("Is there room?")
    chatting.finish()
    expect(page.locator("#chatbar .kv-warning")).to_contain_text("storage is full: this chat is not saved")
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
    expect(off.locator("#chatbar")).to_contain_text("There are none yet")
    off.fill("#question textarea", "Who keeps this?")
    off.click("#ask")
    expect(off.locator("#chatbar .kv-warning")).to_contain_text("switched off: this chat is not saved")
    assert chatting.errors == []


def test_selected_documents_are_searched_and_one_can_be_used_whole(visit, backend, tmp_path):
    tab = visit()
    payload = {"name": "notes.md", "mimeType": "text/plain", "buffer": b"# Notes"}
    tab.page.set_input_files("#upload input[type=file]", payload)
    expect(tab.page.locator("#document-list bdi")).to_have_text("notes.md")
    expect(tab.page.locator("#whole")).to_be_hidden()
    tab.page.click("#where input")
    tab.page.get_by_role("option", name="notes.md").click()
    tab.page.keyboard.press("Escape")
    tab.page.check("#whole input")
    tab.ask("What is in it?")
    tab.finish()
    (document,) = backend.documents()
    assert backend.requests[-1].documents == (document.id,) and backend.requests[-1].whole_document
    assert tab.errors == []
