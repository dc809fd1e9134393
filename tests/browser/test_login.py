"""The login page in a real browser: in, a question, and out in all tabs."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import new_tab, serve
from tests.server.conftest import GUARDED, PASSWORD
from tests.support.fake_backend.backend import FakeBackend
from tests.support.page_checks import serious
from ui.layout import App

pytestmark = pytest.mark.browser


@pytest.fixture
def open_tab(chromium):
    """Return a function that opens a tab of one browser window, without a session, on a page with a password."""
    backend = FakeBackend()
    page = App(backend, login=True).blocks
    url = serve(page, backend, GUARDED)
    context = chromium.new_context(locale="en-GB")

    def open_at_page():
        tab = new_tab(context, backend)
        tab.page.goto(url)
        return tab

    yield open_at_page
    context.close()
    page.close()


def test_log_in_ask_and_log_out(open_tab):
    tab = open_tab()
    password = tab.page.get_by_label("Password")
    expect(password).to_be_focused()
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme)
        assert serious(tab.page) == [], scheme  # the contrast of texts, among others
    password.fill("wrong password")
    password.press("Enter")
    expect(tab.page.get_by_role("alert")).to_have_text("The password is wrong.")
    assert tab.page.url.endswith("/login")
    tab.page.get_by_label("Password").fill(PASSWORD)
    tab.page.get_by_role("button", name="Log in").click()
    expect(tab.page.locator("#status .kv-status")).to_be_visible()
    tab.ask("What is the maintenance code?")
    tab.finish()

    other = open_tab()
    expect(other.page.get_by_role("button", name="Log out")).to_be_visible()
    other.page.get_by_role("button", name="Log out").click()
    expect(other.page.get_by_label("Password")).to_be_visible()
    tab.page.fill("#question textarea", "And then?")
    tab.page.click("#ask")
    expect(tab.page.get_by_label("Password")).to_be_visible()
    assert len(tab.backend.requests) == 1
    assert not [error for error in (*tab.errors, *other.errors) if "Content Security Policy" in error]
    assert tab.outside == other.outside == []
