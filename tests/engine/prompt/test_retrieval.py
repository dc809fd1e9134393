"""Follow-ups find the chunks of the previous prompt again, keep their order, and reuse them as an exact prefix."""

import re
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import BadRequest
from engine.prompt.pack import keep_previous_order, same_prompt
from engine.prompt.retrieval import MAX_OPENINGS, fuse_hits, prepare_stages, retrieve, search
from engine.prompt.template import PromptTemplate
from engine.request import ChatTurn, Request
from engine.scheduler.speculation import Speculator
from engine.trace import Trace
from store.types import Hit
from tests.support import tiny
from tests.support.doubles import TEXTS, FixedFinder, KeywordFinder, last, make_engine, make_hit

BOATS = [
    "The Old Kestrel sails the Bay Route every day.",
    "The Old Kestrel belongs to Moira Flint, who commands it.",
    "The Silver Tern sails the North Route.",
]
RULES = ["Dogs must be kept on a lead.", "It rains often. Who owns a coat, takes it along.", "Bicycles cost 3 pounds."]
FIRST = ChatTurn("Which boat sails the Bay Route?", "The Old Kestrel.", ("boats-0", "boats-2"))
FOLLOW = Request("Who owns it?", passages=2, max_new_tokens=4, history=(FIRST,))
SWITCH = replace(FOLLOW, question="What do bicycles cost on board?")


def ids(hits):
    return [hit.chunk.id for hit in hits]


def library():
    return KeywordFinder(boats=BOATS, rules=RULES)


def chosen(request, finder=None, max_tokens=4096):
    """Return the passages that are read, in prompt order."""
    prompt = PromptTemplate(tiny.decoder().tokenizer)
    *_, prepared = prepare_stages(finder or library(), prompt, request, max_tokens, Trace())
    return ids(prepared.hits)


def named(*names):
    return [make_hit(name, name) for name in names]


def test_follow_up_finds_previous_chunks_as_well():
    assert chosen(replace(FOLLOW, history=())) == ["rules-1", "boats-1"]
    assert chosen(FOLLOW) == ["boats-0", "boats-1"]


def test_follow_up_is_searched_alone_and_with_its_history():
    finder = library()
    chosen(FOLLOW, finder)
    assert finder.questions == ["Who owns it?", "Which boat sails the Bay Route? Who owns it?"]


def test_only_the_edition_that_the_question_means_is_searched():
    finder = KeywordFinder(**{"fees_2023.md": ["Dogs cost 2 pounds."], "fees_2025.md": ["Dogs cost 3 pounds."]})
    request = Request("What do dogs cost now?", passages=2)
    assert chosen(request, finder) == ["fees_2025.md-0"]
    assert chosen(replace(request, question="What did dogs cost in 2023?"), finder) == ["fees_2023.md-0"]
    assert len(chosen(replace(request, question="What do dogs cost?"), finder)) == 2


def test_a_follow_up_about_another_year_is_searched_without_the_year_before():
    finder = library()
    chosen(
        replace(FOLLOW, question="and in 2023?", history=(replace(FIRST, question="What did it cost in 2024?"),)),
        finder,
    )
    assert finder.questions == ["and in 2023?", "What did it cost in ? and in 2023?"]


def test_ranking_fuses_both_searches_and_the_previous_prompt():
    """Reciprocal rank fusion by its definition."""
    finder, top = library(), 6
    rankings = [
        ids(next(finder.retrieve_stages("Who owns it?", top))),
        ids(next(finder.retrieve_stages(f"{FIRST.question} Who owns it?", top))),
        list(FIRST.chunk_ids),
    ]
    score = {chunk: sum(1 / (61 + r.index(chunk)) for r in rankings if chunk in r) for r in rankings for chunk in r}
    best = sorted(score, key=lambda chunk: -score[chunk])
    old = [chunk for chunk in FIRST.chunk_ids if chunk in best]
    assert chosen(replace(FOLLOW, passages=top)) == old + [chunk for chunk in best if chunk not in old]


def test_a_summary_reads_the_opening_of_the_best_document_and_more_of_it():
    summary = Request("Summarize the text about the Silver Tern", passages=2, max_new_tokens=4)
    assert chosen(replace(summary, question="Where does the Silver Tern sail?"))[0] == "boats-2"
    assert chosen(summary) == ["boats-0", "boats-2"]
    assert chosen(replace(summary, passages=5)) == ["boats-0", "boats-2", "boats-1"]


@pytest.mark.parametrize(
    ("question", "documents"),
    [
        ("Summarize the ferry rules.", {"ferry-rules.md"}),
        ("Summarize ferry-rules.md, please", {"ferry-rules.md"}),
        ("What is the fare list about?", {"fare_list_2023.md", "fare_list_2024.md"}),  # one of these
        ("Summarize the 2023 one, the fare list", {"fare_list_2023.md"}),
    ],
)
def test_a_summary_is_of_the_document_that_the_question_names(question, documents):
    rules, fares = ["The rules of the ferry are short."], ["The list of fares is short."]
    finder = KeywordFinder(
        **{"ferry-rules.md": rules, "fare_list_2023.md": fares, "fare_list_2024.md": fares, "boats.md": [question]}
    )
    hits = chosen(Request(question, passages=2, max_new_tokens=4), finder)
    (chosen_document,) = {hit.rpartition("-")[0] for hit in hits}
    assert chosen_document in documents


def test_a_summary_of_all_documents_reads_the_opening_of_each_in_the_scope():
    summary = Request("Summarize all documents", passages=1, max_new_tokens=4)
    assert set(chosen(summary)) == {"boats-0", "rules-0"}
    assert set(chosen(replace(summary, documents=("boats",), passages=2))) <= {"boats-0", "boats-1", "boats-2"}
    assert len({hit.partition("-")[0] for hit in chosen(replace(summary, question="Summarize the boats"))}) == 1
    many = KeywordFinder(**{f"d{number}": ["One.", "Two."] for number in range(MAX_OPENINGS + 2)})
    *_, prepared = prepare_stages(many, PromptTemplate(tiny.decoder().tokenizer), summary, 4096, Trace())
    assert len(prepared.hits) == MAX_OPENINGS
    assert prepared.notes == (f"The {MAX_OPENINGS} newest of {MAX_OPENINGS + 2} documents are summarized.",)


def test_new_topic_ignores_the_history():
    finder = library()
    assert chosen(SWITCH, finder) == chosen(replace(SWITCH, history=()))
    assert finder.questions == [SWITCH.question]


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdef"), unique=True))
def test_previous_order_is_a_permutation(found, read):
    hits = named(*found)
    numbers = keep_previous_order(hits, range(len(hits)), [f"{name}-0" for name in read])
    ordered = [hits[number].chunk.id for number in numbers]
    assert sorted(ordered) == sorted(ids(hits))
    again = [f"{name}-0" for name in read if name in found]
    assert ordered == again + [chunk for chunk in ids(hits) if chunk not in again]


def test_previous_chunks_never_displace_better_ones():
    """Four passages of which two fit: the best two, whatever stood in front before."""
    texts = [f"tide {'moon ' * (5 - at)}{'water ' * 60}" for at in range(4)]
    finder, prompt = KeywordFinder(sea=texts), PromptTemplate(tiny.decoder().tokenizer)
    request = Request("How do moon and tide rise?", passages=4, max_new_tokens=16)
    best = chosen(request, finder)
    assert len(best) == 4
    length = max(len(prompt.passage(text).ids) for text in texts)
    room = len(prompt.prefix_ids) + len(prompt.suffix_ids(request.question)) + 16 + 2 * length
    again = replace(request, history=(ChatTurn("Before?", "Yes.", (best[3], best[2])),))
    assert chosen(again, finder, room) == chosen(request, finder, room) == best[:2]
    assert chosen(again, finder) == [best[3], best[2], *best[:2]]


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=3))
def test_fusion_has_each_chunk_once_best_first_with_merged_fields(rankings):
    rankings_of_hits = [
        [replace(found, matched_words=bool(at)) for found in named(*names)] for at, names in enumerate(rankings)
    ]
    hits = fuse_hits(rankings_of_hits)
    assert sorted(ids(hits)) == sorted({f"{name}-0" for names in rankings for name in names})
    assert [found.score for found in hits] == sorted((found.score for found in hits), reverse=True)
    for found in hits:
        assert found.matched_words == any(found.chunk.document_id in names for names in rankings[1:])


def test_fusion_keeps_the_first_known_similarity():
    near, far, unknown = (replace(make_hit("a", "a"), similarity=known) for known in (0.9, 0.2, None))
    for rankings, known in [(([near], [far]), 0.9), (([unknown], [far]), 0.2), (([unknown],), None)]:
        assert fuse_hits(rankings)[0].similarity == known


@pytest.mark.parametrize("documents, allowed", [(("rules",), "rules-"), (("boats",), "boats-")])
def test_previous_chunks_are_limited_to_the_chosen_documents(documents, allowed):
    found = chosen(replace(FOLLOW, documents=documents, passages=6))
    assert found and all(chunk.startswith(allowed) for chunk in found)


def test_deleted_previous_chunks_are_not_used():
    finder = library()
    del finder.chunks_by_document["boats"]
    assert all(chunk.startswith("rules-") for chunk in chosen(FOLLOW, finder))


class Slow(KeywordFinder):
    """The second search ends a stage after the first."""

    def retrieve_stages(self, question, top, documents=()):
        (found,) = super().retrieve_stages(question, top, documents)
        yield found[1:]
        if "Which" in question:
            yield found


def test_searches_with_different_numbers_of_stages():
    staged = [ids(hits) for hits in retrieve(Slow(boats=BOATS, rules=RULES), replace(FOLLOW, passages=6))]
    assert len(staged) == 2
    assert "boats-1" in staged[1]


@pytest.mark.parametrize("order", permutations(["ferry", "tern", "fares"]))
@pytest.mark.parametrize("method", ["prefix", "cacheclip", "full"])
def test_follow_up_on_the_same_passages_is_an_exact_prefix_hit(method, order):
    """However the search ranks them the second time."""
    engine = make_engine("ferry", "tern", "fares")
    asked = Request("When does the Old Kestrel sail?", "full", passages=3, max_new_tokens=4)
    first = last(engine.ask(asked))
    turn = ChatTurn(asked.question, first.text, tuple(source.chunk for source in first.sources))
    engine.finder = FixedFinder(*order)
    again = last(engine.ask(replace(asked, question="Who commands it?", method=method, history=(turn,))))
    assert [source.chunk for source in again.sources] == list(turn.chunk_ids)
    assert {source.cache_result for source in again.sources} == {"none" if method == "full" else "exact prefix hit"}
    assert again.recomputed_tokens == (again.context_tokens if method == "full" else 0)


@pytest.mark.parametrize("earlier", [(), (FIRST,)], ids=["first", "another topic"])
@pytest.mark.parametrize("question", ["When does the Old Kestrel sail?", "What do bicycles cost on board?"])
def test_prompt_of_a_standalone_question_has_no_history(question, earlier):
    engine, names = make_engine("ferry", "tern", "fares"), ["ferry", "tern", "fares"]
    prepared = engine.prepare(Request(question, passages=3, history=earlier), Trace())
    assert [chunk.ids for chunk in prepared.passages] == [engine.template.passage(TEXTS[name]).ids for name in names]
    assert prepared.suffix_ids == engine.template.suffix_ids(question) and prepared.standalone_question == question
    assert prepared.notes == ()


def test_prompt_of_a_follow_up_has_its_history_after_the_passages():
    engine = make_engine("ferry", "tern")
    prepared = engine.prepare(replace(FOLLOW, passages=2), Trace())
    assert prepared.standalone_question == f"{FIRST.question} {FIRST.answer} Who owns it?"
    assert prepared.suffix_ids == engine.template.suffix_ids(prepared.standalone_question)
    assert [chunk.ids for chunk in prepared.passages] == [
        engine.template.passage(TEXTS[name]).ids for name in ("ferry", "tern")
    ]


def test_speculative_prefill_does_not_change_a_follow_ups_answer():
    engine, plain = make_engine(), make_engine()
    engine.finder, plain.finder = Slow(boats=BOATS, rules=RULES), Slow(boats=BOATS, rules=RULES)
    engine.speculator = Speculator(engine.scheduler, same_prompt, -1.0)
    answer = last(engine.ask(FOLLOW))
    assert answer.state == "done" and answer.text == last(plain.ask(FOLLOW)).text
    assert "speculation" in [stage.name for stage in answer.trace.stages]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"documents": "boats"}, "documents must be a list of their ids, got 'boats'"),
        ({"documents": [1]}, r"got \[1\]"),
        ({"documents": None}, "got None"),
        ({"history": "Who?"}, "earlier questions must be a list"),
        ({"history": [("Who?", "He.")]}, "An earlier turn must have a question"),
        ({"history": [ChatTurn("Who?", None)]}, "An earlier turn must have a question"),
        ({"history": [ChatTurn("Who?", "He.", "boats-0")]}, "An earlier turn must have a question"),
        ({"history": [ChatTurn("Who?", "He \udc00.")]}, "half a character"),
        ({"whole_document": 1}, "true or false, got 1"),
        ({"whole_document": True}, "exactly one; 0 are chosen"),
        ({"whole_document": True, "documents": ("a", "b")}, "exactly one; 2 are chosen"),
    ],
    ids=str,
)
def test_malformed_scope_or_history_is_rejected_before_anything_runs(change, message):
    with pytest.raises(BadRequest, match=message):
        next(iter(make_engine("ferry").ask(replace(FOLLOW, **change))))


@pytest.mark.parametrize(
    "documents, message",
    [
        (("boats",), None),
        (("collection:gone",), "None of the chosen documents"),
        (("gone", "boats"), "1 of the 2 chosen"),
    ],
)
def test_missing_documents_give_a_note(documents, message):
    engine = make_engine()
    engine.finder = library()
    answer = last(engine.ask(replace(FOLLOW, documents=documents, history=())))
    assert answer.state == "done"
    assert any(re.search("in the library any more", note) for note in answer.notes) is (message is not None)
    assert message is None or message in answer.notes[0]


def test_note_for_no_passage_in_the_chosen_documents():
    engine = make_engine()
    engine.finder = library()
    notes = last(engine.ask(Request("Zebra?", documents=("rules",), max_new_tokens=4))).notes
    assert any("in the chosen documents" in note for note in notes) and not any("Add" in note for note in notes)


def test_previous_chunks_have_no_similarity():
    *_, hits = retrieve(library(), replace(FOLLOW, history=(replace(FIRST, chunk_ids=("rules-0",)),), passages=6))
    (lead,) = [found for found in hits if found.chunk.id == "rules-0"]
    assert isinstance(lead, Hit) and (lead.similarity, lead.matched_words) == (None, False)


def test_a_search_returns_the_hits_of_the_last_stage():
    finder = make_engine("ferry", "tern", "fares").finder
    assert [hit.chunk.text for hit in search(finder, Request("Why?", passages=2))] == [TEXTS["ferry"], TEXTS["tern"]]


def test_a_question_that_names_two_documents_has_passages_of_both_and_of_no_other():
    finder = KeywordFinder(boats=[f"Dogs {i} on boats." for i in range(9)], rules=RULES, third=["Dogs, dogs."])
    request = Request("What do boats and rules say about dogs on boats?", passages=4, max_new_tokens=4)
    assert {each.partition("-")[0] for each in chosen(request, finder)} == {"boats", "rules"}
    assert {each.partition("-")[0] for each in chosen(replace(request, documents=("rules",)), finder)} == {"rules"}


def test_rows_are_counted_in_a_whole_document_whose_passages_keep_their_order():
    finder = KeywordFinder(orders=["All orders.", "| Order: 1 | Status: sent |\n| Order: 2 | Status: open |"])
    request = Request("How many orders are open?", whole_document=True, documents=("orders",), max_new_tokens=4)
    prompt = PromptTemplate(tiny.decoder().tokenizer)
    *_, prepared = prepare_stages(finder, prompt, request, 4096, Trace())
    assert (ids(prepared.hits), prepared.table_rows.result) == (["orders-0", "orders-1"], "1 (Status: open)")
    *_, prepared = prepare_stages(finder, prompt, replace(request, whole_document=False), 4096, Trace())
    assert (ids(prepared.hits), prepared.table_rows.result) == (["orders-1", "orders-0"], "1 (Status: open)")


def test_rows_of_a_follow_up_are_counted_among_those_of_the_question_before():
    rows = [("1", "sent", "Osei"), ("2", "open", "Osei"), ("3", "open", "Lind")]
    table = "\n".join(f"| Order: {number} | Status: {status} | Customer: {name} |" for number, status, name in rows)
    finder, prompt = KeywordFinder(orders=[table]), PromptTemplate(tiny.decoder().tokenizer)

    def result(*earlier):
        history = tuple(ChatTurn(question, "") for question in earlier)
        request = Request("How many of those are open?", max_new_tokens=4, history=history)
        *_, prepared = prepare_stages(finder, prompt, request, 4096, Trace())
        return prepared.table_rows.result

    assert result("Which orders are from Osei?") == "1 (Customer: Osei; Status: open)"
    assert result("Is the office open on Sundays?") == ""
    assert result("Which orders are sent?") == ""  # of the same column: not sent or open
