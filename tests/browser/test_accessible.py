"""Every page, empty and in use, light and dark, through axe-core: nothing serious."""

import pytest
from playwright.sync_api import expect

from tests.browser.seen import contrast, serious

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault_and_its_text_stands_out(visit, scheme):
    tab, faults = visit(color_scheme=scheme), {}
    tab.ask("What is the maintenance code?")
    tab.finish()
    expect(tab.page.locator("#waterfall .bars path").first).to_be_visible()  # until then Gradio's own stand-in is there
    assert tab.page.evaluate("document.body.classList.contains('dark')") == (scheme == "dark")
    for place in ("#reply .kv-text", "#passages mark", "#numbers small", "#shelf p", ".kv-badge", ".kv-notes li"):
        assert contrast(tab.page, place) >= 4.5, place
    for button in tab.page.get_by_role("tab").all():
        button.click()
        expect(button).to_have_attribute("aria-selected", "true")
        if found := serious(tab.page):
            faults[button.inner_text()] = found
    assert not faults
