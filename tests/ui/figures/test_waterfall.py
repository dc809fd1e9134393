"""The waterfall figure: stages before the first token, overlapping where they overlapped in time."""

from engine.trace import Stage
from ui.figures.waterfall import waterfall_figure

STAGES = [Stage("load", 20, 60), Stage("search", 0, 20), Stage("score", 20, 150), Stage("decode", 399.9, 2000)]


def test_stages_are_drawn_in_start_order_and_overlap_in_time():
    bars = waterfall_figure(STAGES, ttft_ms=400).data[0]
    assert list(bars.y) == ["Search", "Load", "Score"]
    assert list(bars.base) == [0, 20, 20] and list(bars.x) == [20, 60, 150]


def test_the_first_token_is_a_dotted_line():
    figure = waterfall_figure(STAGES, ttft_ms=400)
    assert (figure.layout.shapes[0].x0, figure.layout.shapes[0].line.dash) == (400, "dot")
    assert figure.layout.annotations[0].text == "first token 400\u00a0ms"


def test_the_axis_has_the_units_of_the_labels_and_stages_of_no_visible_length_have_no_row():
    slow = waterfall_figure([Stage("search", 0, 0.04), Stage("recompute", 0, 5120)], ttft_ms=5120)
    assert list(slow.data[0].text) == ["5.12\u00a0s"]
    assert list(slow.layout.xaxis.ticktext) == ["0\u00a0s", "2\u00a0s", "4\u00a0s"]
    fast = waterfall_figure(STAGES, ttft_ms=400)
    assert list(fast.layout.xaxis.ticktext) == [f"{ms}\u00a0ms" for ms in (0, 100, 200, 300, 400)]
    assert list(fast.layout.xaxis.tickvals) == [0, 100, 200, 300, 400]


def test_without_a_first_token_there_is_no_line():
    assert not waterfall_figure(STAGES, ttft_ms=None).layout.shapes


def test_stages_of_one_name_share_a_row():
    twice = [Stage("load", 0, 5), Stage("load", 10, 5)]
    assert waterfall_figure(twice, 20).layout.height == waterfall_figure(twice[:1], 20).layout.height


def test_selection_and_computation_have_colours_of_their_own():
    names = ["select", "question", "recompute", "full prefill", "search"]
    select, question, fresh, full, other = waterfall_figure([Stage(n, 0, 5) for n in names], 20).data[0].marker.color
    assert select == question and fresh == full and len({select, fresh, other}) == 3


def test_no_stages_make_an_empty_figure():
    assert len(waterfall_figure([], None).data[0].x or ()) == 0


def test_the_background_is_transparent():
    assert waterfall_figure(STAGES, 400).layout.paper_bgcolor == "rgba(0,0,0,0)"


def test_a_row_of_several_bars_has_one_label_with_their_sum():
    stages = [Stage("search", 0, 20), Stage("load", 20, 5), Stage("search", 25, 10), Stage("load", 36, 1)]
    (bars,) = waterfall_figure(stages, 100.0).data
    assert list(bars.text) == ["", "", "30\u00a0ms", "6\u00a0ms"]
