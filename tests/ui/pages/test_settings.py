"""What the Settings page says and when it asks first; no browser, no model."""

from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import pytest

from backend.interface.library import IngestProgress
from backend.interface.models import ModelInfo, ReloadStatus, StaleChunking, SystemInfo
from engine.selftest_result import SelfTestResult
from tests.support.fake_backend.backend import FakeBackend
from tests.support.fake_backend.models import EMBEDDED, LARGE, SMALL, TIGHT, WANTED
from ui.format import size
from ui.pages.settings import model_info as facts
from ui.pages.settings.cache_section import fill
from ui.pages.settings.page import Settings

ME = SimpleNamespace(session_hash="me")
HOSTILE = '<img src=x onerror="alert(1)">'


class Shelf:
    """Cuts anew in one step each, and tells the desk."""

    def __init__(self, desk):
        self.desk, self.asked = desk, []

    def reindex(self, document_ids, cancel):
        for document in document_ids:
            self.asked.append(document)
            yield [IngestProgress("harbour.md", "done", 1, 1)]
        self.desk.cut = []


@pytest.fixture
def backend():
    return FakeBackend(pace_s=0.0)


def page_of(backend, shelf=None):
    """The page drawn, with its models section and the names of its components by object."""
    page = Settings(backend, shelf)
    with gr.Blocks(), gr.Tabs(), gr.Tab("Settings") as tab:
        page.build(tab)
    return page


def values(page, **chosen):
    wanted = replace(WANTED, **chosen)
    return [getattr(wanted, name) for name in page._models.choices._controls]


def said(updates, component):
    """The last value that a component was given."""
    found = [update[component] for update in updates if component in update]
    return str(found[-1]) if found else ""


@pytest.mark.parametrize("found, verdict", [(SMALL, "Fits: at most"), (TIGHT, "Fits for usual"), (LARGE, "Too large")])
def test_a_footprint_says_in_one_sentence_whether_it_fits(found, verdict):
    shown = facts.footprint(found)
    assert verdict in shown and size(found.free_bytes) in shown and size(found.fetch_bytes) in shown


def test_the_drawn_parts_never_reach_beyond_the_bar():
    for found in (SMALL, TIGHT, LARGE, replace(SMALL, free_bytes=0, weights_bytes=0, kv_bytes=0, question_bytes=0)):
        shares = [float(part.split("%")[0]) for part in facts.footprint(found).split("width:")[1:]]
        assert len(shares) == 3 and sum(shares) <= 100.01


def test_names_folders_and_errors_are_shown_as_text():
    shown = [
        facts.footprint(replace(SMALL, name=HOSTILE, family=HOSTILE)),
        facts.loaded([ModelInfo("primary", HOSTILE, None, HOSTILE, HOSTILE, None, None, note=HOSTILE)]),
        facts.changing(ReloadStatus(running=True, line=HOSTILE)),
        facts.changing(ReloadStatus(error=HOSTILE)),
        facts.about(SystemInfo(((HOSTILE, HOSTILE),), HOSTILE, ((HOSTILE, 1),))),
        facts.prompt(HOSTILE),
    ]
    assert not any("<img" in each for each in shown) and all("&lt;img" in each for each in shown)


def test_the_self_test_is_shown_with_what_it_measured_and_what_is_allowed():
    shown = facts.loaded([ModelInfo("primary", "m", 1, "bf16", "CPU", 8, 9, SelfTestResult(0.0123, 0.04, 0.25, 38.4))])
    assert "0.012 of 0.25 allowed" in shown and "38\u00a0ms" in shown and "largest by 0.04" in shown


def test_no_models_no_tiers_and_no_other_cuts_are_said_or_left_out():
    assert "No model is loaded yet" in facts.loaded([])
    assert fill([]) == "" and facts.stale_documents([], 512, 50) == ""


def test_documents_that_keep_an_earlier_cut_are_counted_for_each_cut():
    found = [StaleChunking(512, 50, ("a", "b", "c")), StaleChunking(1000, 0, ("d",))]
    shown = facts.stale_documents(found, 256, 32).replace("\u00a0", " ")
    assert "3 documents were cut at 512 / 50 tokens; 1 document was cut at 1000 / 0 tokens" in shown
    assert "New ones are cut at 256 / 32" in shown


def test_a_model_that_fits_is_loaded_and_everything_is_shown_anew(backend):
    page = page_of(backend)
    updates = list(page._models.load(*values(page, model=SMALL.name)))
    assert backend.models.asked == [replace(WANTED, model=SMALL.name)]
    assert "Done" in said(updates, page._changes.line) and SMALL.name in said(updates, page._models.loaded)
    assert updates[-1][page._seen].model == SMALL.name


def test_where_memory_is_short_nothing_happens_before_a_second_yes(backend):
    page = page_of(backend)
    updates = list(page._models.load(*values(page, model=LARGE.name)))
    assert not backend.models.asked and "Too large" in said(updates, page._models.found)
    assert updates[-1][page._models._anyway].visible and not updates[-1][page._models._load].visible
    assert page._models.keep()[page._models._load].visible and not backend.models.asked
    list(page._models.load_anyway(*values(page, model=LARGE.name)))
    assert [wanted.model for wanted in backend.models.asked] == [LARGE.name]


@pytest.mark.parametrize("name, reason", [(HOSTILE, "neither a folder"), ("offline/model", "cannot be reached")])
def test_a_name_that_cannot_be_used_is_told_where_it_was_typed(backend, name, reason):
    page = page_of(backend)
    for handler in (page._models.check, page._models.load):
        shown = said(list(handler(*values(page, model=name))), page._models.found)
        assert reason in shown and "<img" not in shown
    assert not backend.models.asked


def test_a_model_that_fails_is_told_with_the_reason_and_the_controls_go_back(backend):
    backend.models.broken = "'Qwen/Qwen3-0.6B' failed its self-test. What was there before is in use again."
    page = page_of(backend)
    updates = list(page._models.load(*values(page, model=SMALL.name)))
    assert "in use again" in said(updates, page._changes.line)
    assert updates[-1][page._models.choices._controls["model"]] == EMBEDDED


def test_settings_in_use_are_told_to_be_and_a_bug_becomes_a_sentence(backend, monkeypatch):
    page = page_of(backend)
    assert "in use already" in said(list(page._models.load(*values(page))), page._changes.line)
    monkeypatch.setattr(backend.models, "changing", lambda: 1 / 0)
    assert "Something broke" in said(list(page.look(None)), page._changes.line)


def test_what_is_set_and_not_applied_stays_until_somebody_changes_the_house(backend):
    page = page_of(backend)
    model = page._models.choices._controls["model"]
    assert model not in next(page.look(WANTED))
    backend.models.now = replace(WANTED, model=SMALL.name)
    assert next(page.look(WANTED))[model] == SMALL.name


def test_a_change_that_another_tab_began_is_followed_when_the_page_is_opened(backend):
    backend.models.unhurried.clear()
    backend.models.change(replace(WANTED, policy="lru"))
    page = page_of(backend)
    steps = page.look(WANTED)
    next(steps)
    assert "Downloading" in str(next(steps)[page._changes.line])
    backend.models.unhurried.set()
    assert list(steps)[-1][page._seen].policy == "lru"


def test_what_a_flag_fixed_cannot_be_moved_and_says_so(backend):
    backend.models.flags = {"model": "--model", "host_gib": "KVSCOPE_HOST_GIB"}
    page = page_of(backend)
    for section, name in ((page._models, "model"), (page._memory, "host_gib")):
        control = section.choices._controls[name]
        assert control.interactive is False and backend.models.flags[name] in control.info
    assert page._memory.choices._controls["policy"].interactive is not False


def test_an_emptied_control_keeps_the_value_and_numbers_keep_their_kind(backend):
    page = page_of(backend)
    found = page._memory.choices.read((None, "", 8, "lru"))
    assert found == {"host_gib": 1.5, "disk_gib": 8.0, "kv_bits": 8, "policy": "lru"}
    assert page._models.choices.read(tuple(values(page, model="  a/b ")))["model"] == "a/b"


def test_documents_that_were_cut_otherwise_are_cut_anew_at_a_click(backend):
    backend.models.cut = [StaleChunking(512, 50, ("a", "b")), StaleChunking(64, 8, ("c",))]
    shelf = Shelf(backend.models)
    page = page_of(backend, shelf)
    assert page._passages.refreshed()[page._passages.again].visible
    updates = list(page._passages.reindex(ME))
    assert shelf.asked == ["a", "b", "c"] and "harbour.md" in said(updates, page._passages.progress)
    assert updates[-1][page._passages.cuts] == "" and not updates[-1][page._passages.again].visible
    assert len(page._passages.stops) == 0


def test_without_a_shelf_nothing_offers_to_cut_anew(backend):
    backend.models.cut = [StaleChunking(512, 50, ("a",))]
    page = page_of(backend)
    assert not page._passages.refreshed()[page._passages.again].visible
