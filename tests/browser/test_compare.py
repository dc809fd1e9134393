"""The Compare page in a real browser: run, watch, stop, download, and what hostile answers cannot do."""

import csv
import io
import json
import time

import pytest
from playwright.sync_api import expect

from store.types import Document
from tests.support.page_checks import in_both_themes, serious

pytestmark = pytest.mark.browser

HOSTILE = '<img src="x" onerror="document.title=1"> <script>document.title="x"</script> =2+3 $a$ \u202eabc [1]'


class Desk:
    """The page as a person uses it."""

    def __init__(self, tab):
        self.tab, self.page = tab, tab.page
        tab.go("Compare")
        expect(self.page.locator("#compare-question textarea")).to_be_visible()

    def pick(self, group, label):
        self.page.locator(f"#compare-{group} label", has_text=label).first.click()

    def run(self, question="What is the maintenance code?"):
        self.page.fill("#compare-question textarea", question)
        self.page.click("#compare-run")

    def finish(self):
        expect(self.page.locator("#compare-downloads")).to_be_visible()
        expect(self.page.locator("#compare-stop")).to_be_hidden()

    def rows(self):
        return self.page.locator("#standings tbody tr")

    def clean(self):
        assert self.tab.errors == [] and self.tab.outside == []


@pytest.fixture
def open_desk(visit):
    return lambda **options: Desk(visit(**options))


def test_one_click_on_an_empty_page_compares_and_shows_table_plot_and_marked_answers(open_desk, backend):
    backend._documents = [Document("1" * 64, "one.txt", 10, None, 8, time.time())]
    desk = open_desk()
    expect(desk.page.locator("#compare-welcome")).to_contain_text("what each costs and what it changes")
    desk.page.locator("#compare-welcome .kv-sample").first.click()
    desk.finish()
    expect(desk.page.locator("#compare-welcome")).to_be_hidden()
    assert [row.split("\n")[0] for row in desk.page.locator("#standings tbody th").all_inner_texts()] == [
        "Full prefill",
        "CacheClip",
        "CacheBlend",
        "Direct reuse",
    ]
    expect(desk.page.locator("#frontier .main-svg").first).to_be_visible()
    expect(desk.page.locator("#answers li")).to_have_count(4)
    expect(desk.page.locator("#answers li").nth(1)).to_contain_text("Same words")
    expect(desk.page.locator("#answers li").nth(2).locator("mark").nth(1)).to_have_attribute(
        "title", "Full prefill: 5730264"
    )
    expect(desk.page.get_by_role("region", name="Figures of each method")).to_be_visible()
    assert desk.page.get_by_role("columnheader").count() == 8
    assert serious(desk.page) == []
    assert all(desk.page.locator("#standings thead th").nth(n).get_attribute("title") for n in range(8))
    desk.clean()


def test_stopping_keeps_what_is_finished_on_the_page_and_for_download(open_desk, backend):
    backend.comparison.stands_after = 2
    desk = open_desk()
    desk.pick("repeats", "5 times")
    desk.run()
    expect(desk.rows()).to_have_count(2)
    desk.page.click("#compare-stop")
    desk.finish()
    expect(desk.page.locator("#compare-progress")).to_contain_text("Stopped early")
    assert backend.comparison.cancelled == [True]
    shown = desk.rows().count()
    with desk.page.expect_download() as loading:
        desk.page.click("#download-json")
    held = json.loads(loading.value.path().read_text(encoding="utf-8"))
    assert held["state"] == "stopped" and len(held["outcomes"]) == shown == 2
    desk.clean()


def test_hostile_answers_questions_and_names_are_text_and_no_formula_in_the_csv(open_desk, backend):
    backend.comparison.answers = dict.fromkeys(backend.comparison.answers, HOSTILE)
    backend.comparison.answers |= {"cacheblend": f"{HOSTILE} more", "full": f"=cmd|x {HOSTILE}"}
    backend.comparison.document = HOSTILE
    desk = open_desk()
    desk.run(HOSTILE)
    desk.finish()
    expect(desk.page.locator("#answers li").first).to_contain_text("<script>document.title")
    expect(desk.page.locator("#compare-progress h2")).to_contain_text("<img src=")
    assert desk.page.locator("#compare-page img[src=x], #compare-page .html-container script").count() == 0
    assert desk.page.title() == "KVScope"
    with desk.page.expect_download() as loading:
        desk.page.click("#download-csv")
    rows = list(csv.DictReader(io.StringIO(loading.value.path().read_text(encoding="utf-8"), newline="")))
    assert len(rows) == desk.rows().count() and rows[0]["answer"] == f"'=cmd|x {HOSTILE}"
    assert loading.value.suggested_filename == "kvscope-comparison.csv"
    desk.clean()


def test_what_is_missing_is_said_in_its_place_and_then_how_far_it_is_and_escape_stops_it(open_desk, backend):
    backend.comparison.stands_after = 0
    desk = open_desk()
    desk.page.click("#compare-run")
    expect(desk.page.locator("#compare-progress [role=alert]")).to_contain_text("Type a question first")
    for label in ("CacheClip", "CacheBlend", "Direct reuse"):
        desk.pick("methods", label)
    desk.run()
    expect(desk.page.locator("#compare-progress [role=alert]")).to_contain_text("at least one method")
    expect(desk.page.locator("#compare-run")).to_be_visible()
    for label in ("CacheClip", "CacheBlend", "Direct reuse"):
        desk.pick("methods", label)
    desk.pick("ratios", "10 %")
    desk.pick("repeats", "3 times")
    desk.run()
    expect(desk.page.locator("#compare-progress")).to_contain_text("Round 1 of 3 · 1 of 6: Full prefill")
    expect(desk.page.locator("#compare-progress progress")).to_have_attribute("max", "18")
    desk.page.keyboard.press("Escape")
    expect(desk.page.locator("#compare-progress")).to_contain_text("Stopped early")
    desk.clean()


def test_on_a_phone_only_the_table_scrolls_sideways_and_the_answers_stand_out(open_desk, backend):
    desk = open_desk(viewport={"width": 390, "height": 844})
    desk.pick("ratios", "100 %")
    desk.run()
    desk.finish()
    wide, seen = desk.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= seen
    inner, outer = desk.page.locator(".kv-scroll").evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert inner > outer
    card = desk.page.locator("#answers li").first.bounding_box()
    assert card["x"] >= 0 and card["x"] + card["width"] <= seen
    for theme in in_both_themes(desk.page):
        word, card = desk.page.locator("#answers li h4").first.evaluate(
            "head => [getComputedStyle(head).color, getComputedStyle(head.closest('li')).backgroundColor]"
        )
        ink, paper = (sum(int(part) for part in colour[4:-1].split(",")) for colour in (word, card))
        assert (ink > 600 and paper < 120) if theme == "dark" else (ink < 200 and paper > 700), (word, card)
    desk.clean()


def test_two_people_compare_apart_and_stop_their_own(open_desk, backend):
    backend.comparison.stands_after = 1
    one, two = open_desk(), open_desk()
    one.run("Mine?")
    two.run("Yours?")
    expect(one.rows()).to_have_count(1)
    one.page.click("#compare-stop")
    expect(one.page.locator("#compare-progress")).to_contain_text("Stopped early")
    backend.comparison.stands_after = 1000
    two.finish()
    expect(two.rows()).to_have_count(4)
    expect(two.page.locator("#compare-progress h2")).to_have_text("Yours?")
