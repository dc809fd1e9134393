"""Measures the page of the real app in a browser: `python scripts/page_speed.py` (needs requirements-dev.txt and chromium).

Prints how long a load takes, what an inspection sends, and how long a move of Inspect's slider takes to be drawn.
"""

import random
import statistics
from collections import defaultdict
from pathlib import Path

from picture import URL, opened, ready
from playwright.sync_api import BrowserContext, Page, expect

LOADS, MOVES, PASSAGES = 5, (30, 10, 45, 25, 60, 15, 35, 50, 20), 16
MOVE = """async value => {
    const said = document.querySelector("#inspect-summary"), before = said.innerText;
    const slider = document.querySelector("#inspect-choice input[type=range]");
    const began = performance.now();
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(slider, value);
    for (const name of ["input", "change"]) slider.dispatchEvent(new Event(name, { bubbles: true }));
    while (said.innerText === before) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""


def main() -> None:
    """Measure, and print."""
    with opened() as (browser, folder):
        ready(_loaded(browser.new_context())[0])
        loads = [_loaded(browser.new_context())[1:] for _ in range(LOADS)]
        for name, times in zip(("first paint", "usable"), zip(*loads, strict=True), strict=True):
            print(f"{name}: median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms, n {LOADS}")
        _inspection(browser.new_context(viewport={"width": 1440, "height": 900}), folder)


def _loaded(context: BrowserContext) -> tuple[Page, float, float]:
    """Return a page, and after how many ms it was painted first and could be used; nothing was in the cache."""
    page = context.new_page()
    page.goto(URL)
    expect(page.locator("#status .kv-status")).to_be_visible(timeout=60_000)
    usable = page.evaluate("performance.now()")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return page, painted, usable


def _inspection(context: BrowserContext, folder: Path) -> None:
    page = _loaded(context)[0]
    file = folder / "log.txt"
    file.write_text(_log())
    page.set_input_files("#upload input[type=file]", file)
    expect(page.locator("#shelf")).to_contain_text("log.txt", timeout=300_000)
    expect(page.locator("#progress .kv-file-done")).to_have_count(1, timeout=300_000)
    page.get_by_role("tab", name="Inspect").click()
    page.fill("#inspect-question textarea", "What is written down at the north pier in winter?")
    count = page.locator("#inspect-count input[type=number]")
    count.fill(str(PASSAGES))
    count.press("Tab")
    sent: dict[str, int] = defaultdict(int)
    files: set[str] = set()  # scripts and styles, which are fetched once
    network = context.new_cdp_session(page)
    network.on(
        "Network.responseReceived", lambda told: "/assets/" in told["response"]["url"] and files.add(told["requestId"])
    )
    network.on(
        "Network.dataReceived",
        lambda told: sent.update({told["requestId"]: sent[told["requestId"]] + told["dataLength"]}),
    )
    network.send("Network.enable")
    page.click("#inspect-go")
    expect(page.locator("#inspect-found")).to_be_visible(timeout=300_000)
    expect(page.locator("#inspect-map .heatmaplayer image")).to_have_count(1, timeout=60_000)
    page.wait_for_timeout(3000)
    print(page.inner_text("#inspect-summary").splitlines()[-3:])
    size = sum(length for request, length in sent.items() if request not in files)
    print(f"inspection: {size / 1e6:.2f} MB came to the page")
    times = []
    for percent in MOVES:
        times.append(page.evaluate(MOVE, percent))
        page.wait_for_timeout(800)
    print(f"slider to redrawn: median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms, n {len(times)}")


def _log() -> str:
    """Return a document that fills sixteen passages and more."""
    draw = random.Random(4)
    boats, places = ("Morning Gannet", "Old Kestrel", "Silver Tern"), ("north pier", "stone quay", "east slip")
    times = ("in winter", "at dawn", "on Sundays")
    return " ".join(
        f"The {draw.choice(boats)} lies at the {draw.choice(places)} {draw.choice(times)}, "
        f"and number {draw.randint(1000, 9999)} is written down."
        for _ in range(700)
    )


if __name__ == "__main__":
    main()
