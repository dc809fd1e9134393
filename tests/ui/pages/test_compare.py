"""The Lab's comparison: diff, table, figure, files, handlers and API endpoint, without a browser or a model."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from threading import Event

import gradio as gr
import pytest
from gradio_client import Client

from engine.analysis.comparison import ComparedPassage, CompareRequest
from store.errors import KVScopeError
from tests.support.fake_backend.backend import FakeBackend
from tests.support.fake_backend.comparison import FakeComparison
from tests.support.ports import free_port
from tests.ui.conftest import ME
from ui.components.differences import mark_differences
from ui.figures.pareto import pareto_figure, pareto_front
from ui.layout import App, launch_options
from ui.pages.lab.compare import table
from ui.pages.lab.compare.export import escape_formula, write_csv, write_json
from ui.pages.lab.compare.table import label_citations

HOSTILE = "=1+1 <script>alert(1)</script> [1] $x$"
REQUEST = CompareRequest("Why?", ("cacheclip", "cacheblend", "direct"), (0.1, 0.2))


def last(comparison, request=REQUEST):
    *_, ended = comparison.compare(request, Event())
    return ended


def texts_of(updates):
    return " ".join(str(value) for update in updates for value in update.values())


def downloads_of(update):
    buttons = (value for value in update.values() if isinstance(value, gr.DownloadButton))
    return [Path(button.value["path"]) for button in buttons]


@pytest.fixture
def backend(backend):
    backend.comparison.pace_s = 0
    return backend


@pytest.fixture
def page(app):
    return app.lab.compare


def shown(updates):
    """Return what the page shows after these updates."""
    state = {}
    for update in updates:
        state |= update
    return texts_of([state])


# ---- the words that differ


def test_the_same_answer_is_not_marked_and_markup_in_it_is_text():
    assert "<mark" not in mark_differences(HOSTILE, HOSTILE, "Draft")
    assert "&lt;script&gt;" in mark_differences(HOSTILE, HOSTILE, "Draft")
    marked = mark_differences("nothing", HOSTILE, "Draft")
    assert "<script>" not in marked and marked.count("<mark") == 1


def test_neighbouring_words_share_a_mark_whose_title_has_the_original():
    marked = mark_differences("The code is 5730264 now.", "The number was 573026 now.", "Draft")
    assert marked.count("<mark") == 1
    assert 'title="Draft: code is 5730264"' in marked and ">number was 573026</mark> now." in marked
    left_out = mark_differences("one two three", "one three", "Draft")
    assert left_out.count("<mark") == 1 and 'title="Left out: two"' in left_out
    added = mark_differences("one three", "one two three", "Draft")
    assert added.count("<mark") == 1 and 'title="Draft: nothing"' in added
    assert "<mark" not in mark_differences("one  two", "one two ", "Draft")


def test_a_long_answer_that_differs_everywhere_is_one_element():
    assert mark_differences("a " * 2000, "b " * 2000, "Draft").count("<mark") == 1


def test_citations_of_known_passages_name_them():
    shown = label_citations("It is [1] or [7].", [ComparedPassage(1, "<b>.md", 3, 9)])
    assert 'title="&lt;b&gt;.md, page 3"' in shown and "[7]" in shown


# ---- the table


def comparison_with(times, tokens=4000):
    """Return a finished comparison whose methods took these times."""
    ended = last(FakeComparison(0))
    outcomes = tuple(replace(outcome, ttfts_ms=times) for outcome in ended.outcomes)
    return replace(ended, outcomes=outcomes, context_tokens=tokens)


def test_repeated_times_are_shown_with_their_range_and_uneven_ones_with_a_warning():
    even, uneven, once = (comparison_with(times) for times in ((900.0, 1000.0), (900.0, 1000.0, 1400.0), (900.0,)))
    assert "900 ms to 1.00 s" in table.render_table(even).replace("\u00a0", " ")
    assert " to " not in table.render_table(once).partition("<tbody")[2].partition("</tbody")[0]
    assert "busy" in table.render_progress(uneven) and "50\u00a0%" in table.render_progress(uneven)
    assert "busy" not in table.render_progress(even) + table.render_progress(once)


def test_a_short_prompt_is_named_as_the_reason_for_a_small_gain():
    assert "little to save" in table.render_progress(comparison_with((900.0,), tokens=700))
    assert "little to save" not in table.render_progress(comparison_with((900.0,)))


def test_the_best_of_each_column_is_emphasised_once_and_full_prefill_never():
    drawn = table.render_table(last(FakeComparison(0)))
    rows = drawn.split("<tr")
    assert drawn.count("(best)") == 3 and "(best)" not in rows[2]
    direct = next(row for row in rows if "Direct reuse" in row)
    assert direct.count("(best)") == 2  # soonest, and most reused


def test_a_single_method_is_not_marked_as_best():
    assert "(best)" not in table.render_table(last(FakeComparison(0), CompareRequest("Why?", ("direct",))))


def test_every_column_has_a_tooltip_and_the_protocol_is_below_the_table():
    drawn = table.render_table(last(FakeComparison(0)))
    assert drawn.count('scope="col"') == drawn.count("<th title=") + drawn.count('<th scope="col" title=') == 8
    assert "run once for all methods" in drawn and "Each method was timed once" in drawn


def test_the_number_of_repeats_is_shown_also_before_all_are_done():
    request = CompareRequest("Why?", ("direct",), repeats=3)
    snapshots = list(FakeComparison(0).compare(request, Event()))
    assert "Median of n = 3" in table.render_table(snapshots[-1])
    second = next(each for each in snapshots if all(len(one.ttfts_ms) == 2 for one in each.outcomes) and each.outcomes)
    assert "Median of n = 2" in table.render_table(second) and "3 planned" in table.render_table(second)


def test_progress_names_the_method_under_way_and_how_many_there_are():
    snapshots = list(FakeComparison(0).compare(CompareRequest("Why?", ("cacheclip", "direct"), repeats=3), Event()))
    said = [table.render_progress(each) for each in snapshots if each.state == "running"]
    assert "Round 1 of 3 · 2 of 3: CacheClip at 20\u00a0%" in said[2]
    assert 'max="9"' in said[2] and 'value="1"' in said[2]
    assert "Round 3 of 3 · 3 of 3: Direct reuse" in said[-1]


# ---- the figure


def test_the_front_holds_exactly_the_pareto_optimal_points():
    assert pareto_front([(3, 0.0), (1, 0.5), (2, 0.6), (2, 0.2), (3, 0.1), (1, 0.7)]) == [(1, 0.5), (2, 0.2), (3, 0.0)]
    assert pareto_front([]) == []


def test_a_kl_of_zero_is_drawn_below_all_others_and_labelled_zero():
    figure = pareto_figure(last(FakeComparison(0)).outcomes)
    heights = [y for trace in figure.data[1:] for y in trace.y]
    full = figure.data[1]
    assert full.name == "Full prefill" and full.y[0] == min(heights) and heights.count(full.y[0]) == 1
    assert figure.layout.yaxis.ticktext[0] == "0" and figure.layout.yaxis.tickvals[0] == full.y[0]
    low, high = figure.layout.yaxis.range
    assert all(low < height < high for height in heights)


def test_a_point_per_outcome_a_trace_per_method_and_ideal_times_left_of_them():
    outcomes = last(FakeComparison(0)).outcomes
    figure = pareto_figure(outcomes)
    assert sum(len(trace.x) for trace in figure.data[1:]) == len(outcomes)
    assert [trace.name for trace in figure.data[1:]] == ["Full prefill", "CacheClip", "CacheBlend", "Direct reuse"]
    full, *others = figure.data[1:]
    assert not full.error_x.visible and all(min(trace.error_x.arrayminus) >= 0 for trace in others)


def test_a_figure_of_full_prefill_alone_can_be_drawn():
    assert pareto_figure(last(FakeComparison(0), CompareRequest("Why?", ("full",))).outcomes).data


# ---- the files


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1"])
def test_a_text_never_becomes_a_formula_and_a_number_stays_one(text):
    assert escape_formula(text) == f"'{text}"
    assert escape_formula("plain = text") == "plain = text" and escape_formula(-1.5) == -1.5


def test_csv_has_a_row_for_each_outcome_and_guards_question_and_answer(tmp_path):
    comparison = FakeComparison(0)
    comparison.answers["full"] = HOSTILE
    request = CompareRequest("-1+1?", ("cacheclip", "direct"), (0.2,))
    written = write_csv(last(comparison, request), tmp_path / "a.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(written, newline="")))
    assert [row["method"] for row in rows] == ["full", "cacheclip", "direct"]
    assert rows[0]["answer"] == f"'{HOSTILE}" and rows[0]["question"] == "'-1+1?"
    assert (rows[0]["ratio"], rows[1]["ratio"], rows[1]["n"]) == ("", "0.2", "1")
    assert float(rows[1]["rt"]) == pytest.approx(float(rows[1]["ttft_ms"]) / float(rows[0]["ttft_ms"]))


def test_json_holds_all_times_and_stages(tmp_path):
    ended = last(FakeComparison(0), CompareRequest("Why?", ("direct",), repeats=3))
    read = json.loads(write_json(ended, tmp_path / "a.json").read_text(encoding="utf-8"))
    assert read["repeats"] == 3 and len(read["outcomes"][1]["ttfts_ms"]) == 3
    assert read["outcomes"][0]["stages"][0]["name"] == "load"


# ---- the page's handlers


def test_a_run_ends_with_a_table_a_figure_and_two_files(page, backend):
    updates, files = [], []
    for update in page.run("Why?", ["direct", "cacheclip"], [], [20, 10], 4, "3 times", ["a"], ME):
        updates.append(update)
        files = downloads_of(update) or files
    (request,) = backend.comparison.requests
    assert request == CompareRequest("Why?", ("cacheclip", "direct"), (0.1, 0.2), 4, 3, documents=("a",))
    assert [file.suffix for file in files] == [".csv", ".json"] and all(file.exists() for file in files)
    assert "Answers side by side" in texts_of(updates) and "kv-comparison" in texts_of(updates)


@pytest.mark.parametrize(
    "asked, methods, ratios, said",
    [
        (" \n", ["direct"], [20], "Type a question first"),
        ("Why?", [], [20], "at least one method"),
        ("Why?", ["direct"], [], "one recompute ratio"),
    ],
)
def test_missing_inputs_are_reported_and_nothing_runs(page, backend, asked, methods, ratios, said):
    (update,) = page.run(asked, methods, [], ratios, 3, "Once", [], ME)
    assert said in texts_of([update])
    assert backend.comparison.requests == [] and len(page.tasks) == 0


def test_after_an_error_half_way_the_finished_outcomes_can_be_downloaded(page, backend):
    backend.comparison.error, backend.comparison.error_after = KVScopeError("The disk is gone."), 2
    *_, ended = page.run("Why?", ["cacheclip", "direct"], [], [20], 3, "Once", [], ME)
    assert "The disk is gone." in texts_of([ended]) and len(downloads_of(ended)) == 2


def test_closing_the_page_cancels_the_comparison_and_discards_its_task(page, backend):
    stream = page.run("Why?", ["direct"], [], [20], 3, "Once", [], ME)
    next(stream), next(stream)
    stream.close()
    assert len(page.tasks) == 0 and len(backend.comparison.cancelled) == 1


def test_a_click_while_a_comparison_runs_neither_stops_it_nor_starts_another(page, backend):
    stream = page.run("Why?", ["direct"], [], [20], 3, "Once", [], ME)
    next(stream)
    for question in ("Another?", " "):
        assert list(page.run(question, ["direct"], [], [20], 3, "Once", [], ME)) == [gr.skip()]
    ended = shown(stream)
    assert "kv-comparison" in ended and "Stopped" not in ended
    assert len(backend.comparison.requests) == 1 and len(page.tasks) == 0


def test_stopping_keeps_what_is_finished(page, backend):
    backend.comparison.pace_s = 0.01
    updates = []
    for update in page.run("Why?", ["cacheclip", "direct"], ["cacheblend"], [20], 3, "5 times", [], ME):
        updates.append(update)
        if "CacheClip" in texts_of(updates):
            page.tasks.stop(ME)
    assert "Stopped early" in shown(updates) and "kv-comparison" in shown(updates)


# ---- the API endpoint


@pytest.fixture(scope="module")
def client():
    backend = FakeBackend(pace_s=0)
    backend.comparison.pace_s = 0
    blocks = App(backend).blocks
    _, url, _ = blocks.launch(
        server_name="127.0.0.1", server_port=free_port(), prevent_thread_lock=True, quiet=True, **launch_options()
    )
    yield Client(url, verbose=False)
    blocks.close()


def test_the_endpoint_streams_a_growing_comparison_as_plain_data(client):
    job = client.submit(
        question="Why?", methods=["cacheclip", "direct"], ratios=[0.1, 0.2], repeats=3, api_name="/compare"
    )
    ended = job.result()
    assert ended["state"] == "done" and len(job.outputs()) > 3
    assert [outcome["key"] for outcome in ended["outcomes"]] == ["full", "cacheclip@0.1", "cacheclip@0.2", "direct"]
    assert all(outcome["n"] == 3 for outcome in ended["outcomes"])


def test_the_endpoint_reports_a_bad_value(client):
    with pytest.raises(Exception, match="ratio must be a number between 0 and 1, got 7"):
        client.predict(question="Why?", ratios=[7], api_name="/compare")
