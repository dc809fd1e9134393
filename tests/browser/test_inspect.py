"""The Lab's inspection in a real browser, on a fake inspection service."""

import time

import pytest
from playwright.sync_api import expect

from store.errors import StoreFull
from store.types import Document
from tests.browser.test_ask import HOSTILE
from tests.support.page_checks import contrast, in_both_themes, serious, too_wide

pytestmark = pytest.mark.browser


def inspect(tab, question="What is the maintenance code?"):
    tab.go("Lab", "Where it looks")
    tab.page.fill("#lab-question textarea", question)
    tab.page.press("#lab-question textarea", "Enter")
    expect(tab.page.locator("#inspect-passages .kv-card").first).to_be_visible()
    expect(tab.page.locator("#inspect-go")).to_be_visible()


def test_slider_and_passage_choice_redraw_without_a_second_inspection(visit, backend):
    tab = visit()
    tab.go("Lab", "Where it looks")
    expect(tab.page.locator("#inspect-empty")).to_contain_text("press Inspect")
    inspect(tab)
    expect(tab.page.locator("#inspect-empty")).to_be_hidden()
    expect(tab.page.locator("#inspect-passages .kv-card")).to_have_count(len(backend.texts))
    expect(tab.page.locator("#inspect-map .heatmaplayer image")).to_have_count(1)
    expect(tab.page.locator("#inspect-kl .bars path")).to_have_count(30)
    expect(tab.page.locator("#inspect-ranks path")).to_have_count(3)
    before = tab.page.locator("#inspect-passages").inner_html()
    share = tab.page.inner_text("#inspect-summary strong")
    tab.move("#inspect-ratio", 55)
    expect(tab.page.locator("#inspect-summary strong")).not_to_have_text(share)
    expect(tab.page.locator("#inspect-summary")).to_contain_text("target 55")
    assert tab.page.locator("#inspect-passages").inner_html() != before
    tab.page.locator("#inspect-passage label").nth(2).click()
    expect(tab.page.locator("#inspect-passages .kv-card")).to_have_count(1)
    expect(tab.page.locator("#inspect-passages .kv-rank")).to_have_text("2")
    tab.move("#inspect-ratio", 70)
    expect(tab.page.locator("#inspect-summary")).to_contain_text("target 70")
    expect(tab.page.locator("#inspect-passages .kv-card")).to_have_count(1)
    tab.page.locator("#inspect-passage label").first.click()
    expect(tab.page.locator("#inspect-passages .kv-card")).to_have_count(3)
    assert len(backend.inspection.requests) == 1 and backend.requests == []
    tab.page.set_viewport_size({"width": 390, "height": 844})  # a phone scrolls down only
    fits = "[...document.querySelectorAll('#inspect-page .main-svg')].every((figure) => figure.clientWidth < 390)"
    tab.page.wait_for_function(fits)
    assert too_wide(tab.page, "#inspect-page *") == []
    assert tab.errors == [] and tab.outside == []


@pytest.mark.slow
def test_asking_uses_the_settings_of_the_click_while_the_page_follows_later_choices(visit, backend):
    tab = visit()
    tab.go("Library", "Cache details")
    expect(tab.page.locator("#cache-totals")).not_to_be_empty()
    inspect(tab)
    tab.page.click("#inspect-method input")
    tab.page.get_by_role("option", name="CacheBlend", exact=True).click()
    expect(tab.page.locator("#inspect-summary")).to_contain_text("Ask with these settings")
    tab.page.click("#inspect-apply")
    expect(tab.page.locator("#inspect-answer .kv-text")).to_contain_text("before noon")
    expect(tab.page.locator("#inspect-answer")).to_contain_text("386")
    expect(tab.page.locator("#inspect-passages .kv-quoted").first).to_be_visible()
    expect(tab.page.locator("#inspect-passages .kv-fresh").first).to_be_visible()
    assert [request.method for request in backend.requests] == ["cacheblend"]
    tab.page.click("#inspect-method input")
    tab.page.get_by_role("option", name="EPIC", exact=True).click()
    expect(tab.page.locator("#inspect-ratio")).to_be_hidden()
    expect(tab.page.locator("#inspect-summary")).to_contain_text("EPIC has no ratio")
    tab.page.click("#inspect-method input")
    tab.page.get_by_role("option", name="CacheClip", exact=True).click()
    expect(tab.page.locator("#inspect-summary")).to_contain_text("target 20")
    backend.answer = "word " * 9
    with backend.paused(after=3):
        tab.page.click("#inspect-apply")
        expect(tab.page.locator("#inspect-answer .kv-text")).to_contain_text("word")
        tab.move("#inspect-ratio", 60)
        expect(tab.page.locator("#inspect-summary")).to_contain_text("target 60")
    expect(tab.page.locator("#inspect-apply")).to_be_visible()
    tab.wait_for_events()
    expect(tab.page.locator("#inspect-summary")).to_contain_text("target 60")
    assert backend.requests[-1].recompute_ratio == 0.2
    assert len(backend.inspection.requests) == 1 and tab.errors == []


@pytest.mark.slow
def test_an_error_is_shown_and_stop_cancels_the_answer(visit, backend):
    backend.pause_after_words = 3
    backend.inspection.error = StoreFull("The <b>disk</b> is full.")
    tab = visit()
    tab.go("Lab", "Where it looks")
    tab.page.fill("#lab-question textarea", "Why?")
    tab.page.click("#inspect-go")
    expect(tab.page.locator("#inspect-progress .kv-error")).to_contain_text("The <b>disk</b> is full")
    expect(tab.page.locator("#inspect-go")).to_be_visible()
    backend.inspection.error = None
    inspect(tab)
    tab.page.click("#inspect-apply")
    expect(tab.page.locator("#inspect-answer .kv-text")).to_be_visible()
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#inspect-answer")).to_contain_text("Stopped")
    expect(tab.page.locator("#inspect-apply")).to_be_visible()
    assert backend.cancelled == [True]


@pytest.mark.slow
def test_hostile_passages_and_names_are_shown_as_text(visit, backend):
    backend.stored_documents = [Document(str(n) * 64, name, 10, None, 1, time.time()) for n, name in enumerate(HOSTILE)]
    backend.texts = [f"{text} {'x ' * 60}" for text in HOSTILE]
    backend.answer = " ".join(HOSTILE)
    tab = visit()
    inspect(tab, HOSTILE[0])
    tab.page.click("#inspect-apply")
    expect(tab.page.locator("#inspect-answer .kv-text")).to_contain_text("onerror")
    expect(tab.page.locator("#inspect-apply")).to_be_visible()
    page = "#inspect-page"
    assert tab.page.locator(f"{page} script, {page} img, {page} b, {page} .katex").count() == 0
    assert HOSTILE[1] in tab.page.inner_text("#inspect-passages")
    assert tab.page.evaluate("window.harmed") is None
    assert tab.errors == [] and tab.outside == []


@pytest.mark.slow
def test_the_four_colours_stand_out_in_both_themes(visit):
    tab = visit()
    inspect(tab)
    tab.page.click("#inspect-apply")
    expect(tab.page.locator("#inspect-passages .kv-quoted").first).to_be_visible()
    colours = (".kv-swatch", ".kv-swatch.kv-fresh", ".kv-swatch.kv-sink", ".kv-swatch.kv-quoted")
    for theme in in_both_themes(tab.page):
        for place in (*colours, ".kv-caption p"):
            assert contrast(tab.page, place) >= 4.5, (theme, place)
        assert serious(tab.page) == [], theme
    assert tab.errors == []
