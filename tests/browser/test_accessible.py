"""Every page, empty and in use, light and dark, through axe-core: nothing serious."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def serious(page):
    """Return what axe-core finds serious or critical, with where."""
    found = Axe().run(page).response["violations"]
    return [
        (each["id"], each["impact"], [node["html"][:160] for node in each["nodes"]][:4])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault(visit, scheme):
    tab, faults = visit(color_scheme=scheme), {}
    tab.ask("What is the maintenance code?")
    tab.finish()
    expect(tab.page.locator("#waterfall .bars path").first).to_be_visible()  # until then Gradio's own stand-in is there
    for button in tab.page.get_by_role("tab").all():
        button.click()
        expect(button).to_have_attribute("aria-selected", "true")
        if found := serious(tab.page):
            faults[button.inner_text()] = found
    assert not faults
