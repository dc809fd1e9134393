"""Whole documents are read in order or not at all; the estimated budget equals what the answer reports."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import BadRequest, DocumentTooLong, QuestionTooLong
from engine.request import ChatTurn, Request
from engine.trace import Trace
from tests.support.doubles import KeywordFinder, last, make_engine

STORY = [f"Chapter {number}: the boat leaves port {number} and meets a storm. " + "Rain. " * 9 for number in range(5)]
WHOLE = Request("What does the boat meet?", documents=("story",), whole_document=True, passages=2, max_new_tokens=4)


def engine_over(max_tokens=2048, **documents):
    engine = make_engine()
    engine.finder = KeywordFinder(**(documents or {"story": STORY, "note": ["The boat is blue."]}))
    engine.max_tokens = max_tokens
    return engine


def tokens(engine, texts):
    return sum(len(engine.template.passage(text).ids) for text in texts)


@pytest.mark.parametrize("method", ["full", "prefix", "cacheclip"])
def test_whole_document_is_read_in_order(method):
    answer = last(engine_over().ask(replace(WHOLE, method=method)))
    assert [source.chunk for source in answer.sources] == [f"story-{number}" for number in range(5)]
    assert answer.state == "done" and answer.num_dropped_passages == 0
    assert {source.similarity for source in answer.sources} == {None}


def test_next_question_on_a_whole_document_is_an_exact_prefix_hit():
    engine = engine_over()
    first = last(engine.ask(replace(WHOLE, method="full")))
    turn = ChatTurn(WHOLE.question, first.text, tuple(source.chunk for source in first.sources))
    for question in ("Why does it?", "Which chapter has port 3 in it?"):
        answer = last(engine.ask(replace(WHOLE, question=question, method="prefix", history=(turn,))))
        assert {source.cache_result for source in answer.sources} == {"exact prefix hit"}
        assert answer.recomputed_tokens == 0


def test_whole_document_that_does_not_fit_is_rejected_with_both_numbers():
    engine = engine_over(max_tokens=300)
    room = 300 - len(engine.template.prefix_ids) - len(engine.template.suffix_ids(WHOLE.question)) - 4
    expected = rf"^story\.txt has about (\d+) tokens; {room} fit .* best passages instead"
    with pytest.raises(DocumentTooLong, match=expected) as refused:
        list(engine.ask(WHOLE))
    about = int(re.match(expected, str(refused.value))[1])
    assert about == pytest.approx(tokens(engine, STORY), rel=0.1)
    assert not engine.cache.tree.nodes


def test_much_too_long_document_is_rejected_before_all_of_it_is_tokenized(monkeypatch):
    engine = engine_over(max_tokens=300, story=STORY * 200)
    counted = []
    passage = engine.template.passage
    monkeypatch.setattr(engine.template, "passage", lambda text: counted.append(text) or passage(text))
    with pytest.raises(DocumentTooLong):
        list(engine.ask(WHOLE))
    assert len(counted) < 10


def test_missing_whole_document_is_rejected():
    with pytest.raises(BadRequest, match="no longer in the library"):
        list(engine_over().ask(replace(WHOLE, documents=("gone",))))


def test_answer_reports_its_context_from_the_reading_state_on():
    engine = engine_over(max_tokens=400)
    request = Request("What does the boat meet?", passages=6, max_new_tokens=4)
    answers = list(map(replace, engine.ask(request)))
    known = next(answer for answer in answers if answer.state == "reading")
    found = len(next(engine.finder.retrieve_stages(request.question, 6)))
    for answer in (known, answers[-1]):
        assert answer.max_tokens == 400
        assert answer.prompt_tokens == len(engine.template.prefix_ids) + answer.context_tokens + answer.question_tokens
        assert answer.prompt_tokens + request.max_new_tokens <= answer.max_tokens
        assert answer.num_dropped_passages == found - len(answer.sources) > 0
    budget = known.as_dict()
    assert [budget[name] for name in ("prompt_tokens", "max_tokens", "left_out")] == [
        known.prompt_tokens,
        400,
        known.num_dropped_passages,
    ]
    assert [source["chunk"] for source in budget["sources"]] == [source.chunk for source in known.sources]
    assert (budget["documents"], budget["whole"], budget["earlier"]) == ([], False, 0)


FITS = engine_over()


@given(
    max_tokens=st.integers(150, 700),
    question=st.sampled_from([WHOLE.question, "Why?", "Who " * 40 + "sails?"]),
    answer=st.integers(1, 300),
    earlier=st.sampled_from([(), (ChatTurn("Which boat is blue?", "The second."),)]),
)
@settings(deadline=None, max_examples=60)
def test_budget_agrees_with_the_prepared_prompt(max_tokens, question, answer, earlier):
    FITS.max_tokens = max_tokens
    request = replace(WHOLE, question=question, max_new_tokens=answer, history=earlier)
    try:
        budget = FITS.estimate_budget(request)
    except QuestionTooLong:
        with pytest.raises(QuestionTooLong):
            FITS.prepare(request, Trace())
        return
    assert (
        budget.prefix_tokens + budget.passage_tokens + budget.question_tokens + budget.answer_tokens
        <= budget.max_tokens
        == max_tokens
    )
    assert budget.document_tokens == tokens(FITS, STORY)
    if budget.fits_whole:
        prepared = FITS.prepare(request, Trace())
        assert prepared.context_tokens == budget.passage_tokens
        assert len(prepared.suffix_ids) == budget.question_tokens
        assert prepared.max_new_tokens == budget.answer_tokens
        assert prepared.num_dropped_chunks == budget.num_dropped_passages
    else:
        assert budget.num_dropped_passages > 0
        with pytest.raises(DocumentTooLong):
            FITS.prepare(request, Trace())


def test_budget_searches_and_computes_nothing_and_needs_no_question():
    engine = engine_over()
    for whole in (False, True):
        budget = engine.estimate_budget(replace(WHOLE, question="", whole_document=whole))
        assert budget.fits_whole and budget.question_tokens == len(engine.template.suffix_ids(""))
    assert engine.finder.questions == [] and not engine.cache.tree.nodes


@pytest.mark.parametrize(
    "documents, texts", [((), [*STORY, "The boat is blue."]), (("note",), ["The boat is blue."]), (("gone",), [])]
)
def test_chosen_documents_are_counted_together(documents, texts):
    engine = engine_over()
    budget = engine.estimate_budget(replace(WHOLE, documents=documents, whole_document=False))
    assert budget.document_tokens == tokens(engine, texts)
    assert budget.fits_whole == (len(documents) == 1 and bool(texts))
    assert (budget.passage_tokens == 0) == (not texts)


def test_budget_predicts_dropped_passages():
    engine = engine_over(max_tokens=300)
    budget = engine.estimate_budget(replace(WHOLE, whole_document=False, passages=5))
    assert budget.num_dropped_passages == 5 - budget.passage_tokens // (budget.document_tokens // 5) > 0


def test_long_document_is_estimated_from_its_first_passages():
    engine = engine_over(long=["The boat is blue. "] * 1000)
    assert (
        engine.estimate_budget(replace(WHOLE, documents=("long",))).document_tokens
        == tokens(engine, ["The boat is blue."]) * 1000
    )
