"""The Settings page in a real browser: memory estimates, loading, failures, re-chunking, themes without a flash."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.fake_backend.models import EMBEDDED, LARGE, SMALL

pytestmark = pytest.mark.browser
HOSTILE = '<img src=x onerror="document.title=1">'


def open_settings(visit, **options):
    tab = visit(**options)
    tab.go("Settings")
    expect(tab.page.locator("#about .kv-parts")).to_be_visible()
    return tab


def choose(tab, name):
    box = tab.page.locator("#choice-model input")
    box.fill(name)
    box.press("Enter")
    box.press("Tab")


def clean(tab):
    assert tab.errors == [] and tab.outside == []


def test_a_model_is_checked_and_loaded_and_one_that_is_too_large_after_a_confirmation(visit, backend):
    tab = open_settings(visit)
    choose(tab, SMALL.name)
    tab.page.click("#models-check")
    estimate = tab.page.locator("#models-estimate")
    expect(estimate).to_contain_text("596\u00a0M parameters")
    expect(estimate.locator(".kv-verdict")).to_contain_text("Fits: at most 5.49\u00a0GiB of 10.99\u00a0GiB free")
    tab.page.click("#models-load")
    expect(tab.page.locator("#reload-status")).to_contain_text("Done")
    expect(tab.page.locator("#models-loaded")).to_contain_text(SMALL.name)
    assert backend.models.settings.model == SMALL.name
    backend.models.applied.clear()
    choose(tab, LARGE.name)
    tab.page.click("#models-load")
    expect(tab.page.locator("#models-estimate")).to_contain_text("Too large")
    tab.page.click("#models-cancel")
    expect(tab.page.locator("#models-estimate")).to_be_hidden()
    assert backend.models.applied == []
    tab.page.click("#models-load")
    tab.page.click("#models-anyway")
    expect(tab.page.locator("#models-loaded")).to_contain_text(LARGE.name)
    expect(tab.page.locator("#reload-status")).to_contain_text("Done")
    assert backend.models.settings.model == LARGE.name
    clean(tab)


@pytest.mark.slow
def test_a_preset_is_loaded_by_one_click_and_the_bundled_model_by_another(visit, backend):
    tab = open_settings(visit)
    card = tab.page.locator("#models-presets li", has_text="Qwen3-0.6B")
    card.get_by_role("button", name="Load").click()
    expect(tab.page.locator("#reload-status")).to_contain_text("Done")
    expect(card).to_contain_text("measured")
    expect(tab.page.locator("#choice-model input")).to_have_value(SMALL.name)
    tab.page.get_by_role("button", name="Back to the bundled model").click()
    expect(tab.page.locator("#choice-model input")).to_have_value(EMBEDDED)
    expect(card).to_contain_text("estimated")
    assert [settings.model for settings in backend.models.applied] == [SMALL.name, EMBEDDED]
    clean(tab)


@pytest.mark.slow
def test_a_download_can_be_cancelled_a_failure_shows_its_reason_and_a_hostile_name_is_text(visit, backend):
    backend.models.proceed.clear()
    tab = open_settings(visit)
    choose(tab, SMALL.name)
    tab.page.click("#models-load")
    expect(tab.page.locator("#reload-status progress")).to_be_visible()
    expect(tab.page.locator("#reload-status")).to_contain_text("Downloading Qwen/Qwen3-0.6B (1449 MiB)")
    tab.page.click("#reload-cancel")
    expect(tab.page.locator("#reload-status [role=alert]")).to_contain_text("cancelled")
    expect(tab.page.locator("#choice-model input")).to_have_value(EMBEDDED)
    assert backend.models.settings.model == EMBEDDED

    backend.models.proceed.set()
    backend.models.failure = f"{HOSTILE} failed its self-test. The previous settings are in use again."
    choose(tab, SMALL.name)
    tab.page.click("#models-load")
    expect(tab.page.locator("#reload-status [role=alert]")).to_contain_text(backend.models.failure)
    expect(tab.page.locator("#choice-model input")).to_have_value(EMBEDDED)
    backend.models.failure = ""
    choose(tab, HOSTILE)
    tab.page.click("#models-check")
    expect(tab.page.locator("#models-estimate [role=alert]")).to_be_visible()
    expect(tab.page.locator("#models-estimate [role=alert]")).to_contain_text(HOSTILE)
    backend.models.estimates[HOSTILE] = SMALL
    tab.page.click("#models-load")
    expect(tab.page.locator("#models-loaded")).to_contain_text(HOSTILE)
    assert tab.page.locator("#settings-page img[src=x]").count() == 0 and tab.page.title() == "KVScope"
    clean(tab)


def test_budgets_are_applied_and_another_chunk_size_reports_stale_documents(visit, backend):
    tab = open_settings(visit)
    tab.page.locator("#choice-cpu-cache-gib input").fill("100.5")  # more than any slider would have room for
    tab.page.click("#memory-apply")
    expect(tab.page.locator("#reload-status")).to_contain_text("Done")
    assert (backend.models.settings.cpu_cache_gib, backend.models.settings.disk_kv_bits) == (100.5, 16)
    tab.move("#choice-chunk-size", 256)
    tab.page.click("#passages-apply")
    stale = tab.page.locator("#passages-stale")
    expect(stale).to_be_visible()
    expect(stale).to_contain_text(re.compile(r"3\sdocuments were chunked at 512 / 50 tokens"))
    assert backend.models.settings.chunk_size == 256
    clean(tab)


@pytest.mark.slow
def test_the_chosen_theme_survives_a_reload_without_a_flash_of_the_other(visit):
    tab, dark = open_settings(visit), "document.body.classList.contains('dark')"
    tab.page.add_init_script(
        "window.looks = []; const look = () => { if (document.querySelector('#shell')) "
        "window.looks.push(document.body.classList.contains('dark')); requestAnimationFrame(look); }; look()"
    )
    for system, chosen in (("light", "Dark"), ("dark", "Light")):
        tab.page.emulate_media(color_scheme=system)
        tab.page.wait_for_function(f"{dark} == {int(system == 'dark')}")
        tab.page.get_by_role("radio", name=chosen).click()
        assert tab.page.evaluate(dark) == (chosen == "Dark")
        tab.page.reload()
        expect(tab.page.locator("#status .kv-status")).to_be_visible()
        looks = tab.page.evaluate("window.looks")
        assert looks and set(looks) == {chosen == "Dark"}
        tab.go("Settings")
        expect(tab.page.get_by_role("radio", name=chosen)).to_have_attribute("aria-checked", "true")
        tab.page.get_by_role("radio", name="System").click()
        assert tab.page.evaluate(dark) == (system == "dark")
    clean(tab)
    tab.page.close()  # no later test is to run the script


def test_on_a_phone_it_fits_its_controls_have_names_and_a_presets_error_scrolls_into_view(visit, backend):
    del backend.models.estimates[SMALL.name]
    tab = open_settings(visit, viewport={"width": 390, "height": 700})
    tab.page.locator("#models-presets li", has_text="Qwen3-0.6B").get_by_role("button").click()
    expect(tab.page.locator("#models-estimate [role=alert]")).to_be_in_viewport()
    choose(tab, LARGE.name)
    tab.page.click("#models-check")
    expect(tab.page.locator("#models-estimate .kv-verdict")).to_be_visible()
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    inputs = tab.page.locator("#settings-page input:visible")
    for place in range(inputs.count()):
        one = inputs.nth(place)
        assert one.evaluate("e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent?.trim()"), place
    clean(tab)
