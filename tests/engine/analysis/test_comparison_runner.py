"""What a comparison of methods may and may not do, on tiny models."""

import json
from dataclasses import replace
from threading import Event

import pytest

from engine.analysis.comparison_runner import compare, requested_variants
from engine.analysis.comparison import MAX_ARMS, CompareRequest
from engine.errors import BadRequest, NoPassageFound
from engine.request import Request
from engine.strategies import STRATEGIES
from tests.support.doubles import TEXTS, engine, last

NAMES = ("ferry", "tern", "fares")
METHODS = ("cacheclip", "cacheblend", "direct")
ASK = CompareRequest("What is the maintenance code?", METHODS, (0.3,), passages=6, max_new_tokens=6)
RATIOED = [name for name, strategy in STRATEGIES.items() if "ratio" in strategy.__dataclass_fields__]


def outcomes_of(made, wanted):
    ended = last(compare(made, wanted))
    assert ended.state == "done"
    return {outcome.key: outcome for outcome in ended.outcomes}


def what_was_found(outcome):
    return outcome.answer, outcome.kl, outcome.answer_kl, outcome.top1, outcome.realised_ratio, outcome.reused_bytes


def test_full_prefill_comes_first_and_is_its_own_reference():
    ended = last(compare(engine(*NAMES), ASK))
    full = ended.outcomes[0]
    assert [outcome.key for outcome in ended.outcomes] == ["full@1", "cacheclip@0.3", "cacheblend@0.3", "direct@0"]
    assert (full.kl, full.answer_kl, full.top1, full.answer_top1) == (0.0, 0.0, True, 1.0)
    assert full.rt == 1.0 and full.floor_ms == pytest.approx(full.ttft_ms)
    assert full.realised_ratio == 1.0 and full.reused_bytes == 0 and not full.read_bytes


@pytest.mark.parametrize("method", RATIOED)
def test_recomputing_everything_is_full_prefill(method):
    found = outcomes_of(engine(*NAMES), replace(ASK, methods=(method,), ratios=(1.0,)))
    full, everything = found.values()
    assert everything.answer == full.answer
    assert everything.answer_kl == pytest.approx(0.0, abs=1e-6) and everything.answer_top1 == 1.0
    assert everything.realised_ratio == 1.0 and everything.reused_bytes == 0


def test_recomputing_nothing_is_direct_reuse_and_reuses_every_byte():
    found = outcomes_of(engine(*NAMES), replace(ASK, methods=("cacheclip", "direct"), ratios=(0.0,)))
    nothing, direct = found["cacheclip@0"], found["direct@0"]
    assert what_was_found(nothing) == what_was_found(direct)
    assert direct.kl > 0 and direct.reused_bytes == sum(direct.read_bytes.values()) > 0


def test_the_order_of_the_arms_changes_neither_answers_nor_distances():
    every = ("naive", "cacheclip", "prefix", "cacheblend", "ape", "full", "prophetkv", "direct")
    forward = outcomes_of(engine(*NAMES), replace(ASK, methods=every))
    backward = outcomes_of(engine(*NAMES), replace(ASK, methods=every[::-1]))
    assert {key: what_was_found(one) for key, one in forward.items()} == {
        key: what_was_found(one) for key, one in backward.items()
    }


def test_a_comparison_leaves_only_what_every_question_leaves_and_the_next_one_finds_the_same():
    made = engine(*NAMES)
    first = outcomes_of(made, ASK)
    assert len(made.cache.tree) == len(NAMES)  # each passage by its content: no path that would be exact
    second = outcomes_of(made, ASK)
    assert {key: what_was_found(one) for key, one in first.items()} == {
        key: what_was_found(one) for key, one in second.items()
    }


def test_paths_that_earlier_answers_left_do_not_make_an_arm_exact():
    made = engine(*NAMES)
    fresh = outcomes_of(made, ASK)
    last(made.ask(Request(ASK.question, method="full", passages=6, max_new_tokens=6)))
    assert len(made.cache.tree) > len(NAMES)
    after = outcomes_of(made, ASK)
    assert after["direct@0"].kl == fresh["direct@0"].kl > 0
    assert after["cacheclip@0.3"].realised_ratio == fresh["cacheclip@0.3"].realised_ratio > 0


def test_every_time_counts_the_search_and_the_arms_own_scoring():
    made = engine(*NAMES)
    ended = last(compare(made, replace(ASK, methods=("cacheclip", "cacheclip-joint", "prophetkv", "direct"))))
    stages = {outcome.method: [stage.name for stage in outcome.stages] for outcome in ended.outcomes}
    assert "prefill" in stages["full"] and "load" not in stages["full"]
    assert "auxiliary" in stages["cacheclip"] and "auxiliary" in stages["cacheclip-joint"]
    assert "question" in stages["prophetkv"] and "auxiliary" not in stages["direct"]
    for outcome in ended.outcomes:
        assert outcome.ttft_ms > ended.search_ms > 0
        assert outcome.ttft_ms >= ended.search_ms + max(stage.length_ms for stage in outcome.stages)


def test_every_arm_finds_its_passages_in_memory_even_those_nobody_has_read_before():
    for outcome in outcomes_of(engine(*NAMES), replace(ASK, methods=("cacheclip", "naive", "ape", "direct"))).values():
        assert set(outcome.read_bytes) == ({"host"} if outcome.method != "full" else set())


def test_repeats_are_interleaved_and_the_median_is_shown():
    seen = list(compare(engine(*NAMES), replace(ASK, methods=("direct",), repeats=3)))
    passes = [(each.round, each.now) for each in seen if each.state == "running"]
    assert list(dict.fromkeys(passes)) == [(n, now) for n in (1, 2, 3) for now in ("Full prefill", "Direct reuse")]
    for outcome in seen[-1].outcomes:
        assert len(outcome.ttfts_ms) == 3 and outcome.ttft_ms == sorted(outcome.ttfts_ms)[1]
        assert outcome.full_ms == seen[-1].outcomes[0].ttft_ms
    assert seen[-1].step == seen[-1].steps == 6


def test_outcomes_arrive_one_by_one_and_earlier_snapshots_do_not_change():
    counts = [len(each.outcomes) for each in compare(engine(*NAMES), ASK)]
    assert counts == sorted(counts) and set(counts) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("after", range(1, 6))
def test_stopping_keeps_what_is_finished_and_leaves_the_engine_usable(after):
    made, cancel = engine(*NAMES), Event()
    snapshots = compare(made, replace(ASK, repeats=2), cancel)
    for _ in range(after):
        seen = next(snapshots)
    cancel.set()
    rest = list(snapshots)
    assert len(rest) == 1 and rest[0].state == "stopped"
    assert rest[0].outcomes == seen.outcomes
    assert last(made.ask(Request(ASK.question, max_new_tokens=6))).state == "done"


def test_a_question_asked_meanwhile_waits_for_one_arm_only():
    made = engine(*NAMES)
    snapshots = compare(made, ASK)
    while next(snapshots).state != "running":
        pass
    assert last(made.ask(Request(ASK.question, max_new_tokens=6))).state == "done"
    assert last(snapshots).state == "done"


def test_without_a_passage_there_is_nothing_to_compare():
    with pytest.raises(NoPassageFound, match="Add documents"):
        list(compare(engine(), ASK))


@pytest.mark.parametrize(
    "change, said",
    [
        ({"question": " "}, "question is empty"),
        ({"methods": ("cacheclap",)}, "'cacheclap' is not one of cacheclip"),
        ({"methods": ()}, "at least one of the methods"),
        ({"methods": "full"}, "methods, as a list"),
        ({"ratios": (1.5,)}, "ratio must be a number between 0 and 1"),
        ({"ratios": 0.2}, "ratios, as a list"),
        ({"repeats": 0}, "between 1 and 9, got 0"),
        ({"passages": 0}, "number of passages"),
        ({"methods": tuple(STRATEGIES), "ratios": tuple(n / 20 for n in range(20))}, f"{MAX_ARMS} at most"),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_refused_before_anything_runs(change, said):
    with pytest.raises(BadRequest, match=said):
        next(compare(engine(*NAMES), replace(ASK, **change)))


def test_a_method_named_twice_is_one_arm():
    assert [
        arm.title for arm in requested_variants(replace(ASK, methods=("direct", "full", "direct", "epic", "random")))
    ] == [
        "Full prefill",
        "Direct reuse",
        "EPIC",
        "Random windows at 30\u00a0%",
    ]


def test_a_snapshot_is_plain_data_for_programs():
    ended = last(compare(engine(*NAMES), ASK)).as_dict()
    assert json.loads(json.dumps(ended)) == ended
    assert ended["state"] == "done" and ended["outcomes"][0]["n"] == 1 and ended["outcomes"][0]["rt"] == 1.0
    assert [passage["document"] for passage in ended["passages"]] == [f"{name}.txt" for name in NAMES]
    assert TEXTS["ferry"] not in json.dumps(ended)


def test_comparing_counts_as_no_use():
    made = engine("ferry", "tern")
    last(made.ask(Request("When does the Old Kestrel sail?", passages=2)))

    def frequencies():
        with made.cache.tree.locked() as copies:
            return {key: node.frequency for key, node in copies.nodes.items()}

    before = frequencies()
    *_, ended = compare(
        made, CompareRequest("When does the Old Kestrel sail?", methods=("direct", "cacheclip"), passages=2)
    )
    assert ended.state == "done" and frequencies() == before


def test_only_chosen_documents_are_compared_on():
    made = engine("ferry", "tern", "fares")
    seen = made.finder.stages
    made.finder.stages = lambda question, top, documents=(): asked.append(tuple(documents)) or seen(question, top)
    asked = []
    *_, ended = compare(made, CompareRequest("When does it sail?", methods=("direct",), documents=("ferry",)))
    assert asked == [("ferry",)] and ended.as_dict()["documents"] == ["ferry"]
