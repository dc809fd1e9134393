"""The handlers of the Lab's inspection: what they draw, how large it is, and that moving a slider runs no model."""

import json
import re

import gradio as gr
import numpy as np
import pytest

from engine.errors import NoPassageFound
from engine.request import Answer, Request, Source, TextSpan
from engine.trace import Trace
from tests.support.fake_backend.inspection import fake_inspection, inspected_passage
from tests.ui.conftest import ME
from ui.pages.lab.inspect import view
from ui.pages.lab.inspect.part import InspectionSession
from ui.pages.lab.inspect.view import CITED, MAX_SPANS, RECOMPUTED, SINK, mark_spans

WORDS = "The maintenance code of the Morning Gannet is 5730264, which is printed beside the engine room door. "


@pytest.fixture
def page(app):
    return app.lab.inspect


def inspect(page, question="Why?"):
    *_, last = page.run_inspection(question, 3, 20, [], ME)
    return last


def session_of(*texts, **options):
    return InspectionSession(fake_inspection([inspected_passage(text, **options) for text in texts]), Request("Why?"))


def at_8k():
    """Return a session with eight passages of 1,024 words: 8,192 tokens."""
    return session_of(*[" ".join((WORDS * 200).split()[:1024])] * 8)


def num_characters(update):
    """Return the size of an update as sent to the browser: figures as JSON, markup as it is."""
    return sum(len(part.to_json() if hasattr(part, "to_json") else json.dumps(part)) for part in update.values())


def test_a_slider_redraws_the_selection_without_running_a_model(page, backend):
    session = inspect(page)[page.session]
    for percent in (10, 60, 100):
        update = page.redraw(session, "cacheclip", percent, 0)
        recomputed = int(session.inspection.selections["cacheclip"].mask_at(percent).sum())
        assert f"{recomputed:,} of" in update[page.summary]
    assert len(backend.inspection.requests) == 1 and backend.requests == []


def test_each_method_shows_its_own_selection_and_a_slider_only_if_it_has_a_ratio(page):
    session = inspect(page)[page.session]
    update = page.change_method(session, "epic", 20, 0)
    assert update[page.ratio]["visible"] == "hidden" and "EPIC has no ratio" in update[page.summary]
    assert page.change_method(session, "cacheclip", 20, 0)[page.ratio]["visible"] is True
    assert "during the forward pass" in page.change_method(session, "cacheblend", 20, 0)[page.summary]


def test_one_passage_alone_is_drawn_alone(page):
    session = inspect(page)[page.session]
    update = page.show_passage(session, "cacheclip", 20, 2)
    assert update[page.text].count("kv-card-head") == 1
    assert len(update[page.attention_map].data[0].x) == min(200, session.inspection.passage_lengths[1])
    assert page.show_passage(session, "cacheclip", 20, 0)[page.text].count("kv-card-head") == 3


def test_the_whole_page_is_below_a_megabyte_at_8k_tokens(page):
    session = at_8k()
    assert session.inspection.num_tokens == 8192
    assert num_characters(page.show_passage(session, "cacheclip", 50, 0)) < 1_000_000
    assert len(json.dumps(session.inspection.as_dict())) < 1_000_000


def test_elements_do_not_grow_with_tokens():
    few, many = session_of(WORDS * 4), at_8k()
    every_other = [np.arange(session.inspection.num_tokens) % 2 == 0 for session in (few, many)]  # the worst case
    text = view.render_passages(many.inspection, (), every_other[1])
    assert text.count("<") < 8 * (2 * MAX_SPANS + 60) and "majority of every" in text
    dots = [
        view.render_rank_scatter(session.inspection, mask).count("<")
        for session, mask in zip((few, many), every_other, strict=True)
    ]
    assert dots[0] == dots[1]


def test_spans_joined_are_the_text_and_carry_every_mark():
    passage = inspected_passage("one two three four five six")
    recomputed, sinks = np.array([0, 1, 1, 0, 0, 0], bool), np.array([0, 0, 1, 0, 0, 1], bool)
    spans, block = mark_spans(passage, recomputed, sinks, [(0, 3)])
    assert "".join(text for text, _ in spans) == passage.text and block == 1
    marks = dict(spans)
    assert marks["one"] == CITED and marks[" two "] == RECOMPUTED and marks["three"] == RECOMPUTED | SINK
    assert marks[" four five "] == 0 and marks["six"] == SINK


def test_an_empty_passage_and_an_empty_selection_make_no_extra_span():
    assert mark_spans(inspected_passage(""), np.zeros(0, bool), np.zeros(0, bool)) == ([], 1)
    spans, _ = mark_spans(inspected_passage("a b"), np.zeros(2, bool), np.zeros(2, bool))
    assert spans == [("a b", 0)]


def test_the_inspected_question_is_answered_and_the_quoted_text_marked(page, backend):
    session = inspect(page, "What is the code?")[page.session]
    *_, last = page.answer(session, "cacheclip", 35, ME)
    (request,) = backend.requests
    assert (request.question, request.method) == ("What is the code?", "cacheclip")
    assert (request.recompute_ratio, request.passages) == (0.35, 3)
    assert last[page.answer_buttons.run].visible is True and last[page.answer_buttons.stop].visible is False
    assert "kv-quoted" in page.redraw(last[page.session], "cacheclip", 35, 0)[page.text]


def test_inspect_and_ask_search_only_selected_documents(page, backend):
    *_, inspected = page.run_inspection("What is the code?", 3, 20, ["a", "b"], ME)
    list(page.answer(inspected[page.session], "cacheclip", 35, ME))
    assert backend.inspection.requests[-1].documents == backend.requests[-1].documents == ("a", "b")


def test_results_are_drawn_with_the_settings_at_the_end_not_at_the_click(app, page):
    """The slider stays usable while the model runs, so a separate step reads its value at the end."""
    steps = list(app.blocks.fns.values())
    drawn = {page.summary, page.text, page.rank_scatter, page.agreement}
    inspected = inspect(page)
    *_, answered = page.answer(inspected[page.session], "cacheclip", 35, ME)
    assert page.session in inspected and page.session in answered
    for update, run, redraw in (
        (inspected, page.run_inspection, page.show_passage),
        (answered, page.answer, page.redraw),
    ):
        assert not drawn & update.keys()
        (ended,) = [step for step in steps if step.fn == run]
        (after,) = [step for step in steps if step.trigger_after == ended._id]
        assert after.fn == redraw and drawn <= set(after.outputs)
        assert after.inputs == [page.session, page.method, page.ratio, page.passage_choice]


def test_a_click_during_an_inspection_neither_stops_it_nor_starts_another(page, backend):
    session = inspect(page)[page.session]
    running = page.run_inspection("What is the code?", 3, 20, [], ME)
    next(running)
    assert list(page.run_inspection("Another?", 3, 20, [], ME)) == [gr.skip()]
    assert list(page.run_inspection(" ", 3, 20, [], ME)) == [gr.skip()]
    assert list(page.answer(session, "cacheclip", 35, ME)) == [gr.skip()]
    *_, last = running
    assert page.session in last and len(page.tasks) == 0
    assert [request.question for request in backend.inspection.requests] == ["Why?", "What is the code?"]


def test_a_method_that_selects_during_the_forward_pass_shows_its_selection_after_an_answer():
    session = session_of("one two three four")
    spans = (TextSpan("one", False), TextSpan(" two three", True), TextSpan(" four", False))
    source = Source(1, "a", "a", None, None, False, 4, "host", 2, spans)
    answer = Answer(Request("Why?", "cacheblend"), Trace(), sources=(source,))
    assert session.with_answer(answer, 20).recompute_mask("cacheblend", 20) is None  # stopped before the prefill
    answer.trace.ttft_ms = 80.0
    answered = session.with_answer(answer, 20)
    assert answered.recompute_mask("cacheblend", 20).tolist() == [False, True, True, False]
    assert answered.recompute_mask("cacheblend", 21) is None and session.recompute_mask("cacheblend", 20) is None


def test_an_answer_from_other_passages_changes_nothing():
    session = session_of("one two")
    source = Source(1, "a", "a", None, None, False, 2, "host", 0, (TextSpan("one three", False),))
    assert session.with_answer(Answer(Request("Why?"), Trace(), sources=(source,)), 20) is session


def test_errors_and_a_missing_question_are_shown_in_place(page, backend):
    progress = page.progress
    assert "Type a question first" in inspect(page, "  ")[progress] and backend.inspection.requests == []
    backend.inspection.error = NoPassageFound("No passages were found for this question.")
    update = inspect(page)
    assert "Add documents" in update[progress] and update[page.inspect_buttons.run].visible is True
    backend.inspection.error = NoPassageFound("<b>boom</b>")
    assert "&lt;b&gt;boom" in inspect(page)[progress]


def test_every_string_of_a_document_is_data(page):
    bad = "<img src=x onerror=alert(1)> & \u202e"
    update = page.show_passage(session_of(f"{bad} words", document=bad), "cacheclip", 50, 0)
    assert not re.search("<img|onerror=alert\\(1\\)>", update[page.text])
    assert "&lt;img" in update[page.text]
    assert all("<img" not in update[part].to_json() for part in (page.attention_map, page.agreement))
