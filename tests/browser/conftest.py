"""A page in Debian's Chromium: started once, one clean context a test, and nothing but 127.0.0.1 in reach."""

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import gradio as gr
import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from server.routes import app_kwargs
from tests.support.fake_backend.backend import FakeBackend
from ui.layout import App, launch_options

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)  # a busy machine draws late; nothing here is about speed
SAMPLES = {"What is the maintenance code of the Morning Gannet?": "one.txt", "Which form do staff use?": "two.txt"}


@dataclass
class Visit:
    """One open tab, with what it did that it should not have done."""

    page: Page
    backend: FakeBackend
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def ask(self, question: str) -> None:
        """Ask and come back once the page has taken the question; no answer is over before that was seen."""
        with self.backend.paused():
            self.page.fill("#question textarea", question)
            self.page.click("#ask")
            self.page.wait_for_selector("#stop")  # looks at every frame, for the real model is not held up

    def go(self, name: str) -> None:
        """Open a page by its tab, which a narrow window keeps in a menu."""
        if (tab := self.page.get_by_role("tab", name=name, exact=True)).count() == 0:
            self.page.get_by_label("More tabs").click()
            tab = self.page.locator(".overflow-dropdown button", has_text=name)
        tab.click()

    def finish(self, patience_ms: float = PATIENCE_MS) -> None:
        """Wait until the answer is complete, and the browser has kept it."""
        expect(self.page.locator("#reply article")).to_have_attribute("aria-busy", "false", timeout=patience_ms)
        expect(self.page.locator("#stop")).to_be_hidden()
        expect(self.page.locator("#chatbar nav:not([inert])")).to_be_visible()

    def choose(self, label: str) -> None:
        """Choose a method from the list."""
        self.page.click("#method input")
        self.page.get_by_role("option", name=label, exact=True).click()

    def move_ratio(self, percent: int) -> None:
        """Set the recompute slider, as a person typing into its number box would."""
        self.move("#ratio", percent)

    def move(self, slider: str, value: float) -> None:
        """Set any slider in the same way."""
        box = self.page.locator(f"{slider} input[type=number]")
        box.fill(str(value))
        box.press("Tab")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        said = f"no Chromium at {CHROMIUM}; install Debian's chromium or set CHROMIUM"
        (pytest.fail if os.environ.get("KVSCOPE_BROWSER_REQUIRED") else pytest.skip)(said)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def serve(page: gr.Blocks, backend: FakeBackend) -> str:
    """Launch a page on a free port and return its address; `page.close()` ends it."""
    options = {**launch_options(), "app_kwargs": app_kwargs(backend, "127.0.0.1")}
    _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, **options)
    return url


@pytest.fixture(scope="session")
def served() -> Iterator[tuple[FakeBackend, str]]:
    """The fake backend and its address. One server for all: the tests share its library, not their sessions."""
    backend = FakeBackend()
    page = App(backend, SAMPLES).blocks
    yield backend, serve(page, backend)
    page.close()


@pytest.fixture
def backend(served: tuple[FakeBackend, str]) -> FakeBackend:
    """The fake backend as if it were new."""
    served[0].reset()
    return served[0]


@pytest.fixture(scope="session")
def contexts(chromium: Browser) -> Iterator[dict[str, list[BrowserContext]]]:
    """Contexts that no test uses now, by what they were made with: they have the page's files in their cache."""
    free: dict[str, list[BrowserContext]] = defaultdict(list)
    yield free
    for context in (context for each in free.values() for context in each):
        context.close()


@pytest.fixture
def visit(
    chromium: Browser,
    contexts: dict[str, list[BrowserContext]],
    served: tuple[FakeBackend, str],
    backend: FakeBackend,
) -> Iterator[Callable[..., Visit]]:
    """Open a tab: `visit()`, or with what a browser context takes, e.g. `visit(color_scheme='dark')`."""
    taken: list[tuple[str, BrowserContext]] = []

    def open_tab(url: str = served[1], **options) -> Visit:
        wanted = {"viewport": {"width": 1440, "height": 900}, "locale": "en-GB", **options}
        free = contexts[repr(wanted)]
        context = free.pop() if free else chromium.new_context(**wanted)
        taken.append((repr(wanted), context))
        tab = Visit(context.new_page(), backend)
        tab.page.on("console", lambda message: message.type == "error" and tab.errors.append(message.text))
        tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
        tab.page.on("request", lambda request: _is_outside(request.url) and tab.outside.append(request.url))
        tab.page.goto(url)
        expect(tab.page.locator("#status .kv-status")).to_be_visible()
        return tab

    yield open_tab
    for wanted, context in taken:
        if forget(context):
            contexts[wanted].append(context)
        else:
            context.close()


def forget(context: BrowserContext) -> bool:
    """Close a context's tabs and empty what they kept; return whether it is as good as new."""
    try:
        context.pages[0].evaluate("() => { Storage.prototype.setItem = () => {}; localStorage.clear() }")
    except (IndexError, Error):  # the test has closed its tab, and what that kept is out of reach
        return False
    for page in context.pages:
        page.close()
    context.clear_cookies()
    return True


def _is_outside(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))
