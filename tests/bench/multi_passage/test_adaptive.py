"""The mix of sets for adaptive recomputation: timed by method, and the engine is calibrated if a method needs that."""

import statistics

import pytest

from bench.harness import engine as harness
from bench.measures import adaptive
from bench.ruler.generate import generate
from engine.fidelity import FidelityCurve, FidelityPoint

METHODS = ("--methods", "direct", "cacheclip", "cacheclip-adaptive", "cacheclip-adaptive:target=faithful")
SIZE = ("--ratios", "0.2", "--passages", "2", "--context-lengths", "700", "--num-samples", "2")


@pytest.fixture
def rows(engine, arguments):
    points = (FidelityPoint(0.0, 0.05, 0.9, 100.0, 4.0), FidelityPoint(0.4, 0.045, 0.9, 200.0, 2.0))
    engine.fidelity = FidelityCurve("cacheclip-trained", points, 400.0, 24)
    return adaptive.run(arguments(*METHODS, *SIZE, measure="adaptive"))


def test_every_set_and_the_mix_have_a_row_for_each_method(rows):
    tasks = ["ships", "ships split", "ships hops", "niah_multivalue", "mix"]
    assert list(dict.fromkeys(row["task"] for row in rows)) == tasks
    assert [row["n"] for row in rows if row["method"] == "direct"] == [2, 2, 2, 2, 8]
    by_task = {(row["task"], row["method"]): row for row in rows}
    balanced, direct = by_task["mix", "cacheclip-adaptive"], by_task["mix", "direct"]
    assert balanced["realised_ratio"] == 0.0  # direct reuse is within the target
    assert balanced["answer_kl"] == pytest.approx(direct["answer_kl"], abs=1e-6)
    faithful = "cacheclip-adaptive:target=faithful"
    assert by_task["ships", faithful]["realised_ratio"] == 0.0  # two passages
    assert by_task["ships split", faithful]["realised_ratio"] == 1.0  # many
    assert by_task["ships split", faithful]["answer_kl"] == pytest.approx(0.0, abs=1e-6)


def test_the_mix_is_the_mean_of_its_sets_and_every_time_is_one_methods_own(rows):
    for method in {row["method"] for row in rows}:
        *sets, mix = (row for row in rows if row["method"] == method)
        for name in ("ttft_ms", "full_ttft_ms", "quality", "answer_kl", "realised_ratio"):
            assert mix[name] == pytest.approx(statistics.fmean(row[name] for row in sets))
        for row in (*sets, mix):
            assert row["speedup"] == pytest.approx(row["full_ttft_ms"] / row["ttft_ms"])
            assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"] and row["ttft_ms"] > 0
    (full,) = (row for row in rows if row["method"] == "full" and row["task"] == "mix")
    assert full["speedup"] == 1.0


@pytest.mark.parametrize(
    "methods, calibrated",
    [
        (["direct", "cacheclip-trained"], None),
        (["direct", "cacheclip-adaptive:target=fast"], "cacheclip-trained"),
    ],
)
def test_the_engine_is_calibrated_for_adaptive_methods_only(methods, calibrated, arguments, monkeypatch):
    opened = []
    monkeypatch.setattr(harness, "open_engine", lambda *given: opened.append(given))
    harness.engine_of(arguments("--methods", *methods))
    assert [method for _, _, _, method in opened] == [calibrated]


def test_long_passages_are_split(engine, arguments, monkeypatch, tmp_path):
    sets = []
    monkeypatch.setattr(adaptive, "run_samples", lambda engine, items, *_, **__: sets.append(items) or [])
    monkeypatch.setattr(adaptive, "rows_of", lambda *_: [])
    needles = list(generate(adaptive.RULER_TASK, 700, 2, 0, len, lambda text: [text], "It rains. " * 99))
    monkeypatch.setattr(adaptive, "generate", lambda *_: iter(needles))
    for size in ("512", "16"):
        adaptive.run(arguments(*SIZE, "--chunk-size", size, "--json", str(tmp_path / size), measure="adaptive"))
    assert len(sets[4][0].passages) > len(sets[0][0].passages) == 2
