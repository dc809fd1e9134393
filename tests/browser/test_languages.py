"""The interface in German and Chinese; what users write, and what documents say, stays as it is."""

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from backend.interface.models import FidelityStatus
from engine.fidelity import FidelityCurve, FidelityPoint
from tests.browser.conftest import SAMPLES
from tests.support.fake_backend.backend import READY

pytestmark = pytest.mark.browser

TREE = [{"type": "icicle", "labels": ["Library"], "hovertext": ["Library<br>miss"], "parents": [""]}]
SHOW = """([name, texts]) => {
    const element = document.body.appendChild(document.createElement("div"));
    element.id = "shown";
    element.append(...texts.map((text) => Object.assign(document.createElement("p"), { textContent: text })));
    element.appendChild(Object.assign(document.createElement("p"), { textContent: name, className: "file-name" }));
}"""


def choose(tab, language):
    """Choose a language on the Settings page, which reloads the page."""
    tab.page.click("#tab-settings-button")
    with tab.page.expect_event("load"):
        tab.page.click(f"#languages [data-language={language}]")
    expect(tab.page.locator("html")).to_have_attribute("lang", "en" if language == "browser" else language)
    tab.page.wait_for_load_state()


def tabs_are(tab, *names):
    expect(tab.page.locator("#pages > .tab-wrapper [role=tab]:visible")).to_have_text(list(names))


def add(tab, name, text):
    tab.page.set_input_files(
        "#upload input[type=file]", {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
    )


def test_the_interface_is_translated_but_no_text_of_a_user(visit, backend):
    backend.state = replace(READY, adding_samples=True)  # so that the questions about them stay
    tab = visit()
    choose(tab, "de")
    tabs_are(tab, "Fragen", "Labor", "Bibliothek", "Einstellungen")
    expect(tab.page.locator("#question textarea")).to_have_attribute("placeholder", "Frage an die Dokumente …")
    expect(tab.page.locator("#welcome .kv-sample").first).to_have_text(next(iter(SAMPLES)))
    backend.state = READY

    tab.choose("Direkte Wiederverwendung")
    expect(tab.page.locator("#method input")).to_have_value("Direkte Wiederverwendung")

    add(tab, "Library", "Settings")
    documents = tab.page.locator("#document-list")
    expect(documents.locator("bdi")).to_have_text("Library")
    expect(documents).to_contain_text("8\u00a0Passagen")
    expect(tab.page.locator("#progress")).to_contain_text("1\u00a0Datei bereit")
    documents.locator("[data-act=delete]").click()
    expect(documents).to_contain_text("Soll Library mit allem daraus Berechneten gelöscht werden?")
    documents.locator("[data-act=keep]").click()

    backend.answer, backend.texts = "Type a question first, then press Enter. [1]", ["Library", "Ask"]
    tab.ask("Settings")
    tab.finish()
    expect(tab.page.locator("#reply .kv-question")).to_have_text("Settings")
    expect(tab.page.locator("#reply .kv-text")).to_have_text("Type a question first, then press Enter. 1")
    expect(tab.page.locator("#reply .kv-text .kv-cite")).to_have_attribute("aria-label", "Quelle 1")
    expect(tab.page.locator("#passages .kv-passage")).to_have_text(["Library", "Ask"])
    expect(tab.page.locator("#chatbar summary bdi").first).to_have_text("Settings")
    expect(tab.page.locator("#history")).to_contain_text("Dieser Chat · 1\u00a0Antwort")
    expect(tab.page.locator("#waterfall figcaption")).to_contain_text("Erstes Token nach")

    tab.page.get_by_role("button", name="Antworteinstellungen").click()
    tab.page.click("#where input")
    tab.page.locator("#where [role=option]", has_text="Library").click()
    expect(tab.page.locator("#where .token")).to_have_text("Library")
    expect(tab.page.locator("#whole")).to_contain_text("Das ganze Dokument verwenden")
    assert tab.errors == [] and tab.outside == []


def test_names_stay_in_sentences_and_german_has_its_own_numbers(visit):
    tab = visit()
    choose(tab, "de")
    german = {
        "Image (1).png is empty.": "Image (1).png ist leer.",
        "7,186 of 17,186 tokens computed": "7.186 von 17.186 Token berechnet",
        "Load: SmolLM2-1.7B": "Laden: SmolLM2-1.7B",
        "1.95 s": "1,95 s",
        "1.5\u00a0GiB": "1,5\u00a0GiB",
        "SmolLM2-1.7B": "SmolLM2-1.7B",
        "0.1.0": "0.1.0",
    }
    tab.page.evaluate(SHOW, ["Library", list(german)])
    expect(tab.page.locator("#shown p")).to_have_text([*german.values(), "Library"])


@pytest.mark.slow
@pytest.mark.slow
def test_figures_are_translated_but_the_names_in_the_tree_of_the_cache_are_not(visit, backend, monkeypatch):
    points = tuple(FidelityPoint(at, kl, 0.9, 1500.0, 4.0) for at, kl in ((0.0, 0.2), (0.1, 0.08), (0.4, 0.02)))
    status = FidelityStatus(24, 24, FidelityCurve("cacheclip", points, 6000.0, 24))
    monkeypatch.setattr(backend.models, "fidelity_status", status)
    tab = visit()
    choose(tab, "de")
    tab.page.click("#tab-settings-button")
    plot = tab.page.locator("#fidelity-plot")
    expect(plot.locator(".xtitle")).to_have_text("Zeit bis zum ersten Token")
    expect(plot.locator(".ytitle")).to_have_text("KL zum vollständigen Prefill, Nats")
    expect(plot.locator(".annotation-text")).to_have_text(["schnell", "ausgewogen", "originalgetreu"])
    expect(plot).to_contain_text("vollständiges Prefill")
    hover = tab.page.evaluate("document.querySelector('#fidelity-plot .js-plotly-plot').data[0].hovertext[1]")
    assert hover.replace("\u00a0", " ") == (
        "10 % neu berechnet: 1,50 s, 4,0-mal so schnell<br>KL 0,08 Nats, gleiches Token 90 %"
    )
    drawn = """(traces) => {
        const element = document.body.appendChild(document.createElement("div"));
        return Plotly.react(element, traces, {}).then(() => element.data);
    }"""
    assert tab.page.evaluate(drawn, TREE) == TREE
    template = "%{y}, near token %{x:.0f}: %{text} times the average<extra></extra>"
    (heat,) = tab.page.evaluate(drawn, [{"type": "heatmap", "hovertemplate": template, "y": ["layer 1", "auxiliary"]}])
    assert heat["y"] == ["Schicht 1", "Hilfsmodell"]
    assert heat["hovertemplate"] == "%{y}, nahe Token %{x:.0f}: das %{text}-Fache des Durchschnitts<extra></extra>"
    named = {"type": "scatter", "name": "report 901, v1.5", "hovertext": ["Library.pdf: nats"]}
    assert tab.page.evaluate(drawn, [named]) == [named]
    assert tab.errors == [] and tab.outside == []


@pytest.mark.slow
def test_a_language_is_kept_until_another_is_chosen_and_english_is_never_fetched(visit):
    tab = visit()
    fetched = []
    tab.page.on("request", lambda request: "/translations/" in request.url and fetched.append(request.url))
    choose(tab, "zh")
    tabs_are(tab, "提问", "实验室", "文档库", "设置")
    tab.page.reload()
    tabs_are(tab, "提问", "实验室", "文档库", "设置")
    tab.page.click("#tab-settings-button")
    expect(tab.page.locator("#languages [aria-checked=true]")).to_have_text("中文")
    assert len(fetched) == 2
    for english in ("en", "browser"):
        choose(tab, english)
        tabs_are(tab, "Ask", "Lab", "Library", "Settings")
    assert len(fetched) == 2
    assert tab.errors == [] and tab.outside == []
