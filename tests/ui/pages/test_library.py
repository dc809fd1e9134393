"""The Library page without a browser: what is listed, in which order, what a click does, what is never drawn."""

import time
from threading import Timer
from types import SimpleNamespace

import gradio as gr
import pytest

from backend.interface.backend import Status
from backend.interface.library import DocumentUsage
from store.types import Document
from tests.support.fake_backend.backend import FakeBackend
from tests.support.fake_backend.library import EACH
from ui.layout import build
from ui.pages.library.preview import AT_ONCE as PASSAGES
from ui.pages.library.table import AT_ONCE, View, arranged, listing

ME = SimpleNamespace(session_hash="me")
NAMES = ("b.pdf", "A.txt", "c & d.md")


def documents(names=NAMES, chunks=45):
    return [Document(f"{n:064x}", name, 10 * n, n or None, chunks, float(n)) for n, name in enumerate(names, start=1)]


class Opened:
    """The page's handlers over a fake backend, as one session would use them."""

    def __init__(self, *listed):
        self.backend = FakeBackend(pace_s=0, documents=list(listed))
        page = build(self.backend)
        self.view, self.html, self.updates = View(), "", []
        acting = next(
            block for block in page.fns.values() if type(getattr(block.fn, "__self__", 0)).__name__ == "Library"
        )
        self.page = acting.fn.__self__

    def see(self, update):
        self.updates.append(update)
        self.view = update.get(self.page._view, self.view)
        self.html = update.get(self.page._list, self.html)
        return update

    def click(self, act, which="", **data):
        event = gr.EventData(None, {"act": act, "id": which, **data})
        return self.see(self.page.act(self.view, event))

    def reindex(self, name=""):
        event = gr.EventData(None, {"act": "reindex", "id": name})
        for update in self.page.reindex(self.view, ME, event):
            self.see(update)
        assert update[self.page._clock].active
        self.see(self.page.refresh(self.view))  # as the clock does


@pytest.fixture
def opened():
    return Opened(*documents())


def test_an_empty_list_says_what_to_do_and_a_loading_model_what_to_wait_for():
    page = Opened()
    assert "Drop files" in page.see(page.page.refresh(View()))[page.page._list]
    page.backend.state = Status(ready=False, line="Loading the model")
    assert "Loading the model. Your documents show here" in page.page.refresh(View())[page.page._list]


@pytest.mark.parametrize(
    "order, first", [("name", "c & d.md"), ("size", "c & d.md"), ("pages", "c & d.md"), ("added", "c & d.md")]
)
def test_a_heading_sorts_and_sorts_the_other_way_when_it_is_pressed_again(opened, order, first):
    held = opened.backend.library.list_with_usage()
    down = arranged(held, View(order=order, descending=True))
    assert down[0].document.name == first
    assert arranged(held, View(order=order, descending=False)) == down[::-1]
    opened.click("sort", order)
    before = opened.view.descending
    opened.click("sort", order)
    assert opened.view.order == order and opened.view.descending is not before


def test_the_filter_takes_every_word_in_any_case(opened):
    update = opened.see(opened.page.narrow(View(doomed=("x",)), "D C"))
    assert "c &amp; d.md" in opened.html and "A.txt" not in opened.html and opened.view.doomed == ()
    assert "No name holds" in opened.page.narrow(View(), "zebra")[opened.page._list]
    assert opened.page._summary in update


def test_what_a_deletion_frees_is_said_before_and_nothing_goes_without_a_yes(opened):
    (first, *_) = opened.backend.documents()
    opened.click("confirm")
    opened.click("delete", first.id)
    assert "frees 49.6\u00a0MB of computed keys and values and removes 45\u00a0passages" in opened.html
    opened.click("keep")
    assert len(opened.backend.documents()) == 3 and "frees" not in opened.html
    opened.click("delete", first.id)
    opened.click("confirm")
    assert [document.name for document in opened.backend.documents()] == ["A.txt", "c & d.md"]


def test_several_are_chosen_and_deleted_with_one_yes(opened):
    ids = [document.id for document in opened.backend.documents()]
    opened.click("all", on=True)
    assert set(opened.view.chosen) == set(ids) and "3 chosen" in opened.html
    opened.click("choose", ids[1], on=False)
    opened.click("delete")
    assert f"frees {8 * EACH / 1e6:.1f}\u00a0MB" in opened.html and "2 documents" in opened.html
    opened.click("confirm")
    assert [document.id for document in opened.backend.documents()] == [ids[1]] and opened.view.chosen == ()


def test_all_means_all_that_the_filter_lets_through(opened):
    opened.see(opened.page.narrow(opened.view, "txt"))
    opened.click("all", on=True)
    assert opened.view.chosen == (opened.backend.documents()[1].id,)
    opened.click("none")
    assert opened.view.chosen == ()


@pytest.mark.parametrize("words", ["txt", "zebra"])
def test_chosen_documents_that_the_filter_hides_are_counted_asked_about_and_deleted(opened, words):
    one, _, other = (document.id for document in opened.backend.documents())
    opened.click("choose", one, on=True)
    opened.see(opened.page.narrow(opened.view, words))
    assert "1 chosen (not shown)" in opened.html
    opened.click("delete")
    assert "Delete <bdi>b.pdf</bdi> (not shown)? This frees" in opened.html
    opened.click("keep")
    opened.click("choose", other, on=True)
    assert "2 chosen (not shown)" in opened.html
    opened.see(opened.page.narrow(opened.view, "md"))
    assert "2 chosen (1 of them not shown)" in opened.html
    opened.click("delete")
    assert "Delete 2 documents (1 of them not shown)?" in opened.html
    opened.click("confirm")
    assert [document.name for document in opened.backend.documents()] == ["A.txt"]


def test_the_question_stands_once_below_its_row_or_in_the_bar(opened):
    (one, *_) = opened.backend.documents()
    opened.click("choose", one.id, on=True)
    opened.click("delete")
    assert opened.html.count("This frees") == 1 and "kv-below" in opened.html and "not shown" not in opened.html
    holdings = opened.backend.library.list_with_usage()
    last = arranged(holdings, opened.view)[-1].document.id
    below_the_fold = View(limit=1, doomed=(last,), chosen=(last,))
    assert listing(holdings, below_the_fold).count("This frees") == 1
    gone = View(doomed=("gone", one.id), chosen=("gone", one.id))  # somebody else has deleted the other meanwhile
    assert "Delete <bdi>b.pdf</bdi>?" in listing(holdings, gone)


def test_a_rename_needs_a_name_and_the_row_that_was_opened_for_it(opened):
    one, other, _ = opened.backend.documents()
    opened.click("rename", one.id)
    assert opened.page._list not in opened.page.refresh(opened.view)  # nothing is drawn over a name being typed
    opened.click("save", one.id, name="  ")
    opened.click("save", other.id, name="wrong row")
    assert [document.name for document in opened.backend.documents()] == list(NAMES)
    opened.click("rename", one.id)
    update = opened.click("save", one.id, name="<b>new</b>.pdf")
    assert opened.backend.documents()[0].name == "<b>new</b>.pdf"
    assert "&lt;b&gt;new&lt;/b&gt;.pdf" in opened.html and "<b>new" not in opened.html
    assert opened.page._documents.library in update


def test_passages_come_twenty_at_a_time(opened):
    one = opened.backend.documents()[0]
    opened.click("open", one.id)
    assert opened.html.count("kv-piece-text") == PASSAGES and "1\u201320 of 45" in opened.html
    opened.click("page", "40")
    assert opened.html.count("kv-piece-text") == 5 and "Later" not in opened.html
    opened.click("place", f"{one.id}-41")
    assert "<mark>" in opened.html and opened.html.count("kv-piece-text") == 4
    opened.click("page", "20")
    assert "<mark>" not in opened.html
    opened.click("open", one.id)
    assert "kv-piece" not in opened.html


def test_a_long_list_is_drawn_in_parts():
    held = [DocumentUsage(document, {}) for document in documents([f"{n}.txt" for n in range(3 * AT_ONCE)])]
    assert listing(held, View()).count("<tbody>") == AT_ONCE
    assert f"Show {AT_ONCE} more of {2 * AT_ONCE}" in listing(held, View())
    assert listing(held, View(limit=4 * AT_ONCE)).count("<tbody>") == 3 * AT_ONCE


def test_reindexing_shows_its_steps_and_takes_the_chosen_ones(opened):
    one, _, other = opened.backend.documents()
    opened.backend.library.needs_rechunk = {one.id}
    assert "Cut with other settings" in opened.page.refresh(View())[opened.page._list]
    opened.reindex(one.id)
    assert "Cut with other settings" not in opened.html
    opened.click("choose", one.id, on=True)
    opened.click("choose", other.id, on=True)
    opened.reindex()
    assert sorted(opened.backend.library.reindexed) == sorted([one.id, one.id, other.id]) and opened.view.chosen == ()
    assert any("kv-file" in str(value) for update in opened.updates for value in update.values())


def test_what_a_person_does_to_the_list_while_documents_are_cut_anew_stays(opened):
    one, _, other = opened.backend.documents()
    steps = opened.page.reindex(View(), ME, gr.EventData(None, {"act": "reindex", "id": one.id}))
    opened.see(next(steps))
    opened.click("rename", other.id)
    drawn = opened.html
    for update in steps:
        opened.see(update)
    assert opened.html == drawn and opened.view.renaming == other.id


def test_reindexing_takes_the_chosen_ones_in_the_order_of_the_list_shown_or_not(opened):
    one, _, other = (document.id for document in opened.backend.documents())
    opened.click("choose", one, on=True)
    opened.click("choose", other, on=True)
    opened.see(opened.page.narrow(opened.view, "txt"))
    opened.reindex()
    assert opened.backend.library.reindexed == [other, one] and opened.view.chosen == ()


def test_an_error_is_a_sentence_and_the_list_stays(opened):
    opened.click("rename", "gone")
    update = opened.click("save", "gone", name="a")
    assert "look at the list of documents" in update[opened.page._trouble] and "A.txt" in opened.html
    opened.reindex("gone")
    assert any("not in the library" in str(value) for value in opened.updates[-3].values())


def test_the_clock_runs_only_while_something_is_counted(opened):
    opened.backend.library.counting = True
    update = opened.page.refresh(View())
    assert update[opened.page._clock].active and "counting" in update[opened.page._list]
    opened.backend.library.counting = False
    assert not opened.page.refresh(View())[opened.page._clock].active


def test_each_file_is_cancelled_by_itself_and_all_by_one_button(tmp_path):
    opened, uploads = Opened(), []
    opened.backend.pace_s = 0.01
    for number in range(3):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"text {number}")
        uploads.append({"path": str(path), "orig_name": path.name})
    zone = opened.page.uploads
    adding = zone.add(uploads, ME)
    next(adding), next(adding), next(adding)
    zone.cancel_one(SimpleNamespace(session_hash="you"), gr.EventData(None, {"place": "0"}))
    zone.cancel_one(ME, gr.EventData(None, {"place": "7"}))
    zone.cancel_one(ME, gr.EventData(None, {"place": "1"}))
    for update in adding:
        drawn = update.get(zone._progress, "")
        if any(document.name == "0.txt" for document in opened.backend.documents()) and "2.txt" in drawn:
            zone.cancel(ME)
    assert [document.name for document in opened.backend.documents()] == ["0.txt"]
    assert not any((tmp_path / f"{number}.txt").exists() for number in range(3)) and zone._under_way == {}


def test_a_page_of_hostile_names_is_text():
    hostile = "<img src=x onerror=alert(1)>\u202egnp.exe"
    document = Document("a" * 64, hostile, 1, None, 1, time.time(), warning=hostile)
    html = listing([DocumentUsage(document, {}, True)], View(renaming=document.id)) + listing(
        [DocumentUsage(document, {})], View()
    )
    assert "<img" not in html and "\u202e" not in html and "&lt;img" in html


def test_files_that_are_dropped_while_models_load_wait_for_them(opened, tmp_path):
    (tmp_path / "new.txt").write_text("The ferry is new.")
    opened.backend.state, ready = Status(ready=False, line="Loading the model"), opened.backend.state
    steps = opened.page.uploads.add([{"path": str(tmp_path / "new.txt"), "orig_name": "new.txt"}], ME)
    Timer(0.5, setattr, [opened.backend, "state", ready]).start()
    for update in steps:
        assert not any("kv-trouble" in str(value) for value in update.values())
    assert "new.txt" in {each.name for each in opened.backend.documents()}
