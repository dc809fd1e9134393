"""The Inspect page's handlers: what they draw, how large it is, and that a slider asks no model."""

import json
import re
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest

from engine.errors import NothingFound
from engine.request import Answer, Request, Source, TextSpan
from engine.trace import Trace
from tests.support.fake_backend.backend import METHODS, FakeBackend
from tests.support.fake_backend.inspection import excerpt, fabricated
from ui.pages.inspect import view as inspected
from ui.pages.inspect.page import Inspect
from ui.pages.inspect.session import Held
from ui.pages.inspect.token_spans import CITED, MOST, RECOMPUTED, SINK, fates

METHOD = {method.name: method for method in METHODS}
TAB = SimpleNamespace(session_hash="one")
WORDS = "The maintenance code of the Morning Gannet is 5730264, which is printed beside the engine room door. "


@pytest.fixture
def backend():
    return FakeBackend(pace_s=0.0)


@pytest.fixture
def page(backend):
    made = Inspect(backend)
    with gr.Blocks() as blocks, gr.Tabs(), gr.Tab("Inspect") as tab:
        made.build(tab)
    made._blocks = blocks
    return made


def inspect(page, question="Why?"):
    page.begin(question, TAB)
    *_, last = page.look(question, 3, 20, [], TAB)
    return last


def at_8k():
    """Eight passages of 1,024 words: 8,192 tokens."""
    return Held(fabricated([excerpt(" ".join((WORDS * 200).split()[:1024])) for _ in range(8)]), 8)


def drawn(update):
    """What an update sends to the browser, in characters: figures as JSON, markup as it is."""
    return sum(len(part.to_json() if hasattr(part, "to_json") else json.dumps(part)) for part in update.values())


def test_a_slider_redraws_the_selection_without_asking_a_model(page, backend):
    held = inspect(page)[page._held]
    for percent in (10, 60, 100):
        update = page.redraw(held, "cacheclip", percent, 0)
        fresh = int(held.found.selections["cacheclip"].at(percent).sum())
        assert f"{fresh:,} of" in update[page._parts.summary]
    assert len(backend.inspection.requests) == 1 and backend.asked == []


def test_each_method_shows_its_own_choice_and_a_slider_only_where_it_has_a_ratio(page):
    held = inspect(page)[page._held]
    update = page.choose(held, "epic", 20, 0)
    assert update[page._parts.ratio]["visible"] == "hidden" and "EPIC has no ratio" in update[page._parts.summary]
    assert page.choose(held, "cacheclip", 20, 0)[page._parts.ratio]["visible"] is True
    assert "decides while it computes" in page.choose(held, "cacheblend", 20, 0)[page._parts.summary]


def test_one_passage_alone_is_drawn_alone(page):
    held = inspect(page)[page._held]
    update = page.drill(held, "cacheclip", 20, 2)
    assert update[page._parts.text].count("kv-card-head") == 1
    assert len(update[page._parts.map].data[0].x) == min(200, held.found.passages[1])
    assert page.drill(held, "cacheclip", 20, 0)[page._parts.text].count("kv-card-head") == 3


def test_the_whole_page_is_below_a_megabyte_at_8k_tokens(page):
    held = at_8k()
    assert held.found.tokens == 8192
    everything = page.drill(held, "cacheclip", 50, 0)
    assert drawn(everything) < 1_000_000
    assert len(json.dumps(held.found.as_dict())) < 1_000_000


def test_elements_do_not_grow_with_tokens(page):
    few, many = Held(fabricated([excerpt(WORDS * 4)]), 1), at_8k()
    chosen = np.arange(many.found.tokens) % 2 == 0  # as bad as it gets: every other token
    many = Held(many.found, 8, ran={("cacheblend", 20): chosen})
    text = inspected.passages(many, METHOD["cacheblend"], 20)
    assert text.count("<") < 8 * (2 * MOST + 60) and "neighbours share the colour" in text
    dots = [inspected.ranks(held, METHOD["cacheclip"], 20).count("<") for held in (few, many)]
    assert dots[0] == dots[1]


def test_pieces_joined_are_the_text_and_carry_every_fate():
    passage = excerpt("one two three four five six")
    fresh, sink = np.array([0, 1, 1, 0, 0, 0], bool), np.array([0, 0, 1, 0, 0, 1], bool)
    pieces, block = fates(passage, fresh, sink, [(0, 3)])
    assert "".join(piece.text for piece in pieces) == passage.text and block == 1
    found = {piece.text: piece.fate for piece in pieces}
    assert found["one"] == CITED and found[" two "] == RECOMPUTED and found["three"] == RECOMPUTED | SINK
    assert found[" four five "] == 0 and found["six"] == SINK


def test_an_empty_passage_and_no_choice_make_no_piece_too_many():
    assert fates(excerpt(""), np.zeros(0, bool), np.zeros(0, bool)) == ([], 1)
    assert [piece.text for piece in fates(excerpt("a b"), np.zeros(2, bool), np.zeros(2, bool))[0]] == ["a b"]


def test_apply_asks_the_inspected_question_and_marks_what_the_answer_rests_on(page, backend):
    held = inspect(page, "What is the code?")[page._held]
    page.applying(TAB)
    *_, last = page.apply(held, "cacheclip", 35, TAB)
    (asked,) = backend.asked
    assert (asked.question, asked.method, asked.ratio, asked.passages) == ("What is the code?", "cacheclip", 0.35, 3)
    assert last[page._parts.apply].visible is True and last[page._parts.halt].visible is False
    assert "kv-quoted" in page.redraw(last[page._held], "cacheclip", 35, 0)[page._parts.text]


def test_chosen_documents_are_inspected_and_asked(page, backend):
    page.begin("What is the code?", TAB)
    *_, found = page.look("What is the code?", 3, 20, ["a", "b"], TAB)
    page.applying(TAB)
    list(page.apply(found[page._held], "cacheclip", 35, TAB))
    assert backend.inspection.requests[-1].documents == backend.asked[-1].documents == ("a", "b")


def test_what_was_found_is_drawn_with_the_settings_of_the_end_not_of_the_click(page):
    """Apply and Inspect take a while, and the slider is free meanwhile: only a step of its own reads where it is."""
    parts, steps = page._parts, list(page._blocks.fns.values())
    drawn = {parts.summary, parts.text, parts.ranks, parts.agreement}
    found = inspect(page)
    page.applying(TAB)
    *_, last = page.apply(found[page._held], "cacheclip", 35, TAB)
    assert page._held in found and page._held in last
    for update, slow, redraws in ((found, page.look, page.drill), (last, page.apply, page.redraw)):
        assert not drawn & update.keys()
        (ends,) = [step for step in steps if step.fn == slow]
        (after,) = [step for step in steps if step.trigger_after == ends._id]
        assert after.fn == redraws and drawn <= set(after.outputs)
        assert after.inputs == [page._held, parts.method, parts.ratio, parts.only]


def test_a_click_while_it_looks_neither_stops_it_nor_starts_another(page, backend):
    held = inspect(page)[page._held]
    page.begin("What is the code?", TAB)
    looking = page.look("What is the code?", 3, 20, [], TAB)
    next(looking)
    assert page.begin("Another?", TAB) == page.begin(" ", TAB) == page.applying(TAB) == gr.skip()
    assert list(page.look("Another?", 3, 20, [], TAB)) == [gr.skip()]
    assert list(page.apply(held, "cacheclip", 35, TAB)) == [gr.skip()]
    *_, last = looking
    assert page._held in last and len(page.stops) == 0
    assert [request.question for request in backend.inspection.requests] == ["Why?", "What is the code?"]


def test_a_method_that_decides_on_its_way_shows_its_choice_once_it_was_asked():
    found = fabricated([excerpt("one two three four")])
    pieces = (TextSpan("one", False), TextSpan(" two three", True), TextSpan(" four", False))
    source = Source(1, "a", "a", None, None, False, 4, "host", 2, pieces)
    answer = Answer(Request("Why?", "cacheblend"), Trace(), sources=(source,))
    assert Held(found, 1).after(answer, 20).taken("cacheblend", 20) is None  # stopped before anything was computed
    answer.trace.ttft_ms = 80.0
    held = Held(found, 1).after(answer, 20)
    assert held.taken("cacheblend", 20).tolist() == [False, True, True, False]
    assert held.taken("cacheblend", 21) is None and Held(found, 1).taken("cacheblend", 20) is None


def test_an_answer_over_other_passages_changes_nothing():
    held = Held(fabricated([excerpt("one two")]), 1)
    source = Source(1, "a", "a", None, None, False, 2, "host", 0, (TextSpan("one three", False),))
    assert held.after(Answer(Request("Why?"), Trace(), sources=(source,)), 20) is held


def test_errors_and_an_empty_question_are_sentences_in_their_place(page, backend):
    assert "Type a question first" in page.begin("  ", TAB)[page._parts.progress]
    backend.inspection.error = NothingFound("No passage was found to look at.")
    said = inspect(page)
    assert "Add documents" in said[page._parts.progress] and said[page._parts.inspect].visible is True
    backend.inspection.error = RuntimeError("<b>boom</b>")
    assert "&lt;b&gt;boom" in inspect(page)[page._parts.progress]


def test_every_string_of_a_document_is_data(page):
    bad = "<img src=x onerror=alert(1)> & \u202e"
    held = Held(fabricated([excerpt(f"{bad} words", document=bad)]), 1)
    update = page.drill(held, "cacheclip", 50, 0)
    assert not re.search("<img|onerror=alert\\(1\\)>", update[page._parts.text])
    assert "&lt;img" in update[page._parts.text]
    assert all("<img" not in update[part].to_json() for part in (page._parts.map, page._parts.agreement))
