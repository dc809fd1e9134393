"""Fixtures for tests in Debian's Chromium: one browser and one server per process, a cleared tab per test."""

import itertools
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import gradio as gr
import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from server.access import LOCAL, Access
from server.routes import app_kwargs
from tests.support.fake_backend.backend import FakeBackend
from tests.support.ports import free_port
from ui.layout import App, launch_options

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-features=PreloadTopChromeWebUI",  # a renderer for menus of Chromium itself, in every window
]
DESKTOP = {"width": 1440, "height": 900}
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)  # generous: a busy machine draws late, and no test here is about speed
WATCH_STOP = """() => {
    window.stopWasShown = false;
    const look = () => {
        window.stopWasShown = Boolean(document.querySelector("#stop")?.checkVisibility());
        if (!window.stopWasShown) requestAnimationFrame(look);
    };
    look();
}"""
FORGET = "() => { Storage.prototype.setItem = () => {}; localStorage.clear(); sessionStorage.clear() }"
SAMPLES = {"What is the maintenance code of the Morning Gannet?": "one.txt", "Which form do staff use?": "two.txt"}


@dataclass
class Visit:
    """One open tab, with its console errors and its requests to other hosts."""

    page: Page
    backend: FakeBackend
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def ask(self, question: str) -> None:
        """Ask a question and return when the page shows Stop; the fake backend answers no sooner."""
        with self.backend.paused():
            self.page.fill("#question textarea", question)
            self.page.evaluate(WATCH_STOP)  # before the click, because the real model cannot be paused
            self.page.click("#ask")
            self.page.wait_for_function("window.stopWasShown", timeout=PATIENCE_MS)

    def go(self, name: str, part: str = "") -> None:
        """Open a page by its tab, and a part of it by the tab of the part."""
        for label in (name, part) if part else (name,):
            tab = self.page.get_by_role("tab", name=label, exact=True)
            tab.click()
            expect(tab).to_have_attribute("aria-selected", "true")

    def finish(self, patience_ms: float = PATIENCE_MS) -> None:
        """Wait until the answer is complete and stored in the browser."""
        expect(self.page.locator("#reply article")).to_have_attribute("aria-busy", "false", timeout=patience_ms)
        expect(self.page.locator("#stop")).to_be_hidden()
        expect(self.page.locator("#chatbar nav:not([inert])")).to_be_visible()

    def wait_for_events(self) -> None:
        """Wait until the results of all earlier events are shown; the server sends them in order.

        The cache details must have been open: a click on their Refresh button, without focus, is the last event.
        """
        totals = self.page.locator("#cache-totals")
        before = totals.inner_html()
        self.backend.cache.ask(missed=100)
        self.page.evaluate("document.querySelector('#cache-buttons [data-act=refresh]').click()")
        self.page.wait_for_function(
            "before => document.querySelector('#cache-totals').innerHTML != before", arg=before, timeout=PATIENCE_MS
        )

    def open_settings(self) -> None:
        """Show the settings of the question; in a chat they are folded."""
        if not self.page.locator("#settings").is_visible():
            self.page.get_by_role("button", name="Answer settings").click()

    def open_advanced(self) -> None:
        """Show all settings of the question."""
        self.open_settings()
        if not self.page.locator("#method").is_visible():
            self.page.click("#advanced > button")
            expect(self.page.locator("#method")).to_be_visible()

    def choose(self, label: str) -> None:
        """Choose a method from the list."""
        self.open_advanced()
        self.page.click("#method input")
        self.page.get_by_role("option", name=label, exact=True).click()

    def move_ratio(self, percent: int) -> None:
        """Set the recompute slider by typing into its number box."""
        self.move("#ratio", percent)

    def move(self, slider: str, value: float) -> None:
        """Set a slider by typing into its number box."""
        if self.page.locator(f"#settings {slider}").count():
            self.open_settings()
        elif slider == "#passages-count":
            self.open_advanced()
        box = self.page.locator(f"{slider} input[type=number]")
        box.fill(str(value))
        box.press("Tab")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        message = f"no Chromium at {CHROMIUM}; install Debian's chromium or set CHROMIUM"
        (pytest.fail if os.environ.get("KVSCOPE_BROWSER_REQUIRED") else pytest.skip)(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def serve(page: gr.Blocks, backend: FakeBackend, access: Access = LOCAL) -> str:
    """Launch a page on a free port and return its address; `page.close()` ends it."""
    options = {**launch_options(app_kwargs(backend, "127.0.0.1", access), page=page), "server_port": free_port()}
    _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, **options)
    return url


@pytest.fixture(scope="session")
def served() -> Iterator[tuple[FakeBackend, str]]:
    """Return the fake backend and its address; one server per process, one session per tab."""
    backend = FakeBackend()
    page = App(backend, SAMPLES).blocks
    yield backend, serve(page, backend)
    page.close()


@pytest.fixture
def backend(served: tuple[FakeBackend, str]) -> FakeBackend:
    """Return the fake backend, reset."""
    served[0].reset()
    return served[0]


@pytest.fixture(scope="session")
def tabs(chromium: Browser) -> Iterator[dict[str, list[Visit]]]:
    """Yield unused tabs by the options of their contexts; a reused tab has the page's scripts loaded and compiled."""
    free: dict[str, list[Visit]] = defaultdict(list)
    yield free
    for tab in itertools.chain(*free.values()):
        tab.page.context.close()


@pytest.fixture
def visit(
    chromium: Browser, tabs: dict[str, list[Visit]], served: tuple[FakeBackend, str], backend: FakeBackend
) -> Iterator[Callable[..., Visit]]:
    """Return a function that opens a tab: `visit()`, or with options, e.g. `visit(color_scheme='dark')`.

    Later tests use the tab again, without a reload of what is cached. A tab that cannot be cleared is closed.
    """
    opened: list[tuple[str, Visit]] = []

    def open_tab(url: str = served[1], viewport: dict = DESKTOP, color_scheme: str = "light", **options) -> Visit:
        free = tabs[repr(options)]
        tab = free.pop() if free else new_tab(chromium.new_context(locale="en-GB", **options), backend)
        opened.append((repr(options), tab))
        tab.page.set_viewport_size(viewport)
        tab.page.emulate_media(
            color_scheme=color_scheme, reduced_motion="reduce"
        )  # animations take a third of the time
        tab.page.goto(url)
        expect(tab.page.locator("#status .kv-status")).to_be_visible()
        return tab

    yield open_tab
    blocked = [error for _, tab in opened for error in tab.errors if "Content Security Policy" in error]
    for options, tab in opened:
        if clear(tab):
            tabs[options].append(tab)
        else:
            tab.page.context.close()
    assert blocked == []


def new_tab(context: BrowserContext, backend: FakeBackend) -> Visit:
    tab = Visit(context.new_page(), backend)
    tab.page.on("console", lambda message: message.type == "error" and tab.errors.append(message.text))
    tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.page.on("request", lambda request: _is_outside(request.url) and tab.outside.append(request.url))
    return tab


def clear(tab: Visit) -> bool:
    """Leave the page and clear what it has stored; return False if that failed."""
    context = tab.page.context
    try:
        for page in context.pages:
            if page != tab.page:
                page.close()
        tab.page.evaluate(FORGET)
        tab.page.goto("about:blank")
        tab.page.mouse.move(0, 0)
    except Error:  # the test has closed its tab, so its storage cannot be reached
        return False
    context.clear_cookies()
    tab.errors.clear()
    tab.outside.clear()
    return True


def _is_outside(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))
