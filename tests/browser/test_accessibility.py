"""Every page, in use or empty, light and dark, through axe-core: nothing serious."""

import pytest
from playwright.sync_api import expect

from tests.support.page_checks import contrast, in_both_themes, serious

pytestmark = pytest.mark.browser


def test_no_page_has_a_serious_fault_and_its_text_stands_out(visit):
    tab, faults = visit(), {}
    tab.ask("What is the maintenance code?")
    tab.finish()
    expect(tab.page.locator("#waterfall .bars path").first).to_be_visible()  # until then Gradio's own stand-in is there
    for theme in in_both_themes(tab.page):
        for place in ("#reply .kv-text", "#passages mark", "#numbers small", "#shelf p", ".kv-badge", ".kv-notes li"):
            assert contrast(tab.page, place) >= 4.5, (theme, place)
    for button in tab.page.get_by_role("tab").all():
        button.click()
        expect(button).to_have_attribute("aria-selected", "true")
        for theme in in_both_themes(tab.page):
            if found := serious(tab.page):
                faults[button.inner_text(), theme] = found
    assert not faults
