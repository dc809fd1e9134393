"""The Cache page without a browser: what is drawn stays small, what is asked is done once, and errors are sentences."""

import json
import re
from types import SimpleNamespace

import pytest

from backend.interface.cache import QueryStats
from engine.errors import ModelNotReady
from tests.support.fake_backend.backend import FakeBackend
from tests.support.fake_backend.cache import GIB, FakeCache
from ui.figures.hit_rate import KINDS, hits, steps
from ui.figures.labels import label
from ui.layout import build
from ui.pages.cache.node_details import detail, listed
from ui.pages.cache.page import Cache, Shown
from ui.pages.cache.tier_cards import cards, served
from ui.pages.cache.tree_figure import tree
from ui.pages.cache.tree_nodes import ROOT, boxes, name_of

HOSTILE = "<img src=x onerror='window.harmed=1'> $x$ &amp; <b>b</b>"


@pytest.fixture
def desk():
    made = FakeCache()
    made.fill()
    return made


@pytest.fixture
def page():
    """The page of a built app, its backend, and a way to follow a click."""
    backend = FakeBackend()
    backend.cache.fill()
    blocks = build(backend)
    cache = next(fn.fn.__self__ for fn in blocks.fns.values() if isinstance(getattr(fn.fn, "__self__", None), Cache))

    def act(act, key="", more="", shown=None):
        return cache.act(shown or Shown(), SimpleNamespace(_data={"act": act, "id": key, "more": more}))

    return SimpleNamespace(backend=backend, cache=cache, act=act)


def said(page, update):
    return re.sub("<[^>]*>", "", update[page.cache._said])


# ---- boxes


def test_boxes_are_the_tree_under_its_documents_in_reading_order(desk):
    found = boxes(desk.snapshot().passages)
    at = {box.id: box for box in found}
    assert [box.label for box in found if box.depth == 1] == [
        "fares.pdf",
        "harbour-handbook.md",
        "Earlier libraries or models",
    ]
    assert [box.label for box in found if box.parent == "document:1"][:2] == ["Passage 1, page 1", "Passage 2, page 1"]
    for box in found:
        assert box.id == ROOT or found.index(at[box.parent]) < found.index(box)
        below = [other for other in found if other.parent == box.id]
        assert box.all_bytes == box.own_bytes + sum(other.all_bytes for other in below)
        assert box.passages == (box.passage is not None) + sum(o.passages for o in below) or box.merged
    (behind,) = [box for box in found if box.depth == 3]
    assert (behind.parent, behind.label) == ("00000000", "fares.pdf · Passage 2, page 1")


@pytest.mark.parametrize(("names", "each"), [(3, 200), (300, 2), (1, 30)])
def test_however_large_the_cache_few_boxes_are_drawn_and_nothing_is_left_out_of_the_sums(names, each):
    desk = FakeCache(host_bytes=2**50, disk_bytes=2**50)
    desk.fill(tuple(f"{n:03}.md" for n in range(names)), each)
    passages = desk.snapshot().passages
    found = boxes(passages, most=160, each=24)
    assert len(found) <= 2 * 160 + 1
    assert len(tree(found).data[0].ids) == len(found) and listed(found).count("<li") == len(found) - 1
    assert found[0].passages == len(passages)
    assert found[0].all_bytes == sum(passage.facts.copies[0].size_bytes for passage in passages)
    assert sum(box.passages for box in found if box.merged) + sum(box.passage is not None for box in found) == len(
        passages
    )
    for box in found:
        assert len([other for other in found if other.parent == box.id]) <= 25


def test_the_smallest_are_merged(desk):
    found = boxes(desk.snapshot().passages, each=2)
    drawn = [box.own_bytes for box in found if box.parent == "document:1"]
    assert drawn[:2] == [480 * 46_080, 460 * 46_080]
    assert drawn[2] == sum((480 - 20 * n) * 46_080 for n in (2, 3, 4, 5))


def test_nothing_kept_draws_nothing():
    assert boxes([]) == [] and listed([]) == ""


def test_a_passage_of_another_model_is_named_as_such(desk):
    (stray,) = [passage for passage in desk.snapshot().passages if passage.chunk is None]
    assert name_of(stray) == "Passage of an earlier library or model"
    assert "is not known any more" in detail(desk.snapshot(), stray.facts.key)


# ---- figures


def test_the_icicle_is_coloured_by_the_fastest_tier_and_sized_by_bytes(desk):
    (drawn,) = tree(boxes(desk.snapshot().passages)).data
    at = dict(zip(drawn.ids, range(len(drawn.ids)), strict=True))
    memory, disk = drawn.marker.colors[at["00000000"]], drawn.marker.colors[at["01000005"]]
    assert memory != disk and drawn.marker.colors.count(disk) == 1
    assert drawn.values[at["00000000"]] == 480 * 46_080 and drawn.values[at[ROOT]] == 0
    for word in ("priority", "frequency", "cost", "age"):
        assert word in drawn.hovertext[at["00000000"]]
    assert drawn.customdata[at["00000000"]] == "00000000" and drawn.customdata[at[ROOT]] == ""


def test_what_plotly_would_read_as_markup_is_escaped():
    desk = FakeCache()
    desk.fill((HOSTILE, "b.md"), each=1)
    (drawn,) = tree(boxes(desk.snapshot().passages)).data
    for shown in (*drawn.labels, *drawn.hovertext):
        assert not re.search(r"<(?!/?b>|br>)", shown) and "$" not in shown, shown
        assert shown.count("<b>") <= 1  # the hover's own
    assert label("a\u202eb\x00<&") == "a\ufffdb\ufffd&lt;&amp;"
    assert len(label("x" * 500, 20)) == 20


def test_shares_are_of_what_a_question_read_and_add_up():
    recent = [QueryStats(n + 1, exact=n, chunk=5, missed=10 - n % 10, full=0) for n in range(300)]
    numbers, shares = steps(recent)
    assert len(numbers) <= 61 and numbers[0] == 0.5 and numbers[-1] == 300.5
    for place in range(len(numbers)):
        assert sum(shares[kind][place] for kind in KINDS) == pytest.approx(100)
    assert [trace.name for trace in hits(recent).data] == ["exact prefix", "found by content", "computed"]


def test_one_question_is_a_block_and_one_without_passages_is_none():
    numbers, shares = steps([QueryStats(4, chunk=3, missed=1), QueryStats(5)])
    assert numbers == [3.5, 4.5] and shares["chunk"] == [75, 75]
    assert steps([QueryStats(1)])[0] == [] and len(hits([QueryStats(1)]).data) == 0


# ---- words


def test_cards_say_fill_budget_speed_and_clock(desk):
    shown = re.sub("<[^>]*>", " ", cards(desk.snapshot())).replace("\xa0", " ")
    for words in ("Memory", "Disk", "1.5 GiB", "8.0 GiB", "3.00 GB/s", "Clock"):
        assert words in shown
    assert cards(desk.snapshot()).count('type="range"') == 2
    assert "kept for the next start" in cards(desk.snapshot())


def test_what_is_not_copied_is_read_at_once(desk):
    desk.tree.tiers[1].was_read(10**9, 1e-3)
    assert "at once" in cards(desk.snapshot())


def test_hit_rates_are_words_too():
    desk = FakeCache()
    assert "Ask a question" in served(desk.snapshot().totals)
    desk.ask(exact=500, chunk=250, missed=250, full=1000)
    shown = re.sub("<[^>]*>", " ", served(desk.snapshot().totals)).replace("\xa0", " ")
    assert "75 %" in shown and "1 question " in shown and "1,000 tokens" in shown


def test_document_names_and_texts_are_text_in_every_part():
    desk = FakeCache()
    desk.fill((HOSTILE, "b.md"), each=2, text=HOSTILE)
    view = desk.snapshot()
    for part in (
        listed(boxes(view.passages)),
        detail(view, "00000000"),
        detail(view, "00000000/01000001", doomed=True),
    ):
        assert "<img" not in part and "<b>b" not in part and "&lt;img" in part


# ---- events


def test_choosing_shows_the_text_and_draws_no_tree(page):
    update = page.act("choose", "00000001")
    assert "Passage 2 of harbour-handbook.md" in update[page.cache._detail]
    assert page.cache._tree not in update and update[page.cache.shown] == Shown("00000001")


def test_pinning_shows_and_holds(page):
    update = page.act("pin", "00000001", shown=Shown("00000001"))
    assert "Unpin" in update[page.cache._detail] and "pinned" in update[page.cache._list]
    assert "until KVScope ends or other settings are loaded" in said(page, update)
    assert "disabled" in update[page.cache._detail]
    assert "unpin it, then try again" in said(page, page.act("evict-all", "00000001", shown=Shown("", "00000001")))
    update = page.act("unpin", "00000001", shown=Shown("00000001"))
    assert "Unpin<" not in update[page.cache._detail]


def test_evicting_asks_first_and_takes_only_what_was_asked_about(page):
    assert page.act("evict-all", "00000000")[page.cache.shown].doomed == ""
    assert "00000000" in page.backend.cache.tree
    asked = page.act("evict", "00000000", shown=Shown("00000000"))
    assert "2\u00a0passages that were computed behind it" in asked[page.cache._detail]
    update = page.act("evict-one", "00000000", "host", shown=asked[page.cache.shown])
    assert "left memory" in said(page, update) and "00000000" in page.backend.cache.tree
    page.act("evict-all", "00000000", shown=Shown("00000000", "00000000"))
    assert "00000000" not in page.backend.cache.tree


def test_keeping_keeps(page):
    asked = page.act("evict", "00000000", shown=Shown("00000000"))
    kept = page.act("keep", shown=asked[page.cache.shown])
    assert kept[page.cache.shown] == Shown("00000000") and "kv-sure" not in kept[page.cache._detail]


def test_a_smaller_budget_says_what_left(page):
    update = page.act("budget", "host", "0.1")
    assert page.backend.cache.tree.tiers[0].budget_bytes == round(0.1 * GIB)
    assert re.search(
        r"Memory may take 0\.1 GiB now\. .*passages? .*left memory", said(page, update).replace("\xa0", " ")
    )
    assert page.backend.cache.tree.tiers[0].size_bytes <= 0.1 * GIB


@pytest.mark.parametrize("value", ["undefined", "-1", "nan", "inf"])
def test_a_budget_that_is_none_is_a_sentence(page, value):
    before = page.backend.cache.tree.tiers[0].budget_bytes
    assert "Something broke" in said(page, page.act("budget", "host", value))
    assert page.backend.cache.tree.tiers[0].budget_bytes == before


def test_clearing_asks_first(page):
    page.act("clear-all")
    assert not page.backend.cleared
    asked = page.act("clear")
    assert asked[page.cache.shown].doomed == "all" and "Clear everything" in asked[page.cache._buttons]
    update = page.act("clear-all", shown=asked[page.cache.shown])
    assert page.backend.cleared and "fills with the first document" in said(page, update)
    assert update[page.cache._filled].visible is False


def test_before_the_models_are_there_the_page_says_so(page):
    page.backend.cache.error = ModelNotReady("Loading.")
    for update in (page.cache.refresh(Shown()), page.act("choose", "00000000")):
        assert "Wait until the status says ready" in said(page, update)


def test_while_passages_are_told_apart_the_page_says_so_and_looks_again(page):
    clock = page.cache._clock
    page.backend.cache.counted = False
    update = page.cache.refresh(Shown())
    assert "Still finding out" in said(page, update) and update[clock].active
    assert not page.act("evict", "00000000")[clock].active  # nothing is drawn anew under a question
    page.backend.cache.counted = True
    update = page.cache.refresh(Shown())
    assert "Still finding out" not in said(page, update) and not update[clock].active


def test_a_large_cache_is_a_small_payload():
    desk = FakeCache(host_bytes=2**50, disk_bytes=2**50)
    desk.fill(tuple(f"{n:03}.md" for n in range(40)), each=100)
    found = boxes(desk.snapshot().passages)
    assert len(listed(found)) + len(json.dumps(tree(found).to_plotly_json(), default=list)) < 300_000
