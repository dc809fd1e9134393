"""A whole document is read in its own order or not at all; the budget says before what the answer says after."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import BadRequest, DocumentTooLong, QuestionTooLong
from engine.request import ChatTurn, Request
from engine.trace import Trace
from tests.support.doubles import Shelf, engine, last

STORY = [f"Chapter {number}: the boat leaves port {number} and meets a storm. " + "Rain. " * 9 for number in range(5)]
WHOLE = Request("What does the boat meet?", documents=("story",), whole=True, passages=2, max_new_tokens=4)


def made_of(max_tokens=2048, **documents):
    made = engine()
    made.finder = Shelf(**(documents or {"story": STORY, "note": ["The boat is blue."]}))
    made.max_tokens = max_tokens
    return made


def tokens(made, texts):
    return sum(len(made.prompt.passage(text).ids) for text in texts)


@pytest.mark.parametrize("method", ["full", "prefix", "cacheclip"])
def test_a_whole_document_is_read_from_its_first_passage_to_its_last(method):
    answer = last(made_of().ask(replace(WHOLE, method=method)))
    assert [source.chunk for source in answer.sources] == [f"story-{number}" for number in range(5)]
    assert answer.state == "done" and answer.left_out == 0
    assert {source.similarity for source in answer.sources} == {None}


def test_the_next_question_on_a_whole_document_reads_one_exact_path():
    made = made_of()
    first = last(made.ask(replace(WHOLE, method="full")))
    exchange = ChatTurn(WHOLE.question, first.text, tuple(source.chunk for source in first.sources))
    for question in ("Why does it?", "Which chapter has port 3 in it?"):
        answer = last(made.ask(replace(WHOLE, question=question, method="prefix", earlier=(exchange,))))
        assert {source.found for source in answer.sources} == {"exact prefix hit"}
        assert answer.recomputed_tokens == 0


def test_a_whole_document_that_does_not_fit_is_refused_with_both_numbers_and_nothing_is_computed():
    made = made_of(max_tokens=300)
    room = 300 - len(made.prompt.prefix) - len(made.prompt.question(WHOLE.question)) - 4
    expected = rf"^story\.txt has about (\d+) tokens; {room} fit .* best passages instead"
    with pytest.raises(DocumentTooLong, match=expected) as refused:
        list(made.ask(WHOLE))
    about = int(re.match(expected, str(refused.value))[1])
    assert about == pytest.approx(tokens(made, STORY), rel=0.1)
    assert len(made.cache.tree) == 0


def test_a_document_far_too_long_is_refused_before_all_of_it_is_tokenised(monkeypatch):
    made = made_of(max_tokens=300, story=STORY * 200)
    counted = []
    passage = made.prompt.passage
    monkeypatch.setattr(made.prompt, "passage", lambda text: counted.append(text) or passage(text))
    with pytest.raises(DocumentTooLong):
        list(made.ask(WHOLE))
    assert len(counted) < 10


def test_a_whole_document_that_is_not_there_is_refused():
    with pytest.raises(BadRequest, match="not in the library any more"):
        list(made_of().ask(replace(WHOLE, documents=("gone",))))


def test_the_answer_says_how_its_context_was_shared_as_soon_as_the_passages_are_known():
    made = made_of(max_tokens=400)
    request = Request("What does the boat meet?", passages=6, max_new_tokens=4)
    answers = list(map(replace, made.ask(request)))
    known = next(answer for answer in answers if answer.state == "reading")
    found = len(next(made.finder.stages(request.question, 6)))
    for answer in (known, answers[-1]):
        assert answer.max_tokens == 400
        assert answer.prompt_tokens == len(made.prompt.prefix) + answer.context_tokens + answer.question_tokens
        assert answer.prompt_tokens + request.max_new_tokens <= answer.max_tokens
        assert answer.left_out == found - len(answer.sources) > 0
    told = known.as_dict()
    assert [told[name] for name in ("prompt_tokens", "max_tokens", "left_out")] == [
        known.prompt_tokens,
        400,
        known.left_out,
    ]
    assert [source["chunk"] for source in told["sources"]] == [source.chunk for source in known.sources]
    assert (told["documents"], told["whole"], told["earlier"]) == ([], False, 0)


FITS = made_of()


@given(
    max_tokens=st.integers(150, 700),
    question=st.sampled_from([WHOLE.question, "Why?", "Who " * 40 + "sails?"]),
    answer=st.integers(1, 300),
    earlier=st.sampled_from([(), (ChatTurn("Which boat is blue?", "The second."),)]),
)
@settings(deadline=None, max_examples=60)
def test_a_whole_document_is_read_exactly_where_the_budget_says_it_fits_and_as_it_says(
    max_tokens, question, answer, earlier
):
    FITS.max_tokens = max_tokens
    request = replace(WHOLE, question=question, max_new_tokens=answer, earlier=earlier)
    try:
        told = FITS.budget(request)
    except QuestionTooLong:
        with pytest.raises(QuestionTooLong):
            FITS.prepare(request, Trace())
        return
    assert told.prefix + told.passages + told.question + told.answer <= told.max_tokens == max_tokens
    assert told.documents == tokens(FITS, STORY)
    if told.fits_whole:
        reading = FITS.prepare(request, Trace())
        shares = (reading.context_tokens, len(reading.suffix_ids), reading.max_new_tokens, reading.num_dropped_chunks)
        assert shares == (told.passages, told.question, told.answer, told.left_out)
    else:
        assert told.left_out > 0
        with pytest.raises(DocumentTooLong):
            FITS.prepare(request, Trace())


def test_a_budget_searches_and_computes_nothing_and_needs_no_question():
    made = made_of()
    for whole in (False, True):
        told = made.budget(replace(WHOLE, question="", whole=whole))
        assert told.fits_whole and told.question == len(made.prompt.question(""))
    assert made.finder.asked == [] and len(made.cache.tree) == 0


@pytest.mark.parametrize(
    "documents, texts", [((), [*STORY, "The boat is blue."]), (("note",), ["The boat is blue."]), (("gone",), [])]
)
def test_the_chosen_documents_are_counted_together(documents, texts):
    made = made_of()
    told = made.budget(replace(WHOLE, documents=documents, whole=False))
    assert told.documents == tokens(made, texts)
    assert told.fits_whole == (len(documents) == 1 and bool(texts))
    assert (told.passages == 0) == (not texts)


def test_passages_that_will_not_fit_are_foretold():
    made = made_of(max_tokens=300)
    told = made.budget(replace(WHOLE, whole=False, passages=5))
    assert told.left_out == 5 - told.passages // (told.documents // 5) > 0


def test_a_long_document_is_counted_in_part_and_taken_to_go_on_like_that():
    made = made_of(long=["The boat is blue. "] * 1000)
    assert made.budget(replace(WHOLE, documents=("long",))).documents == tokens(made, ["The boat is blue."]) * 1000
