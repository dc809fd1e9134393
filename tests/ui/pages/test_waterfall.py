"""The waterfall: stages before the first token, overlapping where they overlapped in time."""

import re

import pytest

from engine.trace import Stage
from ui.pages.ask.waterfall import render_waterfall

STAGES = [Stage("load", 20, 60), Stage("search", 0, 20), Stage("score", 20, 150), Stage("decode", 399.9, 2000)]


def rows(shown):
    """Return the label, the kind of bar, starts and widths in percent, and the total of each row."""
    return [
        (
            re.findall("<span>(.*?)</span>", row)[0],
            re.findall("kv-stage-([a-z]+)", row)[0],
            [(float(left), float(width)) for left, width in re.findall(r"left: ([\d.]+)%; width: ([\d.]+)%", row)],
            re.findall("<small[^>]*>(.*?)</small>", row)[0],
        )
        for row in shown.split("<li>")[1:]
    ]


def test_stages_are_drawn_in_start_order_and_overlap_in_time():
    search, load, score = rows(render_waterfall(STAGES, ttft_ms=400))
    assert [search[0], load[0], score[0]] == ["Search", "Load", "Score"]
    ((_, width),), ((left, _),), ((other, long),) = search[2], load[2], score[2]
    assert left == other == pytest.approx(width) and long == pytest.approx(7.5 * width, abs=0.02)


def test_the_first_token_is_a_line_on_the_same_axis():
    shown = render_waterfall([Stage("search", 0, 200), Stage("prefill", 200, 200)], ttft_ms=400)
    (_, _, [(left, width)], _) = rows(shown)[1]
    (line,) = re.findall(r'kv-first-token"><i style="left: ([\d.]+)%', shown)
    assert float(line) == pytest.approx(left + width) and "400\u00a0ms" in shown
    assert "kv-first-token" not in render_waterfall(STAGES, ttft_ms=None)


def test_labels_have_the_units_of_the_page_and_stages_of_no_visible_length_have_no_row():
    slow = rows(render_waterfall([Stage("search", 0, 0.04), Stage("recompute", 0, 5120)], ttft_ms=5120))
    assert [(label, total) for label, _, _, total in slow] == [("Recompute", "5.12\u00a0s")]


def test_a_row_of_several_bars_has_one_label_with_their_sum():
    stages = [Stage("search", 0, 20), Stage("load", 20, 5), Stage("search", 25, 10), Stage("load", 36, 1)]
    shown = rows(render_waterfall(stages, 100.0))
    assert [(len(bars), total) for _, _, bars, total in shown] == [(2, "30\u00a0ms"), (2, "6\u00a0ms")]


def test_selection_and_computation_have_colours_of_their_own():
    names = ["select", "question", "recompute", "full prefill", "search"]
    shown = rows(render_waterfall([Stage(name, 0, 5) for name in names], 20))
    assert [kind for _, kind, _, _ in shown] == ["select", "select", "compute", "compute", "other"]


def test_a_measured_full_prefill_is_a_bar_unless_this_was_it():
    *_, (label, kind, [(left, width)], total) = rows(render_waterfall(STAGES, 400, full_ms=1600))
    assert (label, kind, left, total) == ("Full prefill", "full", 0, "1.60\u00a0s")
    *_, (_, _, [(_, search)], _) = rows(render_waterfall(STAGES[1:2], 400, full_ms=1600))[:1]
    assert width == pytest.approx(80 * search, rel=0.02)
    assert "Full prefill" not in render_waterfall(STAGES, 400, full_ms=400)


def test_without_stages_nothing_is_shown():
    assert render_waterfall([], None) == ""
