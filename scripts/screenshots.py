"""Make the README pictures from the real app: `python -m scripts.screenshots` (needs chromium).

With `--all FOLDER`, also pictures of each page on a phone, a tablet and a desktop, light and dark, in that folder.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from assets import ASSETS

URL = "http://127.0.0.1:7899/"


SCREENS = {"phone": (390, 844), "tablet": (820, 1180), "desktop": (1440, 900)}
PAGES = {
    "ask": ("Ask",),
    "compare": ("Lab", "Speed and answers"),
    "inspect": ("Lab", "Where it looks"),
    "library": ("Library", "Documents"),
    "search": ("Library", "Search"),
    "cache": ("Library", "Cache details"),
    "settings": ("Settings",),
}


def main() -> None:
    """Ask with two methods, inspect, and save the pictures."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="also save pictures of all pages there")
    folder = parser.parse_args().all
    with app_and_browser() as (browser, _):
        page = browser.new_page(viewport={"width": 1440, "height": 1080})
        page.goto(URL)
        wait_until_ready(page)
        # Another question first: the same one would leave an exact path, with nothing to recompute.
        _ask(page, "Full prefill", "Who is the chief engineer of Harbour Line?")
        _ask(page, "CacheClip trained", "How much does the island card cost a year?")
        page.wait_for_timeout(1500)
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=ASSETS / "ask.png")
        page.click("#reply .kv-acts >> text=Inspect")
        expect(page.locator("#inspect-results")).to_be_visible(timeout=120_000)
        page.wait_for_timeout(3000)
        page.screenshot(path=ASSETS / "inspect.png")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            _all_pages(page, folder)


@contextmanager
def app_and_browser() -> Iterator[tuple[Browser, Path]]:
    """Start the app on an empty data folder and a browser; yield the browser and the folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "app.py", "--port", "7899", "--data", folder]
        app = subprocess.Popen(command, cwd=ASSETS.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(240):
                with suppress(OSError), urllib.request.urlopen(URL, timeout=2):
                    break
                time.sleep(0.5)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                yield browser, Path(folder)
                browser.close()
        finally:
            app.send_signal(signal.SIGTERM)
            app.wait(20)


def _all_pages(page: Page, folder: Path) -> None:
    """Save each page of the app on each screen in each theme, with the chat of this page."""
    for name, tabs in PAGES.items():
        for label in tabs:
            page.get_by_role("tab", name=label, exact=True).click()
        page.wait_for_timeout(2000)
        for screen, (width, height) in SCREENS.items():
            page.set_viewport_size({"width": width, "height": height})
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme)
                page.evaluate("scrollTo(0, 0)")
                page.wait_for_timeout(500)
                page.screenshot(path=folder / f"{name}-{screen}-{theme}.png")


def wait_until_ready(page: Page) -> None:
    """Wait until the sample documents are indexed."""
    expect(page.locator("#status")).to_contain_text("SmolLM2", timeout=120_000)
    expect(page.locator("#document-list")).to_contain_text("season-report.html", timeout=120_000)
    expect(page.locator("#status")).not_to_contain_text("Adding the sample", timeout=120_000)


def _ask(page: Page, method: str, question: str) -> None:
    toggle = page.get_by_role("button", name="Answer settings")
    is_folded = toggle.is_visible()  # in a chat
    if is_folded:
        toggle.click()
    if not page.locator("#method").is_visible():
        page.click("#advanced > button")
    page.locator("#method input").click()
    page.get_by_role("option", name=method, exact=True).click()
    if is_folded:
        toggle.click()
    page.fill("#question textarea", question)
    page.click("#ask")
    expect(page.locator("#stop")).to_be_visible()
    expect(page.locator("#reply article")).to_have_attribute("aria-busy", "false", timeout=120_000)
    expect(page.locator("#stop")).to_be_hidden()


if __name__ == "__main__":
    main()
