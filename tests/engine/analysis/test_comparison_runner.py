"""Invariants of a comparison of methods, on tiny models."""

import json
from dataclasses import replace
from threading import Event

import pytest

from engine.analysis.comparison import MAX_VARIANTS, CompareRequest
from engine.analysis.comparison_runner import compare, requested_variants
from engine.errors import BadRequest, NoPassageFound
from engine.request import Request
from engine.strategies import STRATEGIES
from tests.support.doubles import TEXTS, last, make_engine

NAMES = ("ferry", "tern", "fares")
METHODS = ("cacheclip", "cacheblend", "direct")
ASK = CompareRequest("What is the maintenance code?", METHODS, (0.3,), passages=6, max_new_tokens=6)
METHODS_WITH_RATIO = [name for name, strategy in STRATEGIES.items() if "ratio" in strategy.__dataclass_fields__]


def outcomes_of(engine, request):
    ended = last(compare(engine, request))
    assert ended.state == "done"
    return {outcome.key: outcome for outcome in ended.outcomes}


def results(outcome):
    return outcome.answer, outcome.kl, outcome.answer_kl, outcome.top1, outcome.actual_ratio, outcome.reused_bytes


def test_full_prefill_comes_first_and_is_its_own_reference():
    ended = last(compare(make_engine(*NAMES), ASK))
    full = ended.outcomes[0]
    assert [outcome.key for outcome in ended.outcomes] == ["full@1", "cacheclip@0.3", "cacheblend@0.3", "direct@0"]
    assert (full.kl, full.answer_kl, full.top1, full.answer_top1) == (0.0, 0.0, True, 1.0)
    assert full.relative_ttft == 1.0 and full.ideal_ms == pytest.approx(full.ttft_ms)
    assert full.actual_ratio == 1.0 and full.reused_bytes == 0 and not full.read_bytes


@pytest.mark.parametrize("method", METHODS_WITH_RATIO)
def test_recomputing_everything_is_full_prefill(method):
    outcomes = outcomes_of(make_engine(*NAMES), replace(ASK, methods=(method,), ratios=(1.0,)))
    full, everything = outcomes.values()
    assert everything.answer == full.answer
    assert everything.answer_kl == pytest.approx(0.0, abs=1e-6) and everything.answer_top1 == 1.0
    assert everything.actual_ratio == 1.0 and everything.reused_bytes == 0


def test_recomputing_nothing_is_direct_reuse_and_reuses_every_byte():
    outcomes = outcomes_of(make_engine(*NAMES), replace(ASK, methods=("cacheclip", "direct"), ratios=(0.0,)))
    nothing, direct = outcomes["cacheclip@0"], outcomes["direct@0"]
    assert results(nothing) == results(direct)
    assert direct.kl > 0 and direct.reused_bytes == sum(direct.read_bytes.values()) > 0


def test_recomputed_text_is_the_selected_windows_in_the_order_of_the_prompt():
    outcomes = outcomes_of(make_engine(*NAMES), replace(ASK, ratios=(0.0, 0.3, 1.0)))
    for key in ("full@1", "cacheclip@1", "cacheclip@0", "direct@0"):
        assert outcomes[key].recomputed_texts == ()
    windows = outcomes["cacheclip@0.3"].recomputed_texts
    passages = [TEXTS[name] for name in NAMES]
    assert windows and all(any(window in passage for passage in passages) for window in windows)
    shared = sum(map(len, windows)) / sum(map(len, passages))
    assert shared == pytest.approx(outcomes["cacheclip@0.3"].actual_ratio, abs=0.15)


def test_the_order_of_variants_changes_neither_answers_nor_distances():
    every = ("naive", "cacheclip", "prefix", "cacheblend", "ape", "full", "prophetkv", "infoflow", "qcfuse", "direct")
    forward = outcomes_of(make_engine(*NAMES), replace(ASK, methods=every))
    backward = outcomes_of(make_engine(*NAMES), replace(ASK, methods=every[::-1]))
    assert {key: results(one) for key, one in forward.items()} == {key: results(one) for key, one in backward.items()}


def test_a_comparison_caches_no_exact_paths_and_can_be_repeated():
    engine = make_engine(*NAMES)
    first = outcomes_of(engine, ASK)
    assert len(engine.cache.tree.nodes) == len(NAMES)  # each passage alone, no exact path
    second = outcomes_of(engine, ASK)
    assert {key: results(one) for key, one in first.items()} == {key: results(one) for key, one in second.items()}


def test_exact_paths_of_earlier_answers_are_not_used():
    engine = make_engine(*NAMES)
    fresh = outcomes_of(engine, ASK)
    last(engine.ask(Request(ASK.question, method="full", passages=6, max_new_tokens=6)))
    assert len(engine.cache.tree.nodes) > len(NAMES)
    after = outcomes_of(engine, ASK)
    assert after["direct@0"].kl == fresh["direct@0"].kl > 0
    assert after["cacheclip@0.3"].actual_ratio == fresh["cacheclip@0.3"].actual_ratio > 0


def test_every_ttft_includes_the_search_and_the_variants_own_scoring():
    engine = make_engine(*NAMES)
    with_question_pass = ("prophetkv", "infoflow", "qcfuse")
    methods = ("cacheclip", "cacheclip-joint", *with_question_pass, "direct")
    ended = last(compare(engine, replace(ASK, methods=methods)))
    stages = {outcome.method: [stage.name for stage in outcome.stages] for outcome in ended.outcomes}
    assert "prefill" in stages["full"] and "load" not in stages["full"]
    assert "auxiliary" in stages["cacheclip"] and "auxiliary" in stages["cacheclip-joint"]
    assert all("question" in stages[method] for method in with_question_pass)
    assert not {"auxiliary", "question"} & set(stages["direct"])
    for outcome in ended.outcomes:
        assert outcome.ttft_ms > ended.search_ms > 0
        assert outcome.ttft_ms >= ended.search_ms + max(stage.length_ms for stage in outcome.stages)


def test_every_variant_finds_its_passages_in_memory_even_if_they_were_never_cached():
    outcomes = outcomes_of(make_engine(*NAMES), replace(ASK, methods=("cacheclip", "naive", "ape", "direct")))
    for outcome in outcomes.values():
        assert set(outcome.read_bytes) == ({"host"} if outcome.method != "full" else set())


def test_repeats_are_interleaved_and_the_median_is_shown():
    snapshots = list(compare(make_engine(*NAMES), replace(ASK, methods=("direct",), repeats=3)))
    runs = [(each.round, each.current_label) for each in snapshots if each.state == "running"]
    assert list(dict.fromkeys(runs)) == [(n, label) for n in (1, 2, 3) for label in ("Full prefill", "Direct reuse")]
    for outcome in snapshots[-1].outcomes:
        assert len(outcome.ttfts_ms) == 3 and outcome.ttft_ms == sorted(outcome.ttfts_ms)[1]
        assert outcome.full_ms == snapshots[-1].outcomes[0].ttft_ms
    assert snapshots[-1].step == snapshots[-1].steps == 6


def test_outcomes_arrive_one_by_one_and_earlier_snapshots_do_not_change():
    counts = [len(each.outcomes) for each in compare(make_engine(*NAMES), ASK)]
    assert counts == sorted(counts) and set(counts) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("after", range(1, 6))
def test_stopping_keeps_what_is_finished_and_leaves_the_engine_usable(after):
    engine, cancel = make_engine(*NAMES), Event()
    snapshots = compare(engine, replace(ASK, repeats=2), cancel)
    for _ in range(after):
        latest = next(snapshots)
    cancel.set()
    rest = list(snapshots)
    assert len(rest) == 1 and rest[0].state == "stopped"
    assert rest[0].outcomes == latest.outcomes
    assert last(engine.ask(Request(ASK.question, max_new_tokens=6))).state == "done"


def test_a_concurrent_question_waits_for_one_variant_only():
    engine = make_engine(*NAMES)
    snapshots = compare(engine, ASK)
    while next(snapshots).state != "running":
        pass
    assert last(engine.ask(Request(ASK.question, max_new_tokens=6))).state == "done"
    assert last(snapshots).state == "done"


def test_without_a_passage_there_is_nothing_to_compare():
    with pytest.raises(NoPassageFound, match="Add documents"):
        list(compare(make_engine(), ASK))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"question": " "}, "question is empty"),
        ({"methods": ("cacheclap",)}, "'cacheclap' is not one of cacheclip"),
        ({"methods": ()}, "methods must be a list with at least one entry"),
        ({"methods": "full"}, "methods must be a list"),
        ({"ratios": (1.5,)}, "ratio must be a number between 0 and 1"),
        ({"ratios": 0.2}, "ratios must be a list"),
        ({"repeats": 0}, "between 1 and 9, got 0"),
        ({"passages": 0}, "number of passages"),
        ({"methods": tuple(STRATEGIES), "ratios": tuple(n / 20 for n in range(20))}, f"At most {MAX_VARIANTS}"),
    ],
    ids=str,
)
def test_an_invalid_comparison_is_refused_before_anything_runs(change, message):
    with pytest.raises(BadRequest, match=message):
        next(compare(make_engine(*NAMES), replace(ASK, **change)))


def test_a_method_named_twice_runs_once():
    variants = requested_variants(replace(ASK, methods=("direct", "full", "direct", "epic", "random")))
    titles = [variant.title for variant in variants]
    assert titles == ["Full prefill", "Direct reuse", "EPIC", "Random windows at 30\u00a0%"]


def test_a_snapshot_as_dict_is_json():
    ended = last(compare(make_engine(*NAMES), ASK)).as_dict()
    assert json.loads(json.dumps(ended)) == ended
    assert ended["state"] == "done" and ended["outcomes"][0]["n"] == 1 and ended["outcomes"][0]["rt"] == 1.0
    assert [passage["document"] for passage in ended["passages"]] == [f"{name}.txt" for name in NAMES]
    assert TEXTS["ferry"] not in json.dumps(ended)


def test_a_comparison_records_no_cache_hits():
    engine = make_engine("ferry", "tern")
    last(engine.ask(Request("When does the Old Kestrel sail?", passages=2)))

    def frequencies():
        with engine.cache.tree.locked() as replicas:
            return {key: node.frequency for key, node in replicas.nodes.items()}

    before = frequencies()
    *_, ended = compare(
        engine, CompareRequest("When does the Old Kestrel sail?", methods=("direct", "cacheclip"), passages=2)
    )
    assert ended.state == "done" and frequencies() == before


def test_only_selected_documents_are_searched():
    engine = make_engine("ferry", "tern", "fares")
    retrieve = engine.finder.retrieve_stages
    searched = []
    engine.finder.retrieve_stages = lambda question, top, documents=(): (
        searched.append(tuple(documents)) or retrieve(question, top)
    )
    *_, ended = compare(engine, CompareRequest("When does it sail?", methods=("direct",), documents=("ferry",)))
    assert searched == [("ferry",)] and ended.as_dict()["documents"] == ["ferry"]
