"""The Library's cache details without a browser: bounded drawings, confirmed actions, and errors as messages."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import pytest

from backend.interface.cache import KVServerUsage, QueryStats
from engine.errors import ModelNotReady
from tests.support.fake_backend.cache import GIB, FakeCache
from ui.figures.base import plotly_label
from ui.figures.hit_rate import KINDS, hit_rate_figure, steps
from ui.pages.cache.part import Cache, Selection
from ui.pages.cache.tree import ROOT, boxes, short_name, tree_figure
from ui.pages.cache.view import render_details, render_node_list, render_tier_cards, render_totals

HOSTILE = "<img src=x onerror='window.harmed=1'> $x$ &amp; <b>b</b>"


@pytest.fixture
def cache():
    service = FakeCache()
    service.fill()
    return service


@pytest.fixture
def page(backend):
    """The part over a filled cache, and a function that acts as a click does."""
    backend.cache.fill()
    cache = Cache(backend)
    with gr.Blocks(), gr.Tab() as tab:
        cache.build(tab)

    def act(action, key="", more="", selection=None):
        event = SimpleNamespace(_data={"act": action, "id": key, "more": more})
        return cache.act(selection or Selection(), event)

    return SimpleNamespace(backend=backend, cache=cache, act=act)


def message(page, update):
    return plain(update[page.cache.message])


def plain(html):
    return re.sub("<[^>]*>", " ", html).replace("\xa0", " ").strip()


# ---- boxes


def test_boxes_are_the_tree_under_its_documents_in_reading_order(cache):
    drawn = boxes(cache.snapshot().passages)
    at = {box.id: box for box in drawn}
    assert [box.label for box in drawn if box.depth == 1] == [
        "fares.pdf",
        "harbour-handbook.md",
        "Other libraries or models",
    ]
    assert [box.label for box in drawn if box.parent == "document:1"][:2] == ["Passage 1, page 1", "Passage 2, page 1"]
    for box in drawn:
        assert box.id == ROOT or drawn.index(at[box.parent]) < drawn.index(box)
        children = [other for other in drawn if other.parent == box.id]
        assert box.total_bytes == box.own_bytes + sum(other.total_bytes for other in children)
        assert box.num_passages == (box.passage is not None) + sum(o.num_passages for o in children) or box.is_merged
    (later,) = [box for box in drawn if box.depth == 3]
    assert (later.parent, later.label) == ("00000000", "fares.pdf · Passage 2, page 1")


@pytest.mark.parametrize(("names", "each"), [(3, 200), (300, 2), (1, 30)])
def test_the_number_of_boxes_is_bounded_and_sums_are_complete(names, each):
    cache = FakeCache(host_bytes=2**50, disk_bytes=2**50)
    cache.fill(tuple(f"{n:03}.md" for n in range(names)), each)
    passages = cache.snapshot().passages
    drawn = boxes(passages)
    assert len(drawn) <= 2 * 160 + 1
    assert len(tree_figure(drawn).data[0].ids) == len(drawn) and render_node_list(drawn).count("<li") == len(drawn) - 1
    assert drawn[0].num_passages == len(passages)
    assert drawn[0].total_bytes == sum(passage.node.replicas[0].size_bytes for passage in passages)
    merged = sum(box.num_passages for box in drawn if box.is_merged)
    assert merged + sum(box.passage is not None for box in drawn) == len(passages)
    for box in drawn:
        assert len([other for other in drawn if other.parent == box.id]) <= 25


def test_the_smallest_boxes_are_merged():
    cache = FakeCache()
    cache.fill(("a.md", "b.md"), each=30)
    *sizes, merged = [box.own_bytes for box in boxes(cache.snapshot().passages) if box.parent == "document:1"]
    assert sizes == [max(60, 480 - 20 * n) * 46_080 for n in range(24)]
    assert merged == 6 * 60 * 46_080


def test_an_empty_cache_draws_nothing():
    assert boxes([]) == [] and render_node_list([]) == ""


def test_a_passage_without_a_chunk_says_so(cache):
    (stray,) = [passage for passage in cache.snapshot().passages if passage.chunk is None]
    assert short_name(stray) == "Passage of another library or model"
    assert "Its text is unknown" in render_details(cache.snapshot(), stray.node.key)


# ---- figures


def test_the_icicle_is_coloured_by_the_fastest_tier_and_sized_by_bytes(cache):
    (icicle,) = tree_figure(boxes(cache.snapshot().passages)).data
    at = dict(zip(icicle.ids, range(len(icicle.ids)), strict=True))
    memory, disk = icicle.marker.colors[at["00000000"]], icicle.marker.colors[at["01000005"]]
    assert memory != disk and icicle.marker.colors.count(disk) == 1
    assert icicle.values[at["00000000"]] == 480 * 46_080 and icicle.values[at[ROOT]] == 0
    for word in ("priority", "frequency", "cost", "age"):
        assert word in icicle.hovertext[at["00000000"]]
    assert icicle.customdata[at["00000000"]] == "00000000" and icicle.customdata[at[ROOT]] == ""


def test_what_plotly_would_read_as_markup_is_escaped():
    cache = FakeCache()
    cache.fill((HOSTILE, "b.md"), each=1)
    (icicle,) = tree_figure(boxes(cache.snapshot().passages)).data
    for label in (*icicle.labels, *icicle.hovertext):
        assert not re.search(r"<(?!/?b>|br>)", label) and "$" not in label, label
        assert label.count("<b>") <= 1  # added by the hover text itself
    assert plotly_label("a\u202eb\x00<&") == "a\ufffdb\ufffd&lt;&amp;"
    assert len(plotly_label("x" * 500, 20)) == 20


def test_percentages_add_up():
    recent = [QueryStats(n + 1, exact=n, chunk=5, missed=10 - n % 10, full=0) for n in range(300)]
    edges, percentages = steps(recent)
    assert len(edges) <= 61 and edges[0] == 0.5 and edges[-1] == 300.5
    for index in range(len(edges)):
        assert sum(percentages[kind][index] for kind in KINDS) == pytest.approx(100)
    assert [trace.name for trace in hit_rate_figure(recent).data] == ["exact prefix hit", "chunk hit", "miss"]


def test_one_question_is_one_step_and_one_without_passages_is_none():
    edges, percentages = steps([QueryStats(4, chunk=3, missed=1), QueryStats(5)])
    assert edges == [3.5, 4.5] and percentages["chunk"] == [75, 75]
    assert steps([QueryStats(1)])[0] == [] and len(hit_rate_figure([QueryStats(1)]).data) == 0


# ---- texts


def test_cards_show_budget_speed_and_clock(cache):
    cards = render_tier_cards(cache.snapshot())
    for text in ("Memory", "Disk", "1.50 GiB", "8.00 GiB", "2.79 GiB/s", "Clock"):
        assert text in plain(cards)
    assert cards.count('type="range"') == 2
    assert "is saved, unless --gpu-cache-gib" in cards


def test_a_kv_server_has_a_card_with_its_error(cache):
    assert "KV server" not in render_tier_cards(cache.snapshot())
    cache.kv_server = KVServerUsage("10.0.0.5:6379", "", 1234, 56, 3 * 2**30, 2**20, 0)
    card = plain(render_tier_cards(cache.snapshot()))
    for text in ("KV server", "10.0.0.5:6379", "Connected.", "1,234", "56", "3.00 GiB", "1.0 MiB"):
        assert text in card
    cache.kv_server = replace(cache.kv_server, error="The KV server <b> does not work.")
    cards = render_tier_cards(cache.snapshot())
    assert "The KV server &lt;b&gt; does not work." in cards and "Connected." not in cards


def test_a_tier_that_needs_no_copy_is_instant(cache):
    cache.tree.tiers[1].record_read(10**9, 1e-3)
    assert "instant" in render_tier_cards(cache.snapshot())


def test_hit_rates_are_shown_as_text():
    cache = FakeCache()
    assert "Ask a question" in render_totals(cache.snapshot().totals)
    cache.ask(exact=500, chunk=250, missed=250, full=1000)
    text = plain(render_totals(cache.snapshot().totals))
    assert "75 %" in text and "over 1 question." in text and "1,000 tokens" in text


def test_document_names_and_texts_are_text_in_every_part():
    cache = FakeCache()
    cache.fill((HOSTILE, "b.md"), each=2, text=HOSTILE)
    view = cache.snapshot()
    for part in (
        render_node_list(boxes(view.passages)),
        render_details(view, "00000000"),
        render_details(view, "00000000/01000001", confirm_evict=True),
    ):
        assert "<img" not in part and "<b>b" not in part and "&lt;img" in part


# ---- events


def test_selecting_shows_the_text_and_does_not_redraw_the_tree(page):
    update = page.act("choose", "00000001")
    assert "Passage 2 of harbour-handbook.md" in update[page.cache.details]
    assert page.cache.tree_plot not in update and update[page.cache.selection] == Selection("00000001")


def test_a_pinned_passage_is_marked_and_cannot_be_evicted(page):
    update = page.act("pin", "00000001", selection=Selection("00000001"))
    assert "Unpin" in update[page.cache.details] and "pinned" in update[page.cache.node_list]
    assert "until KVScope exits or other settings are loaded" in message(page, update)
    assert "disabled" in update[page.cache.details]
    assert "unpin it, then try again" in message(
        page, page.act("evict-all", "00000001", selection=Selection("", "00000001"))
    )
    update = page.act("unpin", "00000001", selection=Selection("00000001"))
    assert "Unpin<" not in update[page.cache.details]


def test_eviction_is_confirmed_and_removes_only_what_was_confirmed(page):
    assert page.act("evict-all", "00000000")[page.cache.selection].pending == ""
    assert "00000000" in page.backend.cache.tree
    confirmation = page.act("evict", "00000000", selection=Selection("00000000"))
    assert "2\u00a0passages computed after it" in confirmation[page.cache.details]
    update = page.act("evict-one", "00000000", "host", selection=confirmation[page.cache.selection])
    assert "from memory" in message(page, update) and "00000000" in page.backend.cache.tree
    page.act("evict-all", "00000000", selection=Selection("00000000", "00000000"))
    assert "00000000" not in page.backend.cache.tree


def test_cancelling_an_eviction_keeps_the_passage(page):
    confirmation = page.act("evict", "00000000", selection=Selection("00000000"))
    kept = page.act("keep", selection=confirmation[page.cache.selection])
    assert kept[page.cache.selection] == Selection("00000000") and "kv-confirm" not in kept[page.cache.details]


def test_a_smaller_budget_reports_what_was_evicted(page):
    update = page.act("budget", "host", "0.1")
    assert page.backend.cache.tree.tiers[0].budget_bytes == round(0.1 * GIB)
    pattern = r"Memory budget set to 102\.4 MiB\. Evicted .*passages? .*from memory"
    assert re.search(pattern, message(page, update))
    assert page.backend.cache.tree.tiers[0].size_bytes <= 0.1 * GIB


@pytest.mark.parametrize("value", ["undefined", "-1", "nan", "inf"])
def test_an_invalid_budget_is_an_error_message(page, value):
    before = page.backend.cache.tree.tiers[0].budget_bytes
    assert "Something went wrong" in message(page, page.act("budget", "host", value))
    assert page.backend.cache.tree.tiers[0].budget_bytes == before


def test_clearing_is_confirmed(page):
    page.act("clear-all")
    assert not page.backend.cleared
    confirmation = page.act("clear")
    assert (
        confirmation[page.cache.selection].pending == "all" and "Clear the cache?" in confirmation[page.cache.actions]
    )
    update = page.act("clear-all", selection=confirmation[page.cache.selection])
    assert page.backend.cleared and "The cache is empty" in message(page, update)
    assert update[page.cache.tree_part].visible is False


def test_before_the_models_are_loaded_the_page_says_so(page):
    page.backend.cache.error = ModelNotReady("Loading.")
    for update in (page.cache.refresh(Selection()), page.act("choose", "00000000")):
        assert "Wait until the status says ready" in message(page, update)


def test_while_passages_are_being_matched_the_page_says_so_and_polls(page):
    poll = page.cache.poll
    page.backend.cache.is_complete = False
    update = page.cache.refresh(Selection())
    assert "Matching cached data" in message(page, update) and update[poll].active
    assert not page.act("evict", "00000000")[poll].active  # a confirmation is not redrawn
    page.backend.cache.is_complete = True
    update = page.cache.refresh(Selection())
    assert "Matching cached data" not in message(page, update) and not update[poll].active


def test_a_large_cache_is_a_small_payload():
    cache = FakeCache(host_bytes=2**50, disk_bytes=2**50)
    cache.fill(tuple(f"{n:03}.md" for n in range(40)), each=100)
    drawn = boxes(cache.snapshot().passages)
    assert len(render_node_list(drawn)) + len(json.dumps(tree_figure(drawn).to_plotly_json(), default=list)) < 300_000
