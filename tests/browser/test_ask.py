"""The Ask page in a real browser."""

import json
import time

import pytest
from playwright.sync_api import expect

from backend.interface.models import FidelityStatus
from engine.fidelity import FidelityCurve, FidelityPoint
from store.errors import StoreFull
from store.types import Document
from tests.browser.conftest import PATIENCE_MS, SAMPLES
from tests.support.fake_backend.backend import METHODS
from tests.support.page_checks import serious, too_wide

pytestmark = pytest.mark.browser

HOSTILE = [
    "<script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed = 2'>",
    "${window.harmed = 3} {{constructor}} $$\\frac{1}{2}$$ <b>bold</b> \u202egnp.exe\x07",
]


def test_an_answer_streams_with_passages_waterfall_numbers_and_trace(visit, backend):
    tab = visit()
    with backend.paused(after=3):
        tab.page.fill("#question textarea", "What is the maintenance code?")
        tab.page.press("#question textarea", "Enter")
        expect(tab.page.locator("#passages mark").first).to_be_visible()
        expect(tab.page.locator("#reply .kv-state")).to_have_text("Writing…")
        expect(tab.page.locator("#reply .kv-text")).to_contain_text("The")
        early = tab.page.inner_text("#reply .kv-text")
    tab.finish()
    assert len(tab.page.inner_text("#reply .kv-text")) > len(early)
    expect(tab.page.locator("#reply .kv-text")).to_contain_text("handed in before noon")
    expect(tab.page.locator("#question textarea")).to_have_value("")
    tab.page.press("#question textarea", "Enter")
    expect(tab.page.locator("#ask-message")).to_contain_text("Type a question first")
    assert tab.page.locator("#passages .kv-card").count() == len(backend.texts)
    badges = [badge.replace("\u00a0", " ") for badge in tab.page.locator(".kv-tier").all_inner_texts()]
    assert sum("exact" in badge for badge in badges) == 1
    expect(tab.page.locator("#waterfall .kv-stage")).to_have_count(7)
    expect(tab.page.locator("#metrics")).to_contain_text("386 ms")
    expect(tab.page.locator("#reply .kv-notes")).to_contain_text("2 passages did not fit")
    with tab.page.expect_download() as download:
        tab.page.click("#download")
    assert download.value.suggested_filename == "kvscope-trace.json"
    assert json.loads(download.value.path().read_text())["question"] == "What is the maintenance code?"
    assert tab.errors == [] and tab.outside == []


def test_a_card_scrolls_to_the_lines_that_support_the_answer(visit, backend):
    said = "The code of the Morning Gannet is 5730264."
    backend.texts = [f"{'The quay was quiet. ' * 60}{said} {'Gulls slept on it. ' * 60}"]
    backend.answer = "It is 5730264 [1]."
    tab = visit()
    tab.ask("What is the maintenance code?")
    tab.finish()
    quote = tab.page.locator(".kv-card .kv-quoted")
    assert "".join(quote.all_inner_texts()) == said  # a part of it was recomputed
    card, line = tab.page.locator(".kv-passage").bounding_box(), quote.first.bounding_box()
    assert abs(line["y"] - card["y"]) < line["height"]
    expect(tab.page.locator(".kv-legend")).to_contain_text("supports the answer")


@pytest.mark.slow
def test_retrying_with_another_ratio_adds_a_row_to_the_metrics_table(visit, backend):
    tab = visit()
    with backend.paused(after=3):
        tab.ask("What is the maintenance code?")
        tab.page.fill("#question textarea", "And then?")
        with tab.page.expect_response(lambda answer: "And then?" in (answer.request.post_data or "")):
            tab.page.press("#question textarea", "Enter")
    tab.finish()
    tab.move_ratio(50)
    tab.page.click("#reply >> text=Retry")
    rows = tab.page.locator("#history tbody tr")
    expect(rows).to_have_count(2)
    assert [request.recompute_ratio for request in backend.requests] == [0.2, 0.5]
    tab.page.click("#reply >> text=Save")
    expect(tab.page.locator("#document-list")).to_contain_text("Answer")
    asked, before = rows.nth(0).inner_text(), rows.nth(1).inner_text()
    assert "50" in asked and "734 ms" in asked.replace("\u00a0", " ")
    assert "20" in before and "386 ms" in before.replace("\u00a0", " ")
    expect(tab.page.locator("#thread article")).to_have_count(0)
    tab.finish()
    assert tab.page.input_value("#question textarea") == "And then?"  # typed while the first answer was written


def test_moving_the_ratio_marks_a_preview_and_ask_again_runs_it(visit, backend):
    backend.stored_documents = [Document("d" * 64, "log.txt", 10, None, 1, time.time())]
    backend.answer, backend.texts = "Nothing is quoted.", ["The quay was quiet. " * 99]
    tab = visit()
    tab.ask("What is the maintenance code?")
    tab.finish()
    text, added, line = (tab.page.locator(each) for each in (".kv-passage", ".kv-passage .kv-added", "#preview p"))
    text.evaluate("text => new Promise((done) => { text.onscroll = done; text.scrollTop = 50; })")
    tab.move_ratio(50)
    expect(line).to_contain_text("50\u00a0%")
    expect(added.first).to_have_text(backend.texts[0][20:50])
    assert text.evaluate("text => text.scrollTop") == 50
    tab.move_ratio(20)
    expect(line).to_have_count(0)
    expect(added).to_have_count(0)
    tab.move_ratio(50)
    assert len(backend.requests) == 1
    line.locator("button").click()
    expect(tab.page.locator("#history tbody tr")).to_have_count(2)
    tab.finish()
    expect(line).to_have_count(0)
    expect(added).to_have_count(0)
    assert [request.recompute_ratio for request in backend.requests] == [0.2, 0.5] and tab.errors == []


def test_a_target_sets_the_ratio_that_this_model_needs_until_the_slider_is_moved(visit, backend, monkeypatch):
    tab = visit()
    target, ratio = tab.page.locator("#target"), tab.page.locator("#ratio input[type=number]")
    tab.move_ratio(35)
    target.get_by_text("Faithful").click()
    expect(target).to_contain_text("not calibrated yet")
    expect(target.locator(":checked")).to_have_count(0)
    expect(ratio).to_have_value("35")
    points = tuple(FidelityPoint(ratio, kl, 0.9, 100.0, 4.0) for ratio, kl in ((0.0, 0.5), (0.1, 0.2), (0.4, 0.1)))
    status = FidelityStatus(24, 24, FidelityCurve("cacheclip", points, 400.0, 24))
    monkeypatch.setattr(backend.models, "fidelity_status", status)
    for name, percent in (("Balanced", "9"), ("Fast", "0"), ("Faithful", "100")):
        target.get_by_text(name).click()
        expect(ratio).to_have_value(percent)
    expect(target).to_contain_text("everything is recomputed")
    tab.move_ratio(33)
    expect(target.locator(":checked")).to_have_count(0)
    expect(target).not_to_contain_text("everything is recomputed")
    tab.ask("What is the maintenance code?")
    tab.finish()
    tab.open_settings()
    target.get_by_text("Balanced").click()  # after an answer, only the target keeps its description
    expect(target.locator(".info-text")).to_be_visible()
    expect(target).to_contain_text("9 % is the least")
    tab.choose("CacheBlend")
    expect(target).to_be_hidden()
    assert backend.requests[-1].recompute_ratio == 0.33 and tab.errors == []


@pytest.mark.slow
def test_a_target_is_met_again_on_the_model_that_was_chosen_in_the_settings(visit, backend, monkeypatch):
    def calibrate(*kls):
        points = tuple(FidelityPoint(at, kl, 0.9, 100.0, 4.0) for at, kl in zip((0.0, 0.1, 0.4), kls, strict=True))
        curve = FidelityCurve("cacheclip", points, 400.0, 24)
        monkeypatch.setattr(backend.models, "fidelity_status", FidelityStatus(24, 24, curve))

    tab = visit()
    target, ratio = tab.page.locator("#target"), tab.page.locator("#ratio input[type=number]")
    calibrate(0.5, 0.2, 0.1)
    target.get_by_text("Balanced").click()
    expect(ratio).to_have_value("9")
    tab.go("Settings")
    calibrate(0.5, 0.3, 0.04)
    tab.go("Ask")
    expect(ratio).to_have_value("16")
    expect(target).to_contain_text("16 % is the least")
    tab.go("Settings")
    monkeypatch.setattr(backend.models, "fidelity_status", FidelityStatus(total=24))
    tab.go("Ask")
    expect(target).to_contain_text("not calibrated yet")
    expect(target.locator(":checked")).to_have_count(0)
    assert tab.errors == []


@pytest.mark.slow
def test_each_method_shows_only_its_own_settings_is_run_with_them_and_remembers_them(visit, backend):
    tab = visit()
    expect(tab.page.locator("#chatbar summary")).to_be_visible()  # it is drawn above the question
    tab.open_advanced()
    place = tab.page.locator("#question").bounding_box()
    for method in [*METHODS, METHODS[0]]:
        tab.choose(method.label)
        expect(tab.page.locator("#method .info-text")).to_have_text(method.description)
        names = [f"option-{method.name}-{each.name}" for each in method.params if each.name != "ratio"]
        expect(tab.page.locator("#advanced [id^=option-]:visible")).to_have_count(len(names))
        for name in names:
            expect(tab.page.locator(f"#{name}")).to_be_visible()
        expect(tab.page.locator("#ratio")).to_be_visible(visible=method.has_ratio)
        assert tab.page.locator("#question").bounding_box() == place

    tab.move_ratio(35)
    tab.choose("EPIC")
    tab.move("#option-epic-tokens", 16)
    tab.ask("Why?")
    tab.finish()
    expect(tab.page.locator("#history tbody")).to_contain_text("EPIC · Tokens at each start: 16")
    expect(tab.page.locator("#metrics")).to_contain_text("EPIC has no ratio")
    tab.choose("CacheBlend")
    tab.page.check("#option-cacheblend-gradual input")
    tab.ask("Why?")
    tab.finish()
    tab.choose("EPIC")
    expect(tab.page.locator("#option-epic-tokens input[type=number]")).to_have_value("16")
    tab.ask("Why?")
    tab.finish()
    blended = {"deviation": "values", "check_layer": 1, "gradual": True}
    assert [request.options for request in backend.requests] == [{"tokens": 16}, blended, {"tokens": 16}]
    assert backend.requests[1].recompute_ratio == 0.35 and tab.errors == []


def test_escape_and_closing_the_tab_stop_the_computation_and_the_question_stays(visit, backend):
    backend.pause_after_words = 3
    tab = visit()
    tab.ask("How long is a piece of string?")
    expect(tab.page.locator("#reply .kv-text")).to_be_visible()
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#reply .kv-state")).to_contain_text("Stopped")
    tab.finish()
    assert backend.cancelled == [True]
    assert tab.page.input_value("#question textarea") == "How long is a piece of string?"

    tab.ask("Is anybody there?")
    expect(tab.page.locator("#reply .kv-text")).to_be_visible()
    tab.page.close()
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while len(backend.cancelled) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert backend.cancelled == [True, True]


def test_a_reload_while_an_answer_is_written_cancels_it_keeps_the_question_and_logs_no_error(visit, backend):
    backend.pause_after_words = 3
    tab = visit()
    tab.ask("How long?")
    expect(tab.page.locator("#reply .kv-text")).to_be_visible()
    tab.page.reload()
    expect(tab.page.locator("#tagline")).to_be_visible()
    expect(tab.page.locator("#question textarea")).to_have_value("How long?")
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while not backend.cancelled and time.monotonic() < deadline:
        time.sleep(0.05)
    assert backend.cancelled == [True] and tab.errors == []


def test_escape_closes_an_open_panel_before_it_stops_an_answer(visit, backend):
    backend.answer = "Yes [1]."
    tab = visit()
    tab.ask("Is it long?")
    tab.finish()
    tab.page.click("#chatbar [data-act=rename]")
    tab.page.fill("#chatbar form input", "dropped")
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#chatbar form")).to_be_hidden()
    expect(tab.page.locator("#chatbar [data-act=rename]")).to_be_focused()
    backend.answer, backend.pause_after_words = "word " * 9, 3
    tab.ask("How long?")
    expect(tab.page.locator("#reply .kv-text")).to_contain_text("word")
    tab.open_advanced()
    tab.page.click("#method input")
    expect(tab.page.get_by_role("option").first).to_be_visible()
    tab.page.keyboard.press("Escape")
    expect(tab.page.get_by_role("option")).to_have_count(0)
    tab.page.click("#thread .kv-cite")
    expect(tab.page.locator("#drawer aside")).to_be_focused()
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#drawer aside")).to_have_count(0)
    expect(tab.page.locator("#stop")).to_be_visible()
    assert backend.cancelled == [False]
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#reply .kv-state")).to_contain_text("Stopped")
    tab.finish()
    assert backend.cancelled == [False, True] and tab.errors == []


@pytest.mark.slow
def test_stopping_one_tab_leaves_the_other_alone(visit, backend):
    backend.answer, backend.pause_after_words = "word " * 60, 3
    one, other = visit(), visit()
    one.ask("First?")
    other.ask("Second?")
    expect(one.page.locator("#reply .kv-text")).to_be_visible()
    one.page.click("#stop")
    expect(one.page.locator("#reply .kv-state")).to_contain_text("Stopped")
    backend.pause_after_words = 10_000
    other.finish()
    assert other.page.inner_text("#reply .kv-text").count("word") == 60


def test_files_show_their_steps_and_appear_in_the_list_with_their_cache_usage(visit, backend):
    backend.pause_at_stage = "embedded"
    tab = visit()
    expect(tab.page.locator("#document-list")).to_contain_text("No documents yet")
    files = [("notes & more.md", b"# Notes"), ("empty.txt", b"")]
    payload = [{"name": name, "mimeType": "text/plain", "buffer": body} for name, body in files]
    tab.page.set_input_files("#upload input[type=file]", payload)
    expect(tab.page.locator("#progress .kv-now").first).to_contain_text("embedded")
    backend.pause_at_stage = ""
    expect(tab.page.locator("#progress")).to_contain_text("The file is empty. Choose one that contains text.")
    expect(tab.page.locator("#progress li")).to_have_count(1)
    expect(tab.page.locator("#document-list bdi")).to_have_text("notes & more.md")
    kept = tab.page.locator("#document-list .kv-kept")
    expect(kept).to_contain_text("11.8\u00a0MiB in memory, 35.5\u00a0MiB on disk")
    kept.locator("button").click()
    expect(kept).to_have_count(0)
    assert backend.cleared
    tab.page.click("#document-list .kv-remove")
    tab.page.click("#document-list >> text=Cancel")
    assert len(backend.documents()) == 1
    tab.page.click("#document-list .kv-remove")
    tab.page.click("#document-list .kv-danger")
    expect(tab.page.locator("#document-list")).to_contain_text("No documents yet")
    assert backend.documents() == [] and tab.errors == []


def test_hostile_names_texts_and_answers_are_shown_as_text(visit, backend):
    names = [Document(str(n) * 64, name, 10, None, 1, time.time()) for n, name in enumerate(HOSTILE)]
    backend.stored_documents, backend.texts = names, [f"{text} {'x' * 300}" for text in HOSTILE]
    backend.answer = " ".join(HOSTILE)
    tab = visit()
    tab.ask(HOSTILE[0] + HOSTILE[1])
    tab.finish()
    tab.ask(HOSTILE[2])
    tab.finish()
    tab.page.click("#reply button[title='Bad answer']")
    box = tab.page.locator("#feedback input")
    box.fill(HOSTILE[1])
    assert serious(tab.page) == []
    box.press("Enter")
    expect(tab.page.locator("#feedback")).to_contain_text("Saved as a bad answer, with the right one.")
    assert [(each.question, each.expected) for each in backend.feedback.ratings()] == [(HOSTILE[2], HOSTILE[1])]
    tab.page.locator("#document-list .kv-remove").first.click()
    expect(tab.page.locator("#document-list .kv-danger")).to_be_visible()
    for place in ("#document-list", "#reply", "#feedback", "#passages", "#history", "#thread", "#chatbar"):
        assert tab.page.locator(f"{place} script, {place} img, {place} b, {place} .katex").count() == 0, place
    assert HOSTILE[1] in tab.page.inner_text("#document-list") and HOSTILE[1] in tab.page.inner_text("#reply .kv-text")
    assert "${window.harmed = 3} {{constructor}} $$\\frac{1}{2}$$" in tab.page.inner_text("#reply .kv-text")
    assert tab.page.evaluate("window.harmed") is None
    tab.go("Library", "Documents")
    expect(tab.page.get_by_role("link", name="Export ratings")).to_be_visible()
    tab.go("Ask")
    tab.page.click("#feedback button")
    expect(tab.page.locator("#feedback")).to_be_empty()
    assert backend.feedback.ratings() == []
    assert tab.errors == [] and tab.outside == []


def test_an_error_stays_on_the_page_and_loses_nothing(visit, backend):
    backend.error = StoreFull("The <b>disk</b> is full.")
    tab = visit()
    tab.page.fill("#question textarea", "What now?")
    tab.page.click("#ask")
    expect(tab.page.locator("#reply .kv-error")).to_have_text(
        "The <b>disk</b> is full. Free some disk space, then try again; no stored data is lost."
    )
    assert tab.page.input_value("#question textarea") == "What now?"
    expect(tab.page.locator("#ask")).to_be_visible()
    tab.page.fill("#question textarea", "  ")
    tab.page.click("#ask")
    expect(tab.page.locator("#ask-message")).to_contain_text("Type a question first")
    expect(tab.page.locator("#reply .kv-error")).to_contain_text("Free some disk space")


def test_keyboard_shortcuts_and_sample_questions_of_existing_documents(visit, backend):
    names = {"2": "two.txt", "3": "lease.pdf"}
    backend.stored_documents = [Document(each * 64, name, 10, None, 8, time.time()) for each, name in names.items()]
    backend.library.suggested = {"3" * 64: ["Can I keep pets?", HOSTILE[1]]}
    tab = visit()
    first, second = SAMPLES
    expect(tab.page.get_by_role("button", name=first)).to_have_count(0)
    tab.page.locator("body").click(position={"x": 5, "y": 5})
    tab.page.keyboard.press("/")
    expect(tab.page.locator("#question textarea")).to_be_focused()
    tab.page.keyboard.type("one")
    tab.page.keyboard.press("Shift+Enter")
    tab.page.keyboard.type("two")
    assert tab.page.input_value("#question textarea") == "one\ntwo" and backend.requests == []
    tab.page.click(f"text={second}")
    expect(tab.page.locator("#reply .kv-text")).to_contain_text("before noon")
    tab.finish()
    tab.page.click("#chatbar >> text=New chat")
    offered = ["Summarize lease.pdf.", "Can I keep pets?", HOSTILE[1]]  # about the user's own document
    expect(tab.page.locator("#welcome .kv-sample:visible")).to_have_text([*offered, second])
    for question in ("Summarize lease.pdf.", HOSTILE[1]):
        tab.page.locator("#welcome .kv-sample", has_text=question).click()
        expect(tab.page.locator("#reply .kv-text")).to_contain_text("before noon")
        tab.finish()
        tab.page.click("#chatbar >> text=New chat")
    assert [request.question for request in backend.requests] == [second, "Summarize lease.pdf.", HOSTILE[1]]
    backend.stored_documents.clear()
    expect(tab.page.locator("#welcome .kv-sample:visible")).to_have_count(0)  # the list is refreshed
    assert tab.page.evaluate("window.harmed") is None and tab.errors == []


@pytest.mark.slow
def test_a_phone_scrolls_down_only_and_folds_the_documents_away(visit):
    tab = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    expect(tab.page.locator("#documents")).to_be_hidden()
    tab.page.click("#documents-toggle")
    expect(tab.page.locator("#documents")).to_be_visible()
    tab.choose("CacheBlend")
    tab.page.check("#option-cacheblend-gradual input")
    tab.move("#option-cacheblend-check_layer", 3)
    tab.ask("What is the maintenance code of the Morning Gannet, and where is it printed?")
    tab.finish()
    assert too_wide(tab.page, "#side *, #ask-page *") == []
