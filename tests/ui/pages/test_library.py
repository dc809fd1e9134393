"""The Library page without a browser: order and filter, actions of the table, and what is never redrawn."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from types import SimpleNamespace

import gradio as gr
import pytest

from backend.interface.backend import Status
from backend.interface.library import DocumentUsage, WatchedChange, WatchedFolder
from store.errors import NoSuchDocument
from store.types import PARSER_VERSION, Document
from tests.support.fake_backend.backend import READY
from tests.support.fake_backend.library import HOST_BYTES
from tests.ui.conftest import ME
from ui.pages.library.table import PASSAGES_PER_PAGE, render_table
from ui.pages.library.view import AGES, PAGE_SIZE, View, filter_and_sort

YOU = SimpleNamespace(session_hash="you")
NAMES = ("b.pdf", "A.txt", "c & d.md")


def documents(names=NAMES, chunks=45):
    return [Document(f"{n:064x}", name, 10 * n, n or None, chunks, float(n)) for n, name in enumerate(names, start=1)]


class Session:
    """One session's view of the page: sends clicks to its handlers and keeps the view and the HTML they return."""

    def __init__(self, app, backend):
        self.backend = backend
        self.page = app.library
        self.sidebar = app.documents
        self.view = View()
        self.html = ""
        self.updates = []

    def show(self, update):
        self.updates.append(update)
        self.view = update.get(self.page.view, self.view)
        self.html = update.get(self.page.table, self.html)
        return update

    def click(self, action, target="", **data):
        event = gr.EventData(None, {"act": action, "id": target, **data})
        return self.show(self.page.act(self.view, event))

    def filter(self, words):
        return self.show(self.page.filter(self.view, words))

    def reindex(self, document_id=""):
        event = gr.EventData(None, {"act": "reindex", "id": document_id})
        for update in self.page.reindex(self.view, ME, event):
            self.show(update)
        assert update[self.page.poll].active
        self.show(self.page.refresh(self.view))  # as the poll timer does


@pytest.fixture
def empty(app, backend):
    return Session(app, backend)


@pytest.fixture
def session(app, backend):
    backend.stored_documents = documents()
    return Session(app, backend)


def test_an_empty_table_explains_how_to_add_documents_or_that_the_model_is_loading(empty):
    page = empty.page
    assert "Drop files" in page.refresh(View())[page.table]
    empty.backend.state = Status(ready=False, message="Loading the model")
    assert "Loading the model. Your documents appear here" in page.refresh(View())[page.table]


@pytest.mark.parametrize(
    "order, first", [("name", "c & d.md"), ("size", "c & d.md"), ("pages", "c & d.md"), ("added", "c & d.md")]
)
def test_a_heading_sorts_and_a_second_click_reverses(session, order, first):
    usage = session.backend.library.list_with_usage()
    down = filter_and_sort(usage, View(order=order, descending=True))
    assert down[0].document.name == first
    assert filter_and_sort(usage, View(order=order, descending=False)) == down[::-1]
    session.click("sort", order)
    before = session.view.descending
    session.click("sort", order)
    assert session.view.order == order and session.view.descending is not before


def test_the_filter_matches_every_word_in_any_case(session):
    update = session.show(session.page.filter(View(pending_delete=("x",)), "D C"))
    assert "c &amp; d.md" in session.html and "A.txt" not in session.html and session.view.pending_delete == ()
    assert "No document matches" in session.page.filter(View(), "zebra")[session.page.table]
    assert session.page.summary in update


def test_file_type_and_date_added_filter_the_table_and_what_is_selected_together(session):
    old, new, _ = session.backend.stored_documents
    session.backend.stored_documents += [
        replace(old, id="4" * 64, name="new.PDF", added_at=time.time() - 8 * 86_400),
        replace(new, id="5" * 64, name="notes", added_at=time.time()),
    ]
    session.click("type", "PDF")
    assert ">b.pdf<" in session.html and ">new.PDF<" in session.html and session.html.count("<tbody") == 2
    session.click("age", "month")
    session.click("all", on=True)
    assert session.view.selected == ("4" * 64,) and ">b.pdf<" not in session.html
    session.click("age", "week")
    assert "No document matches the filters." in session.html and "1 selected (not shown)" in session.html
    session.click("type", "")
    assert ">notes<" in session.html and ">new.PDF<" not in session.html
    session.click("type", "Other")
    session.backend.stored_documents.pop()
    assert "No document matches" in session.show(session.page.refresh(session.view))[session.page.table]
    session.click("age", "")
    assert ">b.pdf<" in session.html  # the last document of the type was deleted
    session.backend.stored_documents.append(replace(new, id="6" * 64, name="later"))
    session.show(session.page.refresh(session.view))
    assert session.view.file_type == "" and ">b.pdf<" in session.html  # the next one does not bring the filter back
    session.click("type", "PDF")
    for document in [each for each in session.backend.documents() if each.name.lower().endswith(".pdf")]:
        session.click("delete", document.id)
        session.click("confirm")
    assert session.view.file_type == "" and ">later<" in session.html


def test_a_choice_of_file_types_lists_those_of_the_documents_if_there_are_several():
    several = render_table(
        [DocumentUsage(each, {}) for each in documents(("a.md", "b.DOCX", "c", "d.unknown"))], View()
    )
    assert re.findall(r'value="(\w*)"[^>]*>([^<]+)<', several) == [
        ("", "All file types"),
        ("Word", "Word"),
        ("Markdown", "Markdown"),
        ("Other", "Other"),
        *((key, label) for key, (label, _) in AGES.items()),
    ]
    one = render_table([DocumentUsage(each, {}) for each in documents(("a.md", "b.markdown"))], View())
    assert "All file types" not in one and "Added any time" in one


def test_language_filters_the_table_as_long_as_documents_are_in_several(session):
    first, second, third = session.backend.stored_documents
    assert "All languages" not in session.show(session.page.refresh(View()))[session.page.table]
    first, second = replace(first, language="English"), replace(second, language="German")
    session.backend.stored_documents[:] = [first, second, third]
    session.click("language", "German")
    options = re.search(r'<select[^>]*aria-label="Language">(.*?)</select>', session.html)
    assert re.findall(r">([^<]+)<", options[1]) == ["All languages", "English", "German", "Language not clear"]
    assert session.html.count("<tbody") == 1 and ">A.txt<" in session.html
    session.click("language", "Language not clear")
    assert session.html.count("<tbody") == 1 and ">c &amp; d.md<" in session.html
    session.click("language", "German")
    session.backend.stored_documents.remove(second)
    session.show(session.page.refresh(session.view))  # English is the only language left
    assert session.html.count("<tbody") == 2 and "All languages" not in session.html and session.view.language == ""


@pytest.mark.parametrize(
    "value", [None, "", "PDF\0", "<script>", "month ", "x" * 100_000, ["PDF"], {"a": 1}, 7, "name"]
)
def test_a_filter_that_the_page_does_not_offer_changes_nothing(session, value):
    for action in ("type", "age", "language"):
        session.click(action, value)
        assert session.view == View() and session.html.count("<tbody") == 3


def test_each_tier_has_its_own_kv_size_and_the_page_says_why_kv_is_large(session):
    update = session.page.refresh(View())
    row = update[session.page.table].replace("\u00a0", " ")
    assert "11.8 MiB <small>in memory" in row and "35.5 MiB <small>on disk" in row and "47.3" not in row
    summary = update[session.page.summary].replace("\u00a0", " ")
    assert "22 KiB for each token" in summary and "Memory and disk can each have a copy" in summary


def test_selected_documents_join_a_collection_which_then_filters_the_table(session):
    first, second, _ = session.backend.documents()
    for document in (first, second):
        session.click("choose", document.id, on=True)
    session.click("name")
    assert session.page.table not in session.page.refresh(session.view)  # the name is being typed
    for on in (False, True):  # without documents, nothing is named
        for document in (first, second):
            session.click("choose", document.id, on=on)
    assert not session.view.naming
    session.click("name")
    session.click("join", name=" ")
    assert session.view.naming and len(session.view.selected) == 2
    session.click("join", name="Contracts <b>")
    assert session.view.selected == () and "Contracts &lt;b&gt;</bdi> <small>2</small>" in session.html
    assert "Contracts &lt;b&gt;" in session.updates[-1][session.sidebar.document_list]
    session.click("collection", "Contracts <b>")
    assert "b.pdf" in session.html and "c &amp; d.md" not in session.html
    session.click("choose", first.id, on=True)
    session.click("leave", "Contracts <b>")
    assert [each.collections for each in session.backend.documents()] == [(), ("Contracts <b>",), ()]
    session.click("choose", second.id, on=True)
    session.click("leave", "Contracts <b>")
    assert "c &amp; d.md" in session.html and "Collections" not in session.html


def test_watched_folders_are_listed_and_documents_of_deleted_files_are_selected_together(session):
    first, second, third = session.backend.documents()
    missing = WatchedFolder("/media/<b>", 0, True, (), ())
    errors = tuple(f"{n}.txt: The file is empty." for n in range(7))
    session.page._watched = lambda: [missing, WatchedFolder("/files", 4, False, errors, (first.id, third.id))]
    session.click("sort", "name")
    html = session.html.replace("\u00a0", " ")
    assert "/media/&lt;b&gt;</bdi>: not found, perhaps not mounted" in html and "/files</bdi>: 4 files" in html
    assert html.count("The file is empty.") == 5 and "2 more could not be added." in html
    assert "2 files deleted; their documents are still here." in html
    assert session.click("gone")[session.page._filter] == ""
    assert sorted(session.view.selected) == sorted([first.id, third.id])
    session.click("delete")
    session.click("confirm")
    assert session.backend.documents() == [second]


def test_changes_of_watched_folders_are_listed_and_can_be_undone(session, monkeypatch):
    kinds = [("replaced", False)] * 9 + [("added", False), ("replaced", True), ("undone", False)]
    changes = tuple(WatchedChange(str(n), 1e9, f"<b>{n}.md", *each) for n, each in enumerate(kinds))
    undone = []

    def undo(change):
        undone.append(change)
        if len(undone) > 1:
            raise NoSuchDocument("This change can no longer be undone.")

    monkeypatch.setattr(session.page, "_undo", undo)
    session.page._watched = lambda: [WatchedFolder("/files", 4, False, (), (), changes)]
    session.click("sort", "name")
    assert session.html.count("<li>") == 6 and "&lt;b&gt;10.md" in session.html
    assert re.findall(r'data-act="undo" data-id="(\d+)"', session.html) == ["10"]
    update = session.click("undo", "10")
    assert undone == ["10"] and update[session.page.error] == "" and session.sidebar.document_list in update
    assert "no longer be undone" in session.click("undo", "10")[session.page.error]


def test_a_web_page_is_added_by_its_address(session):
    page, before = session.page, len(session.backend.documents())
    assert list(page.add_page("  ", ME)) == [gr.skip()] and list(page.add_page(None, ME)) == [gr.skip()]
    first, *_, last = page.add_page(" https://example.org/tides ", ME)
    assert first == {page._address: ""} and "page.html" in last[session.sidebar.document_list]
    assert len(session.backend.documents()) == before + 1


def test_a_deletion_shows_what_it_frees_and_has_to_be_confirmed(session):
    (first, *_) = session.backend.documents()
    session.click("confirm")
    session.click("delete", first.id)
    assert (
        "removes 45\u00a0passages and frees 47.3\u00a0MiB of cached keys and values in memory and on disk"
        in session.html
    )
    session.click("keep")
    assert len(session.backend.documents()) == 3 and "frees" not in session.html
    session.click("delete", first.id)
    session.click("confirm")
    assert [document.name for document in session.backend.documents()] == ["A.txt", "c & d.md"]


def test_several_documents_are_deleted_with_one_confirmation(session):
    ids = [document.id for document in session.backend.documents()]
    session.click("all", on=True)
    assert set(session.view.selected) == set(ids) and "3 selected" in session.html
    session.click("choose", ids[1], on=False)
    session.click("delete")
    assert f"frees {8 * HOST_BYTES / 2**20:.1f}\u00a0MiB" in session.html and "2 documents" in session.html
    session.click("confirm")
    assert [document.id for document in session.backend.documents()] == [ids[1]] and session.view.selected == ()


def test_select_all_selects_all_that_match_the_filter(session):
    session.filter("txt")
    session.click("all", on=True)
    assert session.view.selected == (session.backend.documents()[1].id,)
    session.click("none")
    assert session.view.selected == ()


@pytest.mark.parametrize("words", ["txt", "zebra"])
def test_selected_documents_hidden_by_the_filter_are_counted_confirmed_and_deleted(session, words):
    one, _, other = (document.id for document in session.backend.documents())
    session.click("choose", one, on=True)
    session.filter(words)
    assert "1 selected (not shown)" in session.html
    session.click("delete")
    assert "Delete <bdi>b.pdf</bdi> (not shown)? This removes" in session.html
    session.click("keep")
    session.click("choose", other, on=True)
    assert "2 selected (not shown)" in session.html
    session.filter("md")
    assert "2 selected (1 of them not shown)" in session.html
    session.click("delete")
    assert "Delete 2 documents (1 of them not shown)?" in session.html
    session.click("confirm")
    assert [document.name for document in session.backend.documents()] == ["A.txt"]


def test_the_confirmation_is_shown_once_below_the_row_or_in_the_bar(session):
    (one, *_) = session.backend.documents()
    session.click("choose", one.id, on=True)
    session.click("delete")
    assert session.html.count("This removes") == 1 and "kv-below" in session.html and "not shown" not in session.html
    usage = session.backend.library.list_with_usage()
    last = filter_and_sort(usage, session.view)[-1].document.id
    below_the_fold = View(limit=1, pending_delete=(last,), selected=(last,))
    assert render_table(usage, below_the_fold).count("This removes") == 1
    # Another session has deleted one of two documents meanwhile.
    gone = View(pending_delete=("gone", one.id), selected=("gone", one.id))
    assert "Delete <bdi>b.pdf</bdi>?" in render_table(usage, gone)


def test_a_rename_needs_a_name_and_the_row_being_edited(session):
    one, other, _ = session.backend.documents()
    session.click("rename", one.id)
    assert session.page.table not in session.page.refresh(session.view)  # not redrawn while a name is being edited
    session.click("save", one.id, name="  ")
    session.click("save", other.id, name="wrong row")
    assert [document.name for document in session.backend.documents()] == list(NAMES)
    session.click("rename", one.id)
    update = session.click("save", one.id, name="<b>new</b>.pdf")
    assert session.backend.documents()[0].name == "<b>new</b>.pdf"
    assert "&lt;b&gt;new&lt;/b&gt;.pdf" in session.html and "<b>new" not in session.html
    assert session.sidebar.document_list in update


def test_passages_are_paged(session):
    one = session.backend.documents()[0]
    session.click("open", one.id)
    assert session.html.count("kv-chunk-text") == PASSAGES_PER_PAGE and "1\u201320 of 45" in session.html
    session.click("page", "40")
    assert session.html.count("kv-chunk-text") == 5 and "Next" not in session.html
    session.click("place", f"{one.id}-41")
    assert "<mark>" in session.html and session.html.count("kv-chunk-text") == 4
    session.click("page", "20")
    assert "<mark>" not in session.html
    session.click("open", one.id)
    assert "kv-chunk" not in session.html


def test_a_long_table_is_shown_in_parts():
    usage = [DocumentUsage(document, {}) for document in documents([f"{n}.txt" for n in range(3 * PAGE_SIZE)])]
    assert render_table(usage, View()).count("<tbody>") == PAGE_SIZE
    assert f"Show {PAGE_SIZE} more of {2 * PAGE_SIZE}" in render_table(usage, View())
    assert render_table(usage, View(limit=4 * PAGE_SIZE)).count("<tbody>") == 3 * PAGE_SIZE


@pytest.mark.parametrize(
    ("version", "num_pages", "remedy"),
    [(None, 3, "Delete it and add the file again"), (None, None, "Re-index it, so"), (PARSER_VERSION, 3, None)],
)
def test_a_document_of_an_earlier_version_says_how_to_recognize_its_tables(version, num_pages, remedy):
    document = Document("a", "a.pdf", 1, num_pages, 1, 0.0, parser_version=version)
    table = render_table([DocumentUsage(document, {})], View())
    assert (remedy in table) if remedy else ("earlier version" not in table)


def test_reindexing_shows_its_progress_and_takes_the_selected_documents(session):
    one, _, other = session.backend.documents()
    session.backend.library.needs_rechunk = {one.id}
    assert "Chunked with other settings" in session.page.refresh(View())[session.page.table]
    session.reindex(one.id)
    assert "Chunked with other settings" not in session.html
    session.click("choose", one.id, on=True)
    session.click("choose", other.id, on=True)
    session.reindex()
    assert sorted(session.backend.library.reindexed) == sorted([one.id, one.id, other.id])
    assert session.view.selected == ()
    assert any("kv-file" in str(value) for update in session.updates for value in update.values())


def test_changes_to_the_view_during_reindexing_are_kept(session):
    one, _, other = session.backend.documents()
    steps = session.page.reindex(View(), ME, gr.EventData(None, {"act": "reindex", "id": one.id}))
    session.show(next(steps))
    session.click("rename", other.id)
    drawn = session.html
    for update in steps:
        session.show(update)
    assert session.html == drawn and session.view.renaming == other.id


def test_reindexing_takes_selected_documents_in_table_order_even_if_hidden(session):
    one, _, other = (document.id for document in session.backend.documents())
    session.click("choose", one, on=True)
    session.click("choose", other, on=True)
    session.filter("txt")
    session.reindex()
    assert session.backend.library.reindexed == [other, one] and session.view.selected == ()


def test_an_error_is_a_message_and_the_table_stays(session):
    session.click("rename", "gone")
    update = session.click("save", "gone", name="a")
    assert "refresh the list of documents" in update[session.page.error] and "A.txt" in session.html
    session.reindex("gone")
    assert any("not in the library" in str(value) for value in session.updates[-3].values())


def test_polling_runs_only_while_usage_is_counted(session):
    session.backend.library.counting = True
    update = session.page.refresh(View())
    assert update[session.page.poll].active and "counting" in update[session.page.table]
    session.backend.library.counting = False
    assert not session.page.refresh(View())[session.page.poll].active


def test_each_file_can_be_cancelled_and_one_button_cancels_all(empty, tmp_path):
    uploads = []
    empty.backend.pace_s = 0.01
    for number in range(3):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"text {number}")
        uploads.append({"path": str(path), "orig_name": path.name})
    zone = empty.page.uploads
    adding = zone.add(uploads, ME)
    next(adding), next(adding), next(adding)
    zone.cancel_one(YOU, gr.EventData(None, {"place": "0"}))
    zone.cancel_one(ME, gr.EventData(None, {"place": "7"}))
    zone.cancel_one(ME, gr.EventData(None, {"place": "1"}))
    for update in adding:
        drawn = update.get(zone.progress, "")
        if any(document.name == "0.txt" for document in empty.backend.documents()) and "2.txt" in drawn:
            zone.cancel(ME)
    assert [document.name for document in empty.backend.documents()] == ["0.txt"]
    assert not any((tmp_path / f"{number}.txt").exists() for number in range(3)) and zone.running("me") == []


def test_work_of_a_session_follows_its_earlier_work_and_no_other_session_s(empty):
    zone, order, second_runs = empty.page.uploads, [], Event()

    def work(name):
        order.append(name)
        yield []

    def run_second():
        second_runs.set()
        list(zone.follow(lambda cancel: work("second"), ME))

    first = zone.follow(lambda cancel: work("first"), ME)
    next(first), next(first)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(run_second)
        second_runs.wait(30)
        list(zone.follow(lambda cancel: work("other"), YOU))
        first.close()
        second.result(30)
    assert order == ["first", "other", "second"] and zone.running("me") == []


def test_hostile_names_are_text():
    hostile = "<img src=x onerror=alert(1)>\u202egnp.exe"
    document = Document("a" * 64, hostile, 1, None, 1, time.time(), warning=hostile)
    html = render_table([DocumentUsage(document, {}, True)], View(renaming=document.id)) + render_table(
        [DocumentUsage(document, {})], View()
    )
    assert "<img" not in html and "\u202e" not in html and "&lt;img" in html


def test_files_dropped_while_models_load_wait_for_them(empty, tmp_path, monkeypatch):
    (tmp_path / "new.txt").write_text("The ferry is new.")
    loading = [Status(ready=False, message="Loading the model")] * 3
    monkeypatch.setattr(empty.backend, "status", lambda: loading.pop() if loading else READY)
    for update in empty.page.uploads.add([{"path": str(tmp_path / "new.txt"), "orig_name": "new.txt"}], ME):
        assert not any("kv-error" in str(value) for value in update.values())
    assert not loading and [document.name for document in empty.backend.documents()] == ["new.txt"]
