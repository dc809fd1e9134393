"""A follow-up finds what the question before it found, reads it in the old order, and reuses it as an exact path."""

import re
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import BadRequest
from engine.prompt.builder import in_old_order, same_prompt
from engine.prompt.retrieval import prepared_prompts, retrieve, rrf
from engine.prompt.template import Prompt
from engine.request import ChatTurn, Request
from engine.scheduler.speculation import SpeculationConfig, Speculator
from engine.trace import Trace
from store.types import Hit
from tests.support import tiny
from tests.support.doubles import TEXTS, FixedLibrary, Shelf, engine, hit, last

BOATS = [
    "The Old Kestrel sails the Bay Route every day.",
    "The Old Kestrel belongs to Moira Flint, who commands it.",
    "The Silver Tern sails the North Route.",
]
RULES = ["Dogs must be kept on a lead.", "It rains often. Who owns a coat, takes it along.", "Bicycles cost 3 pounds."]
FIRST = ChatTurn("Which boat sails the Bay Route?", "The Old Kestrel.", ("boats-0", "boats-2"))
FOLLOW = Request("Who owns it?", passages=2, max_new_tokens=4, earlier=(FIRST,))
SWITCH = replace(FOLLOW, question="What do bicycles cost on board?")


def ids(hits):
    return [hit.chunk.id for hit in hits]


def shelf():
    return Shelf(boats=BOATS, rules=RULES)


def chosen(request, finder=None, max_tokens=4096):
    """Return the passages that are read, in prompt order."""
    prompt = Prompt(tiny.decoder().tokenizer)
    *_, reading = prepared_prompts(finder or shelf(), prompt, request, max_tokens, Trace())
    return ids(reading.hits)


def named(*names):
    return [hit(name, name) for name in names]


def test_a_follow_up_finds_what_the_question_before_it_found_beside_what_it_finds_alone():
    assert chosen(replace(FOLLOW, earlier=())) == ["rules-1", "boats-1"]
    assert chosen(FOLLOW) == ["boats-0", "boats-1"]


def test_it_is_searched_for_alone_and_behind_what_it_leans_on():
    finder = shelf()
    chosen(FOLLOW, finder)
    assert finder.asked == ["Who owns it?", "Which boat sails the Bay Route? Who owns it?"]


def test_the_ranking_is_that_of_both_searches_and_of_what_was_read_last():
    """Reciprocal rank fusion by its definition."""
    finder, top = shelf(), 6
    rankings = [
        ids(next(finder.stages("Who owns it?", top))),
        ids(next(finder.stages(f"{FIRST.question} Who owns it?", top))),
        list(FIRST.passages),
    ]
    score = {chunk: sum(1 / (61 + r.index(chunk)) for r in rankings if chunk in r) for r in rankings for chunk in r}
    best = sorted(score, key=lambda chunk: -score[chunk])
    old = [chunk for chunk in FIRST.passages if chunk in best]
    assert chosen(replace(FOLLOW, passages=top)) == old + [chunk for chunk in best if chunk not in old]


def test_another_topic_reads_what_it_would_have_read_as_the_first_question():
    finder = shelf()
    assert chosen(SWITCH, finder) == chosen(replace(SWITCH, earlier=()))
    assert finder.asked == [SWITCH.question]


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdef"), unique=True))
def test_the_old_order_changes_places_and_nothing_else(found, read):
    hits = named(*found)
    numbers = in_old_order(hits, range(len(hits)), [f"{name}-0" for name in read])
    ordered = [hits[number].chunk.id for number in numbers]
    assert sorted(ordered) == sorted(ids(hits))
    again = [f"{name}-0" for name in read if name in found]
    assert ordered == again + [chunk for chunk in ids(hits) if chunk not in again]


def test_what_was_read_last_pushes_out_nothing_better():
    """Four passages of which two fit: the best two, whatever stood in front before."""
    texts = [f"tide {'moon ' * (5 - at)}{'water ' * 60}" for at in range(4)]
    finder, prompt = Shelf(sea=texts), Prompt(tiny.decoder().tokenizer)
    request = Request("How do moon and tide rise?", passages=4, max_new_tokens=16)
    best = chosen(request, finder)
    assert len(best) == 4
    length = max(len(prompt.passage(text).ids) for text in texts)
    room = len(prompt.prefix) + len(prompt.question(request.question)) + 16 + 2 * length
    again = replace(request, earlier=(ChatTurn("Before?", "Yes.", (best[3], best[2])),))
    assert chosen(again, finder, room) == chosen(request, finder, room) == best[:2]
    assert chosen(again, finder) == [best[3], best[2], *best[:2]]


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=3))
def test_fusion_holds_each_chunk_once_best_first_with_all_that_is_known_of_it(rankings):
    told = [[replace(found, matched_words=bool(at)) for found in named(*names)] for at, names in enumerate(rankings)]
    hits = rrf(told)
    assert sorted(ids(hits)) == sorted({f"{name}-0" for names in rankings for name in names})
    assert [found.score for found in hits] == sorted((found.score for found in hits), reverse=True)
    for found in hits:
        assert found.matched_words == any(found.chunk.document_id in names for names in rankings[1:])


def test_a_similarity_is_that_to_the_question_itself_where_it_is_known():
    near, far, unknown = (replace(hit("a", "a"), similarity=known) for known in (0.9, 0.2, None))
    for rankings, known in [(([near], [far]), 0.9), (([unknown], [far]), 0.2), (([unknown],), None)]:
        assert rrf(rankings)[0].similarity == known


@pytest.mark.parametrize("documents, allowed", [(("rules",), "rules-"), (("boats",), "boats-")])
def test_what_was_read_last_keeps_to_the_chosen_documents(documents, allowed):
    found = chosen(replace(FOLLOW, documents=documents, passages=6))
    assert found and all(chunk.startswith(allowed) for chunk in found)


def test_what_was_read_last_and_is_gone_is_not_read():
    finder = shelf()
    del finder.held["boats"]
    assert all(chunk.startswith("rules-") for chunk in chosen(FOLLOW, finder))


class Slow(Shelf):
    """The second search ends a stage after the first."""

    def stages(self, question, top, documents=()):
        (found,) = super().stages(question, top, documents)
        yield found[1:]
        if "Which" in question:
            yield found


def test_searches_of_unequal_length_go_on_until_both_have_ended():
    staged = [ids(hits) for hits in retrieve(Slow(boats=BOATS, rules=RULES), replace(FOLLOW, passages=6))]
    assert len(staged) == 2
    assert "boats-1" in staged[1]


@pytest.mark.parametrize("order", permutations(["ferry", "tern", "fares"]))
@pytest.mark.parametrize("method", ["prefix", "cacheclip", "full"])
def test_a_follow_up_on_the_same_passages_reads_an_exact_path(method, order):
    """However the search ranks them the second time."""
    made = engine("ferry", "tern", "fares")
    asked = Request("When does the Old Kestrel sail?", "full", passages=3, max_new_tokens=4)
    first = last(made.ask(asked))
    exchange = ChatTurn(asked.question, first.text, tuple(source.chunk for source in first.sources))
    made.finder = FixedLibrary(*order)
    again = last(made.ask(replace(asked, question="Who commands it?", method=method, earlier=(exchange,))))
    assert [source.chunk for source in again.sources] == list(exchange.passages)
    assert {source.found for source in again.sources} == {"none" if method == "full" else "exact prefix hit"}
    assert again.recomputed_tokens == (again.context_tokens if method == "full" else 0)


@pytest.mark.parametrize("earlier", [(), (FIRST,)], ids=["first", "another topic"])
@pytest.mark.parametrize("question", ["When does the Old Kestrel sail?", "What do bicycles cost on board?"])
def test_the_prompt_of_a_question_of_its_own_is_what_it_was_before_there_were_conversations(question, earlier):
    made, names = engine("ferry", "tern", "fares"), ["ferry", "tern", "fares"]
    reading = made.prepare(Request(question, passages=3, earlier=earlier), Trace())
    assert [chunk.ids for chunk in reading.passages] == [made.prompt.passage(TEXTS[name]).ids for name in names]
    assert reading.suffix_ids == made.prompt.question(question) and reading.standalone_question == question
    assert reading.notes == ()


def test_the_models_read_what_a_follow_up_leans_on_behind_the_passages():
    made = engine("ferry", "tern")
    reading = made.prepare(replace(FOLLOW, passages=2), Trace())
    assert reading.standalone_question == f"{FIRST.question} {FIRST.answer} Who owns it?"
    assert reading.suffix_ids == made.prompt.question(reading.standalone_question)
    assert [chunk.ids for chunk in reading.passages] == [
        made.prompt.passage(TEXTS[name]).ids for name in ("ferry", "tern")
    ]


def test_a_follow_up_that_is_guessed_is_answered_as_one_that_is_not():
    made, plain = engine(), engine()
    made.finder, plain.finder = Slow(boats=BOATS, rules=RULES), Slow(boats=BOATS, rules=RULES)
    made.speculator = Speculator(made.scheduler, same_prompt, SpeculationConfig(-1.0))
    answer = last(made.ask(FOLLOW))
    assert answer.state == "done" and answer.text == last(plain.ask(FOLLOW)).text
    assert "speculation" in [stage.name for stage in answer.trace.stages]


@pytest.mark.parametrize(
    "change, said",
    [
        ({"documents": "boats"}, "documents must be a list of their ids, got 'boats'"),
        ({"documents": [1]}, r"got \[1\]"),
        ({"documents": None}, "got None"),
        ({"earlier": "Who?"}, "earlier questions must be a list"),
        ({"earlier": [("Who?", "He.")]}, "An earlier question is its text"),
        ({"earlier": [ChatTurn("Who?", None)]}, "An earlier question is its text"),
        ({"earlier": [ChatTurn("Who?", "He.", "boats-0")]}, "An earlier question is its text"),
        ({"earlier": [ChatTurn("Who?", "He \udc00.")]}, "half a character"),
        ({"whole": 1}, "true or false, got 1"),
        ({"whole": True}, "exactly one; 0 are chosen"),
        ({"whole": True, "documents": ("a", "b")}, "exactly one; 2 are chosen"),
    ],
    ids=str,
)
def test_a_scope_or_a_conversation_of_another_kind_is_refused_before_anything_runs(change, said):
    with pytest.raises(BadRequest, match=said):
        next(iter(engine("ferry").ask(replace(FOLLOW, **change))))


@pytest.mark.parametrize(
    "documents, said",
    [(("boats",), None), (("gone",), "None of the chosen documents"), (("gone", "boats"), "1 of the 2 chosen")],
)
def test_chosen_documents_that_are_not_there_are_said(documents, said):
    made = engine()
    made.finder = shelf()
    answer = last(made.ask(replace(FOLLOW, documents=documents, earlier=())))
    assert answer.state == "done"
    assert any(re.search("in the library any more", note) for note in answer.notes) is (said is not None)
    assert said is None or said in answer.notes[0]


def test_nothing_found_in_chosen_documents_does_not_ask_for_more_documents():
    made = engine()
    made.finder = shelf()
    notes = last(made.ask(Request("Zebra?", documents=("rules",), max_new_tokens=4))).notes
    assert any("in the chosen documents" in note for note in notes) and not any("Add" in note for note in notes)


def test_a_hit_of_what_was_read_last_claims_no_similarity():
    *_, hits = retrieve(shelf(), replace(FOLLOW, earlier=(replace(FIRST, passages=("rules-0",)),), passages=6))
    (lead,) = [found for found in hits if found.chunk.id == "rules-0"]
    assert isinstance(lead, Hit) and (lead.similarity, lead.matched_words) == (None, False)
