"""Settings of a collection in a real browser."""

import time

import pytest
from playwright.sync_api import expect

from store.types import Document
from tests.support.page_checks import too_wide

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror='window.harmed = 2'>"


@pytest.mark.slow
def test_a_collection_remembers_its_settings_and_they_apply_while_it_is_chosen(visit, backend):
    backend.stored_documents = [
        Document("d" * 64, "log.txt", 10, None, 1, time.time(), collections=(HOSTILE,)),
        Document("e" * 64, "notes.txt", 10, None, 1, time.time()),
    ]
    tab = visit()
    part, ratio = tab.page.locator("#collection-settings"), tab.page.locator("#ratio input[type=number]")

    def choose_collection():
        tab.open_settings()
        tab.page.click("#where input")
        tab.page.get_by_role("option", name="(1\u00a0document)").click()
        expect(part).to_be_visible()

    expect(part).to_be_hidden()
    choose_collection()
    tab.choose("CacheBlend")
    tab.move_ratio(45)
    part.get_by_role("button", name="Remember these").click()
    expect(part).to_contain_text("Remembered.")
    tab.page.locator("#where .token button, #where .token-remove").first.click()
    expect(part).to_be_hidden()
    expect(ratio).to_have_value("20")
    expect(tab.page.locator("#method input")).to_have_value("CacheClip")
    choose_collection()
    expect(tab.page.locator("#method input")).to_have_value("CacheBlend")
    tab.ask("Where is the code printed?")
    tab.finish()
    tab.page.reload()  # the chat is restored, and with it the collection
    expect(part).to_contain_text("are applied")
    expect(tab.page.get_by_role("button", name="Answer settings")).to_be_visible()  # folded again
    tab.open_settings()
    tab.page.set_viewport_size({"width": 390, "height": 844})
    assert too_wide(tab.page, "#collection-settings *") == []
    tab.ask("Where is it repeated?")
    tab.finish()
    tab.open_settings()
    assert [(each.method, each.recompute_ratio) for each in backend.requests] == [("cacheblend", 0.45)] * 2
    part.get_by_role("button", name="Forget them").click()
    expect(part).not_to_contain_text("are applied")
    assert backend.library.remembered.get(HOSTILE) == {}
    assert tab.page.evaluate("window.harmed") is None and tab.errors == []
