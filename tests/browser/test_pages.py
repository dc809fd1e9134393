"""All pages together: links from an answer to passages and pages, and accessibility (axe-core)."""

import time

import pytest
from playwright.sync_api import expect

from store.types import Document
from tests.support.page_checks import contrast, in_both_themes, serious

pytestmark = pytest.mark.browser
PAGES = [
    ("Ask",),
    ("Lab", "Speed and answers"),
    ("Lab", "Where it looks"),
    ("Library", "Documents"),
    ("Library", "Cache details"),
    ("Settings",),
]


@pytest.fixture
def answered(visit, backend):
    backend.stored_documents = [Document("e" * 64, "<b>notes</b>.md", 10, None, 8, time.time())]
    tab = visit()
    tab.ask("What is the maintenance code?")
    tab.finish()
    return tab


def test_a_citation_opens_its_passage_even_after_a_page_reload(answered, backend):
    citation = answered.page.locator("#reply .kv-cite", has_text="2")
    citation.click()
    panel = answered.page.locator("#drawer aside")
    expect(panel).to_contain_text("<b>notes</b>.md")
    expect(panel.locator("mark")).to_be_in_viewport()
    assert panel.locator("b").count() == 0
    answered.page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(citation).to_be_focused()
    answered.page.reload()
    answered.page.click("#thread .kv-cite >> text=1")
    expect(answered.page.locator("#drawer mark")).to_be_visible()
    answered.page.click("#drawer [data-close]")
    expect(answered.page.locator("#thread .kv-cite", has_text="1")).to_be_focused()
    backend.stored_documents = []
    answered.page.click("#thread .kv-cite >> text=1")
    expect(answered.page.locator("#drawer .kv-warning")).to_be_visible()
    assert answered.errors == []


def test_a_citation_of_a_pdf_shows_its_page_which_can_be_enlarged(visit, backend):
    backend.stored_documents = [Document("e" * 64, "notes.pdf", 10, 4, 8, time.time())]
    tab = visit()
    tab.ask("What is the maintenance code?")
    tab.finish()
    tab.page.locator("#reply .kv-cite", has_text="1").click()
    picture = tab.page.locator("#drawer img")
    expect(picture).to_have_js_property("naturalWidth", 600)
    width = picture.bounding_box()["width"]
    tab.page.get_by_role("button", name="Zoom").click()
    assert picture.bounding_box()["width"] > 1.9 * width
    assert serious(tab.page) == []
    tab.page.keyboard.press("Escape")
    backend.has_original = False
    tab.page.locator("#reply .kv-cite", has_text="2").click()
    expect(tab.page.locator("#drawer mark").first).to_be_visible()
    expect(tab.page.locator("#drawer figure")).to_have_count(0)


def test_opening_the_page_takes_at_most_60_requests(visit):
    tab = visit()
    expect(tab.page.locator("#document-list")).to_contain_text("No documents yet")
    tab.page.wait_for_timeout(1000)  # until the other parts have taken the list
    loaded = tab.page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    assert 40 < len(loaded) + 1 <= 60, loaded  # with the page itself


def test_citations_and_sliders_are_targets_of_24_pixels(answered, backend):
    backend.answer = "Yes [1][2]."
    answered.open_advanced()
    targets = answered.page.locator("#reply button.kv-cite, #composer input[type=range]")
    sizes = targets.evaluate_all("all => all.filter((e) => e.checkVisibility()).map((e) => e.getBoundingClientRect())")
    assert len(sizes) == 6 and all(box["width"] >= 24 and box["height"] >= 24 for box in sizes), sizes


@pytest.mark.slow
def test_one_click_sends_the_question_and_its_documents_to_another_page(answered, backend):
    answered.open_advanced()
    answered.page.click("#where input")
    answered.page.locator("#where [role=option]").click()
    answered.page.keyboard.press("Escape")
    answered.page.fill("#passages-count input[type=number]", "5")
    answered.ask("What is the access code?")
    answered.finish()
    answered.page.click("#where .token-remove")  # must not affect the question sent to the other page
    answered.page.fill("#passages-count input[type=number]", "2")
    for button, results in (("Inspect", "#inspect-results"), ("Compare", "#answers")):
        answered.page.click(f"#reply .kv-acts >> text={button}")
        expect(answered.page.locator(f"#tab-{button.lower()}-button")).to_have_attribute("aria-selected", "true")
        expect(answered.page.locator(results)).to_be_visible()
        box = answered.page.locator("#lab-question textarea")
        expect(box).to_have_value("What is the access code?")
        expect(answered.page.locator("#lab-where .token")).to_have_text("<b>notes</b>.md")
        answered.go("Ask")
    for request in (backend.inspection.requests[-1], backend.comparison.requests[-1]):
        assert request.documents == ("e" * 64,) and request.passages == 5
    assert answered.errors == []


def test_no_page_has_a_serious_violation_and_text_has_enough_contrast(visit):
    tab = visit()
    violations = {}
    tab.ask("What is the maintenance code?")
    tab.finish()
    expect(tab.page.locator("#waterfall .kv-stage").first).to_be_visible()
    for theme in in_both_themes(tab.page):
        for place in (
            "#reply .kv-text",
            "#passages mark",
            "#metrics small",
            "#document-list p",
            ".kv-badge",
            ".kv-notes li",
        ):
            assert contrast(tab.page, place) >= 4.5, (theme, place)
    for page in PAGES:
        tab.go(*page)
        for theme in in_both_themes(tab.page):
            if found := serious(tab.page, () if theme == "light" else ["color-contrast"]):  # themes differ in colours
                violations[page, theme] = found
    assert not violations


@pytest.mark.slow  # tests/engine has deletions at every moment
def test_a_document_is_deleted_while_its_answer_is_written(visit, backend):
    backend.stored_documents = [Document("e" * 64, "notes.md", 10, None, 8, time.time())]
    backend.pause_after_words = 3
    tab = visit()
    tab.ask("How long?")
    expect(tab.page.locator("#reply .kv-text")).to_be_visible()
    tab.page.click("#document-list button[data-act=delete]")
    tab.page.click("#document-list button[data-act=confirm]")
    expect(tab.page.locator("#document-list")).to_contain_text("No documents yet")
    backend.pause_after_words = 10_000
    tab.finish()
    expect(tab.page.locator("#reply .kv-text")).to_contain_text("code")
    assert tab.errors == []


@pytest.mark.slow
def test_a_question_is_asked_read_cited_and_searched_by_keyboard_alone(visit, backend):
    backend.stored_documents = [Document("e" * 64, "notes.md", 10, None, 8, time.time())]
    tab = visit()
    keys = tab.page.keyboard

    def tab_to(selector, limit=80):
        for _ in range(limit):
            keys.press("Tab")
            if tab.page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"the Tab key does not reach {selector}")

    tab_to("#question textarea")
    keys.type("What is the maintenance code?")
    keys.press("Enter")
    tab.finish()
    tab.page.evaluate("document.activeElement.blur()")
    tab_to("#reply .kv-cite")
    keys.press("Enter")
    expect(tab.page.locator("#drawer aside")).to_be_focused()
    keys.press("Escape")
    expect(tab.page.locator("#reply .kv-cite").first).to_be_focused()
    tab_to("#reply [data-act=expand]")
    keys.press("Enter")
    expect(tab.page.locator("#inspect-results")).to_be_visible()
    tab.page.evaluate("document.activeElement.blur()")
    tab_to("#tab-library-button")
    keys.press("Enter")
    expect(tab.page.locator("#library-list")).to_be_visible()
    tab_to("#library-list button[data-act=rename]")
    keys.press("Enter")
    expect(tab.page.locator("#library-list input[type=text]")).to_be_focused()
    keys.type("minutes.md")
    keys.press("Enter")
    expect(tab.page.locator("#document-list")).to_contain_text("minutes.md")
    assert tab.errors == []
