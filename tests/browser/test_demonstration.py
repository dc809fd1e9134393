"""The first screen in a real browser: the recording replays, and a live run replaces it."""

import re
import time
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from store.types import Document
from tests.browser.conftest import SAMPLES
from tests.support.page_checks import serious

pytestmark = pytest.mark.browser
CLOCKS = "#demo .kv-clock"
WATCH = """() => {
    window.seen = [];
    for (const lane of document.querySelectorAll(".kv-demo-lane")) lane.dataset.ttft /= 5;
    const [full, reuse] = document.querySelectorAll(".kv-clock");
    const look = () => {
        window.seen.push([full.textContent, reuse.textContent]);
        if (document.querySelector(".kv-playing")) requestAnimationFrame(look);
    };
    document.querySelector("[data-play]").click();
    setTimeout(() => document.querySelector("[data-play]").click(), 100);  // without effect
    requestAnimationFrame(look);
}"""


def test_the_recording_replays_with_both_clocks_and_is_there_while_models_load(visit, backend):
    backend.state = replace(backend.state, ready=False, message="Loading")
    tab = visit()
    before = tab.page.locator(CLOCKS).all_inner_texts()
    tab.page.evaluate(WATCH)
    expect(tab.page.locator(".kv-playing")).to_have_count(0)
    seen = tab.page.evaluate("window.seen")
    assert seen[-1] == before
    lasted = [next(i for i, pair in enumerate(seen) if pair[lane] == before[lane]) for lane in (0, 1)]
    assert 1 < lasted[1] < lasted[0]  # CacheClip's clock stops first
    assert tab.errors == [] and tab.outside == []
    assert serious(tab.page) == []


def test_a_live_run_replaces_the_recording_and_documents_can_be_added(visit, backend):
    backend.stored_documents = [
        Document(f"{n}" * 64, name, 1, None, 1, time.time()) for n, name in enumerate(SAMPLES.values())
    ]
    tab = visit()
    expect(tab.page.locator(".kv-demo-source")).to_contain_text("Recorded on")
    backend.comparison.pause_after_steps = 0
    tab.page.click("#demo-live")
    expect(tab.page.locator("#demo h2")).to_contain_text("Running")
    expect(tab.page.locator(CLOCKS).first).to_have_text(re.compile(r"[1-9]"))  # no longer 0.00 s: the clock runs
    backend.comparison.pause_after_steps = 1000
    expect(tab.page.locator(".kv-demo-source")).to_contain_text("just now")
    expect(tab.page.locator("#demo h2")).to_contain_text("sooner")
    expect(tab.page.locator("#demo-stop")).to_be_hidden()
    assert len(backend.comparison.requests[-1].documents) == len(SAMPLES)
    with tab.page.expect_file_chooser() as chooser:
        tab.page.click("[data-add]")
    assert chooser.value.is_multiple()
    assert tab.errors == [] and tab.outside == []
