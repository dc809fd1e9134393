"""Make the README pictures from the real app: `python -m scripts.screenshots` (needs chromium)."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from assets import ASSETS

URL = "http://127.0.0.1:7899/"


def main() -> None:
    """Ask with two methods, inspect, and save the pictures."""
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
