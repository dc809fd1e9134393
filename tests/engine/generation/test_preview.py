"""What would be recomputed at another ratio, against real runs at that ratio, and the predicted time."""

import gc
import weakref
from dataclasses import replace
from threading import Event

import pytest

from engine.cache.cost_model import CostModel
from engine.fidelity import FidelityCurve, FidelityPoint
from engine.generation.preview import ttft_prediction
from engine.prompt.validate import build_strategy
from engine.request import Answer, Source, TextSpan
from engine.scoring.trained_selector import SelectorHead, TokenSelector
from engine.strategies import STRATEGIES, list_methods
from engine.trace import Stage, Trace
from tests.engine.test_engine import ASK
from tests.support import tiny
from tests.support.doubles import FixedFinder, last, make_engine

NAMES = ["ferry", "tern", "fares", "crew"]
RATIOS = (0.0, 0.1, 0.35, 0.8, 1.0)
WITH_RATIO = [method.name for method in list_methods() if method.has_ratio]
COSTS = CostModel((0, 1000), (0, 100), ((10.0, 60.0), (30.0, 80.0)))  # 10 ms, 1 ms per 2 computed or 50 cached tokens


@pytest.fixture(scope="module")
def shared_engine():
    return make_engine(selector=TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32)))


@pytest.fixture
def engine_over(shared_engine):
    """Return the shared engine over some texts, with an empty cache."""

    def use(*names):
        shared_engine.finder = FixedFinder(*names)
        shared_engine.cache.tree.clear()
        return shared_engine

    return use


def run_at(engine, request, ratio):
    """Prefill the request at another ratio; return each passage's recomputed tokens and characters."""
    request = replace(request, recompute_ratio=ratio)
    prepared = engine.prepare(request, Trace())
    rows = set(engine.prefill(prepared, build_strategy(request), Trace()).rows.tolist())
    found, slot = [], len(engine.template.prefix_ids)
    for text, passage in zip(prepared.texts, prepared.passages, strict=True):
        spans = [span for at, span in enumerate(passage.spans, start=slot) if at in rows]
        found.append((len(spans), [any(a <= at < b for a, b in spans) for at in range(len(text))]))
        slot += len(passage.ids)
    return found


def check_preview(engine, request):
    answer = last(engine.ask(request))
    counts = set()
    for ratio in RATIOS:
        preview = answer.preview(ratio)
        characters = [[span.recomputed for span in each.text_spans for _ in span.text] for each in preview.passages]
        found = [(each.recomputed_tokens, marks) for each, marks in zip(preview.passages, characters, strict=True)]
        assert found == run_at(engine, request, ratio), ratio
        counts.add(preview.recomputed_tokens)
    return counts


@pytest.mark.parametrize("method", [name for name in WITH_RATIO if name != "cacheblend"])
def test_a_preview_is_what_the_next_run_at_that_ratio_recomputes(engine_over, method):
    assert len(check_preview(engine_over(*NAMES), replace(ASK, method=method, max_new_tokens=2))) > 3


@pytest.mark.parametrize("method", ["cacheclip", "cacheclip-v2", "prophetkv"])
@pytest.mark.parametrize("requested, names", [(0.0, NAMES), (1.0, NAMES), (0.2, NAMES[:1]), (0.2, ["ferry", "ferry"])])
def test_also_from_any_ratio_and_for_one_passage_or_the_same_one_twice(engine_over, method, requested, names):
    check_preview(engine_over(*names), replace(ASK, method=method, max_new_tokens=2, recompute_ratio=requested))


def test_a_run_at_100_percent_leaves_an_exact_path_so_that_nothing_is_left_to_recompute(engine_over):
    answer = last(engine_over(*NAMES).ask(replace(ASK, recompute_ratio=1.0)))
    assert answer.recomputed_tokens == answer.context_tokens
    assert answer.preview(0.5).recomputed_tokens == 0 and answer.preview(0.5).is_exact
    assert not last(engine_over(*NAMES).ask(ASK)).preview(0.5).is_exact


def test_cacheblend_selects_during_the_forward_pass_so_only_100_percent_is_known(engine_over):
    answer = last(engine_over(*NAMES).ask(replace(ASK, method="cacheblend")))
    assert answer.preview(0.3) is None
    assert answer.preview(1.0).recomputed_tokens == answer.context_tokens


@pytest.mark.parametrize("method", [name for name in STRATEGIES if name not in WITH_RATIO])
def test_a_method_without_a_ratio_has_no_preview(engine_over, method):
    assert last(engine_over(*NAMES).ask(replace(ASK, method=method))).preview is None


def test_there_is_no_preview_before_the_prefill_or_without_passages(engine_over):
    engine, cancel = engine_over(*NAMES), Event()
    answers = engine.ask(ASK, cancel)
    assert next(answers).preview is None
    cancel.set()
    assert last(answers).preview is None
    assert last(engine_over().ask(ASK)).preview(0.5).passages == ()


@pytest.mark.parametrize("method", ["cacheclip", "oracle", "prophetkv", "infoflow"])
def test_a_kept_answer_keeps_no_model_and_no_kv(method):
    engine = make_engine(*NAMES)
    answer = last(engine.ask(replace(ASK, method=method)))
    kept = replace(answer, trace=answer.trace.snapshot())
    gone = [weakref.ref(each) for each in (engine, engine.cache, engine.cache.decoder, engine.cache.prefix.keys)]
    del engine, answer
    gc.collect()
    assert [each() for each in gone] == [None] * len(gone)
    assert kept.preview(0.5).recomputed_tokens > 0


def test_the_first_run_computes_the_passages_so_only_the_second_predicts_a_time(engine_over, monkeypatch):
    engine = engine_over(*NAMES)
    monkeypatch.setattr(engine.cache, "costs", COSTS)
    first, second = (last(engine.ask(ASK)) for _ in range(2))
    assert first.preview(0.5).ttft_ms is None
    assert second.preview(ASK.recompute_ratio).ttft_ms == pytest.approx(
        second.trace.ttft_ms - sum(s.length_ms for s in second.trace.stages if s.name in ("queue", "load"))
    )
    times = [second.preview(ratio).ttft_ms for ratio in (0.0, 0.5, 1.0)]
    assert times == sorted(times) and times[0] < times[2]


def answered(*stages, ttft_ms=500.0, tier="host"):
    """An answer over 300 passage tokens of which 50 were recomputed."""
    source = Source(1, "a", "a", None, None, True, 300, tier, 50, (TextSpan("a", False),))
    before = [Stage("queue", 10.0, 60.0), Stage("load", 80.0, 40.0)]
    trace = Trace(stages=[*before, *stages], ttft_ms=ttft_ms)
    sizes = {"context_tokens": 300, "recomputed_tokens": 50, "question_tokens": 20, "prompt_tokens": 350}
    return Answer(ASK, trace, sources=(source,), **sizes)


def test_the_predicted_time_scales_recomputing_by_the_cost_model_and_waits_for_no_request_or_disk():
    predict = ttft_prediction(answered(Stage("recompute", 300.0, 153.0)), COSTS)
    # 70 rows after 280 cached tokens: 10 + 35 + 5.6 ms; 170 after 180: 10 + 85 + 3.6; all 350: 10 + 175.
    assert predict(50) == pytest.approx(400)
    assert predict(150) == pytest.approx(400 - 153 + 153 * 98.6 / 50.6)
    assert predict(300) == pytest.approx(400 - 153 + 153 * 185 / 50.6)


def test_an_answer_that_is_shown_before_the_prefill_does_not_depend_on_the_ratio():
    predict = ttft_prediction(answered(Stage("recompute", 600.0, 153.0)), COSTS)
    assert [predict(tokens) for tokens in (0, 50, 300)] == [440.0] * 3


@pytest.mark.parametrize(
    "answer, costs",
    [
        (answered(Stage("recompute", 300.0, 153.0)), None),
        (answered(Stage("recompute", 300.0, 153.0), ttft_ms=None), COSTS),
        (answered(Stage("recompute", 300.0, 153.0), tier="computed"), COSTS),
        (answered(Stage("recompute", 100.0, 153.0), Stage("speculation", 50.0, 300.0)), COSTS),
    ],
)
def test_without_a_basis_no_time_is_predicted(answer, costs):
    assert ttft_prediction(answer, costs)(50) is None


def test_the_calibration_gives_answers_and_previews_of_its_method_an_expected_kl(engine_over, monkeypatch):
    points = tuple(FidelityPoint(ratio, 0.4 - ratio, 1.0, 1.0, 1.0) for ratio in (0.0, 0.2, 0.4))
    engine = engine_over(*NAMES)
    curve = FidelityCurve(ASK.method, points, 1.0, 24)
    monkeypatch.setattr(engine, "fidelity", curve)
    answer = last(engine.ask(ASK))
    expected = curve.for_passages(len(answer.sources)).expected_kl
    assert answer.expected_kl == pytest.approx(expected(answer.actual_ratio)) and 0 < answer.expected_kl < 0.4
    assert [answer.preview(ratio).expected_kl for ratio in (0.1, 1.0)] == pytest.approx([expected(0.1), 0.0])
    other = last(engine.ask(replace(ASK, method="prophetkv")))
    assert (other.expected_kl, other.preview(0.1).expected_kl, other.preview(1.0).expected_kl) == (None, None, 0.0)
    assert last(engine.ask(replace(ASK, method="full"))).expected_kl == 0.0
    exact = last(engine.ask(ASK))  # full prefill left an exact path
    assert exact.expected_kl == exact.preview(0.1).expected_kl == 0.0
    monkeypatch.setattr(engine, "fidelity", None)
    assert last(engine_over(*NAMES).ask(ASK)).expected_kl is None
