"""The Library page in a real browser: adding, previewing, renaming, re-indexing and deleting documents."""

import time
from dataclasses import replace
from functools import partial
from threading import Event

import pytest
from playwright.sync_api import expect

from store.types import COLLECTION, PARSER_VERSION, Document
from tests.browser.test_ask import HOSTILE
from tests.support.page_checks import contrast, in_both_themes, serious, too_wide

pytestmark = pytest.mark.browser
LIST = "#library-list"


def open_library(visit, **options):
    tab = visit(**options)
    tab.go("Library", "Documents")
    expect(tab.page.locator(f"{LIST} .kv-library, {LIST} .kv-none")).to_be_visible()
    return tab


def upload(tab, *files):
    payload = [{"name": name, "mimeType": "text/plain", "buffer": body} for name, body in files]
    tab.page.set_input_files("#library-upload input[type=file]", payload)


def some(count, **facts):
    return [
        Document(
            f"{n:064x}",
            f"report {n}.pdf",
            4_800_000,
            12,
            45,
            time.time() - 9e4 * n,
            parser_version=PARSER_VERSION,
            **facts,
        )
        for n in range(count)
    ]


def test_files_dropped_here_appear_in_both_lists_but_for_one_that_is_cancelled(visit, backend):
    backend.pause_at_stage = "embedded"
    tab = open_library(visit)
    expect(tab.page.locator(LIST)).to_contain_text("Drop files on the box above")
    upload(tab, ("notes & more.md", b"# Notes"), ("empty.txt", b""), ("two.md", b"2"), ("log.txt", b"log"))
    expect(tab.page.locator("#library-progress .kv-now").first).to_contain_text("embedded")
    with tab.page.expect_response(lambda answer: '"place"' in (answer.request.post_data or "")):
        tab.page.click("#library-progress button[aria-label='Cancel two.md']")
    expect(tab.page.locator("#library-progress .kv-now")).to_be_visible()
    backend.pause_at_stage = ""
    expect(tab.page.locator("#library-progress")).to_contain_text("The file is empty. Choose one that contains text.")
    expect(tab.page.locator("#library-progress")).to_contain_text("Cancelled before processing started.")
    summary = tab.page.locator("#library-progress li")
    expect(summary).to_have_count(1)
    expect(summary).to_contain_text("2 of 4\u00a0files ready")
    expect(summary.locator(".kv-error")).to_have_count(2)
    names = tab.page.locator(f"{LIST} .kv-name bdi")
    expect(names).to_have_text(["log.txt", "notes & more.md"])
    expect(tab.page.locator("#document-list bdi")).to_have_text(["log.txt", "notes & more.md"])
    expect(tab.page.locator("#library-summary")).to_contain_text("2\u00a0documents, 16\u00a0passages")
    expect(tab.page.locator("#cancel-library-upload")).to_be_hidden()
    summary.get_by_label("Dismiss").click()
    expect(tab.page.locator("#library-progress")).to_be_hidden()
    assert tab.errors == [] and tab.outside == []


@pytest.mark.slow
def test_files_added_in_the_sidebar_are_listed_here_and_deleted_in_both_places(visit, backend):
    tab = open_library(visit)
    payload = {"name": "side.md", "mimeType": "text/plain", "buffer": b"# Side"}
    tab.page.set_input_files("#upload input[type=file]", payload)
    expect(tab.page.locator(f"{LIST} .kv-name bdi")).to_have_text("side.md")
    tab.page.click(f"{LIST} button[data-act=delete]")
    question = tab.page.locator(f"{LIST} .kv-confirm-delete")
    expect(question).to_contain_text("This removes 8\u00a0passages and frees 47.3\u00a0MiB of cached keys and values")
    question.get_by_text("Cancel").click()
    expect(question).to_have_count(0)
    tab.page.click(f"{LIST} button[data-act=delete]")
    question.get_by_text("Delete", exact=True).click()
    expect(tab.page.locator(LIST)).to_contain_text("No documents yet")
    expect(tab.page.locator("#document-list")).to_contain_text("No documents yet")
    assert backend.documents() == [] and tab.errors == []


@pytest.mark.slow
@pytest.mark.slow
def test_the_table_is_filtered_and_sorted_passages_are_paged_and_shown_in_context(visit, backend):
    backend.stored_documents = some(12)
    tab = open_library(visit)
    names = tab.page.locator(f"{LIST} .kv-name bdi")
    tab.page.wait_for_timeout(500)  # Gradio can lose a change made before the component's first effect has run
    tab.page.locator("#library-filter input").press_sequentially("1")
    expect(names).to_have_text(["report 1.pdf", "report 10.pdf", "report 11.pdf"])
    tab.page.click(f"{LIST} th >> text=Added")
    expect(names).to_have_text(["report 11.pdf", "report 10.pdf", "report 1.pdf"])
    expect(tab.page.locator(f"{LIST} th.kv-col-added")).to_have_attribute("aria-sort", "ascending")
    tab.page.click(f"{LIST} >> text=report 1.pdf")
    expect(tab.page.locator(".kv-chunk")).to_have_count(20)
    expect(tab.page.locator(".kv-pager")).to_contain_text("Passages 1\u201320 of 45")
    tab.page.click(".kv-pager >> text=Next")
    expect(tab.page.locator(".kv-pager")).to_contain_text("Passages 21\u201340 of 45")
    tab.page.click(".kv-pager >> text=Next")
    expect(tab.page.locator(".kv-chunk")).to_have_count(5)
    tab.page.locator(".kv-chunk button").nth(1).click()
    expect(tab.page.locator(".kv-excerpt mark")).to_be_visible()
    expect(tab.page.locator(".kv-excerpt")).to_contain_text("The text before it.")
    expect(tab.page.locator(".kv-chunk button").nth(1)).to_be_focused()
    tab.page.click(f"{LIST} >> text=report 1.pdf")
    expect(tab.page.locator(".kv-chunk")).to_have_count(0)
    tab.page.locator(f"{LIST} input[data-act=choose]").first.check()
    tab.page.click(f"{LIST} button[data-act=name]")
    expect(tab.page.locator(f"{LIST} .kv-chosen input")).to_be_focused()
    tab.page.keyboard.type(HOSTILE[1])
    tab.page.keyboard.press("Enter")
    collection = tab.page.locator(f"{LIST} .kv-filters button")
    expect(collection).to_have_text(f"{HOSTILE[1]} 1")
    collection.click()
    expect(names).to_have_text(["report 11.pdf"])
    expect(collection).to_be_focused()
    assert serious(tab.page) == []
    tab.go("Ask")
    tab.page.click("#where input")
    tab.page.get_by_role("option", name=f"{HOSTILE[1]} (1\u00a0document)").click()
    tab.page.fill("#question textarea", "What does it say?")
    tab.page.keyboard.press("Enter")
    tab.finish()
    assert backend.requests[-1].documents == (COLLECTION + HOSTILE[1],)
    tab.go("Library", "Documents")
    tab.page.locator(f"{LIST} input[data-act=choose]").first.check()
    tab.page.click(f"{LIST} .kv-chosen >> text=Summarize")
    expect(tab.page.locator("#reply .kv-question")).to_have_text("Summarize report 11.pdf.")
    tab.finish()
    assert backend.requests[-1].documents == (backend.stored_documents[-1].id,)
    assert tab.page.evaluate("window.harmed") is None and tab.errors == []


def test_documents_are_filtered_by_type_and_date_and_selected_together(visit, backend):
    reports = some(9, language="English")
    notes = replace(reports[0], id="f" * 64, name="notes.md", added_at=time.time(), language="German")
    backend.stored_documents = [*reports, notes]
    tab = open_library(visit, viewport={"width": 390, "height": 844})
    names = tab.page.locator(f"{LIST} .kv-name bdi")
    kind, added = tab.page.get_by_label("File type"), tab.page.get_by_label("Date added")
    kind.focus()
    kind.select_option("PDF")
    expect(names).to_have_count(9)
    expect(kind).to_be_focused()
    added.select_option("Last 24 hours")
    expect(names).to_have_text(["report 0.pdf"])
    expect(kind).to_have_value("PDF")
    with tab.page.expect_response("**/queue/join*"):  # Gradio may apply answers to events of one moment in any order
        tab.page.evaluate("""() => {
            const select = document.querySelector("#library-list select[data-act=age]");
            select.add(new Option("<img src=x onerror='window.harmed = 1'>"));
            select.value = select.options[4].value;
            select.dispatchEvent(new Event("change", { bubbles: true }));
        }""")
    kind.select_option("All file types")
    expect(names).to_have_text(["notes.md", "report 0.pdf"])
    expect(added.locator("option")).to_have_count(4)  # the unknown one was refused
    expect(added).to_have_value("day")
    tab.page.get_by_label("Language", exact=True).select_option("German")
    expect(names).to_have_text(["notes.md"])
    assert serious(tab.page) == [] and too_wide(tab.page, f"{LIST} *") == []
    assert tab.page.evaluate("window.harmed") is None and tab.errors == []


@pytest.mark.slow
def test_a_hostile_name_is_saved_and_shown_as_text(visit, backend):
    backend.stored_documents = some(1, warning=HOSTILE[1])
    backend.texts = HOSTILE
    tab = open_library(visit)
    tab.page.click(f"{LIST} button[data-act=rename]")
    box = tab.page.locator(f"{LIST} input[type=text]")
    expect(box).to_be_focused()
    box.fill("dropped.pdf")
    box.press("Escape")
    expect(tab.page.locator(f"{LIST} .kv-name bdi")).to_have_text("report 0.pdf")
    for name in HOSTILE[:2]:
        tab.page.click(f"{LIST} button[data-act=rename]")
        box.fill(name)
        box.press("Enter")
        expect(tab.page.locator(f"{LIST} .kv-name bdi")).to_have_text(name)
        expect(tab.page.locator("#document-list bdi")).to_have_text(name)
    tab.page.click(f"{LIST} .kv-name")
    expect(tab.page.locator(".kv-chunk")).to_have_count(20)
    tab.page.locator(".kv-chunk button").first.click()
    expect(tab.page.locator(".kv-excerpt mark")).to_be_visible()
    tab.page.click(f"{LIST} button[data-act=delete]")
    expect(tab.page.locator(f"{LIST} .kv-confirm-delete bdi")).to_have_text(HOSTILE[1])
    assert tab.page.locator(f"{LIST} script, {LIST} img, {LIST} .katex").count() == 0
    assert tab.page.evaluate("window.harmed") is None
    assert tab.errors == [] and tab.outside == []


@pytest.fixture
def delays(backend, monkeypatch):
    """Functions that the next calls of `list_with_usage` run first, one each, the last one first."""
    list_with_usage = backend.library.list_with_usage
    delays = []

    def delayed():
        if delays:
            delays.pop()()
        return list_with_usage()

    monkeypatch.setattr(backend.library, "list_with_usage", delayed)
    return delays


def test_a_slow_redraw_does_not_undo_a_click(visit, backend, delays):
    backend.stored_documents = some(2)
    tab = open_library(visit)
    tab.go("Library", "Cache details")
    expect(tab.page.locator("#cache-totals")).not_to_be_empty()
    started, release = Event(), Event()

    def hold():
        started.set()
        release.wait(60)

    delays.append(hold)
    tab.go("Library", "Documents")
    assert started.wait(60)
    tab.page.locator(f"{LIST} button[data-act=rename]").first.click()
    release.set()
    box = tab.page.locator(f"{LIST} input[type=text]")
    expect(box).to_be_focused()
    tab.wait_for_events()
    expect(box).to_be_focused()
    assert delays == [] and tab.errors == []


@pytest.mark.slow
def test_one_document_is_reindexed_then_several_selected_in_quick_succession(visit, backend, delays):
    backend.stored_documents = some(3)
    backend.library.needs_rechunk = {document.id for document in backend.stored_documents}
    tab = open_library(visit)
    expect(tab.page.locator(f"{LIST} .kv-note")).to_have_count(3)
    tab.page.locator(f"{LIST} button[data-act=reindex]").first.click()
    expect(tab.page.locator("#library-progress")).to_contain_text("1\u00a0file ready")
    expect(tab.page.locator(f"{LIST} .kv-note")).to_have_count(2)
    delays += [partial(time.sleep, 0.3)] * 3
    tab.page.evaluate("document.querySelectorAll('#library-list input[data-act=choose]').forEach((box) => box.click())")
    expect(tab.page.locator(f"{LIST} .kv-chosen")).to_contain_text("3 selected")
    assert delays == []
    tab.page.locator(f"{LIST} .kv-chosen button", has_text="Re-index").click()
    expect(tab.page.locator("#library-progress")).to_contain_text("3\u00a0files ready")
    expect(tab.page.locator(f"{LIST} .kv-note, {LIST} .kv-chosen")).to_have_count(0)
    assert len(backend.library.reindexed) == 4 and tab.errors == []


def test_search_shows_passages_while_typing_opens_one_and_enter_asks(visit, backend):
    backend.stored_documents = [Document("e" * 64, "notes.pdf", 10, 4, 8, time.time())]
    tab = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    tab.go("Library", "Search")
    box, results = tab.page.locator("#search-question textarea"), tab.page.locator("#search-results")
    expect(results).to_contain_text("Passages appear while you type")
    box.press_sequentially("maintenance code")
    expect(results.locator("li")).to_have_count(3)
    expect(results.locator(".kv-quoted", has_text="code").first).to_be_visible()
    assert too_wide(tab.page, "#search-page *") == [] and serious(tab.page) == []
    opener = results.get_by_role("button", name="Read passage 2 in")
    opener.click()
    expect(tab.page.locator("#drawer aside")).to_contain_text("notes.pdf")
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#drawer aside")).to_have_count(0)
    expect(opener).to_be_focused()
    opener.click()
    expect(tab.page.locator("#drawer aside")).to_be_visible()
    box.press("Enter")
    expect(tab.page.locator("#reply .kv-question")).to_contain_text("maintenance code")
    expect(tab.page.locator("#drawer aside")).to_have_count(0)
    tab.finish()
    assert tab.errors == []


def test_a_question_from_the_search_replaces_no_answer_even_after_edit(visit):
    tab = visit()
    tab.ask("What is the code?")
    tab.finish()
    tab.page.click("#reply >> text=Edit")
    expect(tab.page.locator("#question textarea")).to_have_value("What is the code?")
    tab.go("Library", "Search")
    tab.page.locator("#search-question textarea").fill("maintenance code")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#reply .kv-question")).to_contain_text("maintenance code")
    tab.finish()
    expect(tab.page.locator("#thread article")).to_have_count(1)  # the first answer
    assert tab.errors == []


def test_a_phone_scrolls_only_vertically(visit, backend):
    backend.stored_documents = some(3, warning="3 of 12 pages have no text; if they are scanned, they need OCR.")
    tab = open_library(visit, viewport={"width": 390, "height": 844}, has_touch=True)
    for act, shown in (("open", ".kv-chunk"), ("rename", "input[type=text]"), ("delete", ".kv-confirm-delete")):
        tab.page.locator(f"{LIST} button[data-act={act}]").last.click()
        expect(tab.page.locator(f"{LIST} {shown}").first).to_be_visible()
        assert too_wide(tab.page, "#library-page *") == [], act


@pytest.mark.slow
def test_text_has_enough_contrast_in_both_themes(visit, backend):
    backend.stored_documents = some(2, warning="3 of 12 pages have no text.")
    tab = open_library(visit)
    tab.page.locator(f"{LIST} .kv-name").first.click()
    expect(tab.page.locator(".kv-chunk").first).to_be_visible()
    places = (".kv-name", ".kv-note", "td.kv-col-added", "th button", ".kv-card-line", ".kv-overlap", ".kv-pager span")
    for theme in in_both_themes(tab.page):
        for place in places:
            assert contrast(tab.page, f"{LIST} {place}") >= 4.5, (theme, place)
    tab.page.locator(f"{LIST} input[data-act=choose]").first.check()
    expect(tab.page.locator(f"{LIST} .kv-chosen")).to_be_visible()
    tab.page.locator(f"{LIST} button[data-act=rename]").last.click()
    expect(tab.page.locator(f"{LIST} input[type=text]")).to_be_visible()
    for theme in in_both_themes(tab.page):
        assert serious(tab.page) == [], theme


def test_changes_during_a_slow_redraw_are_shown_after_it(visit, backend, monkeypatch):
    backend.stored_documents = some(3)
    tab = open_library(visit)
    expect(tab.page.locator(f"{LIST} button[data-act=rename]")).to_have_count(3)
    started, release, list_with_usage = Event(), Event(), backend.library.list_with_usage

    def slow():
        listed = list_with_usage()
        if not started.is_set():
            started.set()
            release.wait(60)
        return listed

    monkeypatch.setattr(backend.library, "list_with_usage", slow)
    for remaining in (2, 1):
        tab.page.locator("#document-list button[data-act=delete]").first.click()
        tab.page.locator("#document-list button[data-act=confirm]").click()
        expect(tab.page.locator("#document-list li")).to_have_count(remaining)
    assert started.is_set()
    release.set()
    expect(tab.page.locator(f"{LIST} button[data-act=rename]")).to_have_count(1)
    assert tab.errors == []
