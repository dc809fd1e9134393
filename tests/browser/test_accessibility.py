"""No page, light or dark, has a serious accessibility violation (axe-core)."""

import pytest
from playwright.sync_api import expect

from tests.support.page_checks import contrast, in_both_themes, serious

pytestmark = pytest.mark.browser


def test_no_page_has_a_serious_violation_and_text_has_enough_contrast(visit):
    tab = visit()
    violations = {}
    tab.ask("What is the maintenance code?")
    tab.finish()
    expect(tab.page.locator("#waterfall .bars path").first).to_be_visible()  # until then Gradio shows a placeholder
    for theme in in_both_themes(tab.page):
        for place in (
            "#reply .kv-text",
            "#passages mark",
            "#metrics small",
            "#document-list p",
            ".kv-badge",
            ".kv-notes li",
        ):
            assert contrast(tab.page, place) >= 4.5, (theme, place)
    for button in tab.page.get_by_role("tab").all():
        button.click()
        expect(button).to_have_attribute("aria-selected", "true")
        for theme in in_both_themes(tab.page):
            if found := serious(tab.page):
                violations[button.inner_text(), theme] = found
    assert not violations
