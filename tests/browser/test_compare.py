"""The Lab's comparison in a real browser: run, watch, stop, download, and what hostile answers cannot do."""

import csv
import io
import json
import time

import pytest
from playwright.sync_api import expect

from store.types import Document
from tests.support.page_checks import in_both_themes, serious
from ui.pages.lab.compare import part

pytestmark = pytest.mark.browser

HOSTILE = '<img src="x" onerror="document.title=1"> <script>document.title="x"</script> =2+3 $a$ \u202eabc [1]'


class ComparePage:
    """The page with the actions of a user."""

    def __init__(self, tab):
        self.tab, self.page = tab, tab.page
        tab.go("Lab", "Speed and answers")
        expect(self.page.locator("#lab-question textarea")).to_be_visible()

    def pick(self, group, label):
        if not (choice := self.page.locator(f"#compare-{group} label", has_text=label).first).is_visible():
            self.page.click("#compare-more > button")
        choice.click()

    def run(self, question="What is the maintenance code?"):
        self.page.fill("#lab-question textarea", question)
        self.page.click("#compare-run")

    def finish(self):
        expect(self.page.locator("#compare-downloads")).to_be_visible()
        expect(self.page.locator("#compare-stop")).to_be_hidden()

    def rows(self):
        return self.page.locator("#comparison tbody tr")

    def assert_clean(self):
        assert self.tab.errors == [] and self.tab.outside == []


@pytest.fixture
def open_page(visit):
    return lambda **options: ComparePage(visit(**options))


def test_one_click_shows_a_question_on_which_direct_reuse_fails_with_its_windows(open_page, backend, monkeypatch):
    monkeypatch.setattr(part, "FAILING_METHODS", ("cacheclip", "direct"))
    backend.stored_documents = [Document("2" * 64, "harbour-handbook.md", 10, None, 8, time.time())]
    compare = open_page()
    compare.page.get_by_role("button", name="the boat on the Bay Route").click()
    compare.finish()
    request = backend.comparison.requests[-1]
    assert (request.methods, request.ratios, request.documents) == (("cacheclip", "direct"), (0.2,), ("2" * 64,))
    windows = compare.page.locator("#answers .kv-windows")
    expect(windows).to_have_count(1)
    windows.locator("summary").click()
    expect(windows.locator("li")).to_have_text(["The Old Kestrel sails", "on Fridays"])
    compare.assert_clean()


def test_one_click_on_an_empty_page_compares_and_shows_table_plot_and_marked_answers(open_page, backend):
    backend.stored_documents = [Document("1" * 64, "one.txt", 10, None, 8, time.time())]
    compare = open_page()
    expect(compare.page.locator("#compare-welcome")).to_contain_text("compare their time to first token")
    compare.page.locator("#compare-welcome .kv-sample").first.click()
    compare.finish()
    expect(compare.page.locator("#compare-welcome")).to_be_hidden()
    assert [row.split("\n")[0] for row in compare.page.locator("#comparison tbody th").all_inner_texts()] == [
        "Full prefill",
        "CacheClip",
        "Direct reuse",
    ]
    expect(compare.page.locator("#pareto .main-svg").first).to_be_visible()
    expect(compare.page.locator("#answers .kv-answer")).to_have_count(3)
    expect(compare.page.locator("#answers .kv-answer").nth(1)).to_contain_text("Same words")
    expect(compare.page.locator("#answers .kv-answer").nth(2).locator("mark").nth(1)).to_have_attribute(
        "title", "Full prefill: of"
    )
    expect(compare.page.get_by_role("region", name="Metrics of each method")).to_be_visible()
    assert compare.page.get_by_role("columnheader").count() == 8
    assert serious(compare.page) == []
    assert all(compare.page.locator("#comparison thead th").nth(n).get_attribute("title") for n in range(8))
    compare.assert_clean()


@pytest.mark.slow
def test_missing_inputs_are_reported_and_both_ways_to_stop_keep_what_is_finished(open_page, backend):
    backend.comparison.pause_after_steps = 0
    compare = open_page()
    compare.page.click("#compare-run")
    expect(compare.page.locator("#compare-progress [role=alert]")).to_contain_text("Type a question first")
    for label in ("CacheClip", "Direct reuse"):
        compare.pick("methods", label)
    compare.run()
    expect(compare.page.locator("#compare-progress [role=alert]")).to_contain_text("at least one method")
    expect(compare.page.locator("#compare-run")).to_be_visible()
    for label in ("CacheClip", "Direct reuse"):
        compare.pick("methods", label)
    compare.pick("more-methods", "CacheBlend")
    compare.pick("ratios", "10 %")
    compare.pick("repeats", "3 times")
    compare.run()
    expect(compare.page.locator("#compare-progress")).to_contain_text("Round 1 of 3 · 1 of 6: Full prefill")
    expect(compare.page.locator("#compare-progress progress")).to_have_attribute("max", "18")
    compare.page.keyboard.press("Escape")
    expect(compare.page.locator("#compare-progress")).to_contain_text("Stopped early")
    expect(compare.page.locator("#compare-stop")).to_be_hidden()

    backend.comparison.pause_after_steps = 2
    compare.run()
    expect(compare.rows()).to_have_count(2)
    compare.page.click("#compare-stop")
    compare.finish()
    expect(compare.page.locator("#compare-progress")).to_contain_text("Stopped early")
    assert backend.comparison.cancelled == [True, True]
    shown = compare.rows().count()
    with compare.page.expect_download() as loading:
        compare.page.click("#download-json")
    held = json.loads(loading.value.path().read_text(encoding="utf-8"))
    assert held["state"] == "stopped" and len(held["outcomes"]) == shown == 2
    compare.assert_clean()


@pytest.mark.slow
def test_hostile_answers_questions_and_names_are_text_and_no_formula_in_the_csv(open_page, backend):
    backend.comparison.answers = dict.fromkeys(backend.comparison.answers, HOSTILE)
    backend.comparison.answers |= {"cacheblend": f"{HOSTILE} more", "full": f"=cmd|x {HOSTILE}"}
    backend.comparison.document = HOSTILE
    compare = open_page()
    compare.run(HOSTILE)
    compare.finish()
    expect(compare.page.locator("#answers .kv-answer").first).to_contain_text("<script>document.title")
    expect(compare.page.locator("#compare-progress h2")).to_contain_text("<img src=")
    assert compare.page.locator("#compare-page img[src=x], #compare-page .html-container script").count() == 0
    assert compare.page.title() == "KVScope"
    with compare.page.expect_download() as loading:
        compare.page.click("#download-csv")
    rows = list(csv.DictReader(io.StringIO(loading.value.path().read_text(encoding="utf-8"), newline="")))
    assert len(rows) == compare.rows().count() and rows[0]["answer"] == f"'=cmd|x {HOSTILE}"
    assert loading.value.suggested_filename == "kvscope-comparison.csv"
    compare.assert_clean()


@pytest.mark.slow
def test_on_a_phone_only_the_table_scrolls_sideways_and_the_answers_are_readable(open_page, backend):
    compare = open_page(viewport={"width": 390, "height": 844})
    compare.pick("ratios", "100 %")
    compare.run()
    compare.finish()
    wide, seen = compare.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= seen
    inner, outer = compare.page.locator(".kv-scroll").evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert inner > outer
    card = compare.page.locator("#answers .kv-answer").first.bounding_box()
    assert card["x"] >= 0 and card["x"] + card["width"] <= seen
    for theme in in_both_themes(compare.page):
        word, card = compare.page.locator("#answers li h4").first.evaluate(
            "head => [getComputedStyle(head).color, getComputedStyle(head.closest('li')).backgroundColor]"
        )
        ink, paper = (sum(int(part) for part in colour[4:-1].split(",")) for colour in (word, card))
        assert (ink > 600 and paper < 120) if theme == "dark" else (ink < 200 and paper > 700), (word, card)
    compare.assert_clean()


@pytest.mark.slow
def test_two_sessions_compare_independently(open_page, backend):
    backend.comparison.pause_after_steps = 1
    one, two = open_page(), open_page()
    one.run("Mine?")
    two.run("Yours?")
    expect(one.rows()).to_have_count(1)
    one.page.click("#compare-stop")
    expect(one.page.locator("#compare-progress")).to_contain_text("Stopped early")
    backend.comparison.pause_after_steps = 1000
    two.finish()
    expect(two.rows()).to_have_count(3)
    expect(two.page.locator("#compare-progress h2")).to_have_text("Yours?")
