"""Measure the real app in a browser: `python -m scripts.page_speed` (needs requirements-dev.txt and chromium).

Prints the page load time with its requests and bytes, the bytes that an inspection sends, the time to redraw after
moving the slider on Inspect and, for the preview under the last answer, on Ask, and the time that other controls take.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from scripts.screenshots import URL, app_and_browser, wait_until_ready

LOADS, MOVES, PASSAGES = 5, (30, 10, 45, 25, 60, 15, 35, 50, 20), 16
QUESTION = "What is written down at the north pier in winter?"
MOVE = """async ([shown, ratio, value]) => {
    const summary = document.querySelector(shown), before = summary.innerText;
    const slider = document.querySelector(`${ratio} input[type=range]`);
    const began = performance.now();
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(slider, value);
    for (const name of ["input", "change"]) slider.dispatchEvent(new Event(name, { bubbles: true }));
    while (summary.innerText === before) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""

CLICK = """async ([clicked, shown]) => {
    const state = () => {
        const element = document.querySelector(shown);
        return element?.checkVisibility() ? getComputedStyle(element).colorScheme + element.outerHTML : null;
    };
    const before = state();
    const began = performance.now();
    document.querySelector(clicked).click();
    while (state() === before) {
        if (performance.now() - began > 10_000) throw new Error(`${clicked} does not change ${shown}`);
        await new Promise(requestAnimationFrame);
    }
    await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""
CLICKS = 6
INSPECT, DOCUMENTS, CACHE = ("Lab", "Where it looks"), ("Library", "Documents"), ("Library", "Cache details")
CONTROLS: list[tuple[str, tuple[str, ...], list[str], str]] = [  # name, tabs, what is clicked in turns, what changes
    ("tab Lab", ("Ask",), ["#tab-lab-button", "#tab-ask-button"], "#lab-page"),
    ("tab Library", ("Ask",), ["#tab-library-button", "#tab-ask-button"], "#library-page"),
    ("tab Settings", ("Ask",), ["#tab-settings-button", "#tab-ask-button"], "#settings-page"),
    ("tab Speed and answers", INSPECT, ["#tab-compare-button", "#tab-inspect-button"], "#compare-page"),
    ("passage", INSPECT, [f"#inspect-passage label:nth-of-type({n}) input" for n in (2, 1)], "#inspect-passages"),
    ("citation", ("Ask",), ["#reply .kv-cite", "#drawer [data-close]"], "#drawer"),
    ("sorting documents", DOCUMENTS, ["#library-list [data-act=sort][data-id=size]"], "#library-list"),
    ("passages of a document", DOCUMENTS, ["#library-list [data-act=open]"], "#library-list"),
    (
        "passage of the cache",
        CACHE,
        [f"#cache-list {first}button" for first in ("", "li:has(button) ~ li ")],
        "#cache-detail",
    ),
    ("theme", ("Settings",), [f"#themes [data-theme={name}]" for name in ("dark", "light")], "html"),
]


def main() -> None:
    """Measure and print."""
    with app_and_browser() as (browser, folder):
        wait_until_ready(_load(browser.new_context())[0])
        loads = [_load(browser.new_context())[1:] for _ in range(LOADS)]
        for name, times in zip(("first paint", "usable"), zip(*loads, strict=True), strict=True):
            _print_times(name, times)
        _transfers(browser.new_context())
        _inspection(browser.new_context(viewport={"width": 1440, "height": 900}), folder)


def _load(context: BrowserContext) -> tuple[Page, float, float]:
    """Return a page, and the ms until first paint and until usable, with an empty cache."""
    page = context.new_page()
    page.goto(URL)
    expect(page.locator("#status .kv-status")).to_be_visible(timeout=60_000)
    usable = page.evaluate("performance.now()")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return page, painted, usable


def _transfers(context: BrowserContext) -> None:
    """Print what opening the page transfers, with an empty cache."""
    page = context.new_page()
    sizes: list[int] = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    page.goto(URL)
    expect(page.locator("#status .kv-status")).to_be_visible(timeout=60_000)
    page.wait_for_timeout(1000)
    print(f"opening the page: {len(sizes)} requests, {sum(sizes) / 1e3:.0f} KB")


def _inspection(context: BrowserContext, folder: Path) -> None:
    page = _load(context)[0]
    file = folder / "log.txt"
    sentence = "The Morning Gannet lies at pier {} in winter, and number {} is written down. "
    file.write_text("".join(sentence.format(n, 7919 * n % 10_000) for n in range(700)))
    page.set_input_files("#upload input[type=file]", file)
    expect(page.locator("#document-list")).to_contain_text("log.txt", timeout=300_000)
    expect(page.locator("#progress .kv-files-ended")).to_have_count(1, timeout=300_000)
    page.get_by_role("tab", name="Lab").click()
    page.get_by_role("tab", name="Where it looks").click()
    page.fill("#lab-question textarea", QUESTION)
    _set_passages(page, "#lab-passages")
    urls: dict[str, str] = {}
    sent: Counter[str] = Counter()  # bytes by request
    network = context.new_cdp_session(page)
    network.on("Network.responseReceived", lambda event: urls.update({event["requestId"]: event["response"]["url"]}))
    network.on("Network.dataReceived", lambda event: sent.update({event["requestId"]: event["dataLength"]}))
    network.send("Network.enable")
    page.click("#inspect-go")
    expect(page.locator("#inspect-results")).to_be_visible(timeout=300_000)
    expect(page.locator("#inspect-map .heatmaplayer image")).to_have_count(1, timeout=60_000)
    page.wait_for_timeout(3000)
    print(page.inner_text("#inspect-summary").splitlines()[-3:])
    # Scripts and styles are fetched once.
    size = sum(length for request, length in sent.items() if "/assets/" not in urls.get(request, ""))
    print(f"inspection: {size / 1e6:.2f} MB sent to the page")
    _move_slider(page, "Inspect", "#inspect-summary", "#inspect-ratio")
    page.get_by_role("tab", name="Ask").click()
    page.click("#advanced > button")
    _set_passages(page, "#passages-count")
    page.fill("#question textarea", QUESTION)
    page.click("#ask")
    expect(page.locator("#reply article")).to_have_attribute("aria-busy", "false", timeout=300_000)
    page.wait_for_timeout(3000)
    _move_slider(page, "Ask", "#preview", "#ratio")
    for name, tabs, clicked, shown in CONTROLS:
        for tab in tabs:
            page.get_by_role("tab", name=tab, exact=True).click()
        page.wait_for_timeout(1500)
        times = []
        for number in range(CLICKS):
            times.append(page.evaluate(CLICK, [clicked[number % len(clicked)], shown]))
            page.wait_for_timeout(800)
        _print_times(name, times)


def _set_passages(page: Page, slider: str) -> None:
    count = page.locator(f"{slider} input[type=number]")
    count.fill(str(PASSAGES))
    count.press("Tab")


def _move_slider(page: Page, name: str, shown: str, slider: str) -> None:
    times = []
    for percent in MOVES:
        times.append(page.evaluate(MOVE, [shown, slider, percent]))
        page.wait_for_timeout(800)
    _print_times(f"{name}: slider move to redraw", times)


def _print_times(name: str, times: Sequence[float]) -> None:
    print(f"{name}: median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms, n {len(times)}")


if __name__ == "__main__":
    main()
