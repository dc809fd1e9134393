"""The cost model: exact at grid points, bilinear between them, saved to a file."""

import itertools

import pytest

from engine.cache.cost_model import CACHED_TOKENS, COMPUTED_TOKENS, CostModel, load_or_measure, measure_costs
from tests.support import tiny

GRID = CostModel((0, 100), (1, 11, 21), ((1.0, 2.0, 4.0), (3.0, 6.0, 12.0)))


def test_grid_points_are_exact():
    for (row, cached), (column, computed) in itertools.product(enumerate(GRID.cached), enumerate(GRID.computed)):
        assert GRID.estimate_ms(cached, computed) == GRID.ms[row][column]


@pytest.mark.parametrize(
    ("cached", "computed", "ms"), [(0, 6, 1.5), (50, 11, 4.0), (50, 16, 6.0), (0, 31, 6.0), (200, 1, 5.0), (0, 0, 0.9)]
)
def test_interpolation_and_extrapolation_are_bilinear(cached, computed, ms):
    assert GRID.estimate_ms(cached, computed) == pytest.approx(ms)


def test_costs_are_never_negative():
    assert CostModel((0, 1), (1, 2), ((1.0, 9.0), (1.0, 9.0))).estimate_ms(0, 0) == 0.0


def test_cost_per_token():
    assert GRID.ms_per_token(0, 11) == pytest.approx(2.0 / 11)
    assert GRID.ms_per_token(0, 0) == 0.0


@pytest.mark.parametrize("ms", [((1.0,), (1.0,)), ((1.0, 2.0, 3.0),)])
def test_a_grid_of_another_shape_is_rejected(ms):
    with pytest.raises(ValueError, match="points"):
        CostModel((0, 100), (1, 11, 21), ms)


def tick(monkeypatch, seconds):
    """Let the clock advance by as much at each reading, so that every pass takes that long."""
    ticks = itertools.count()
    monkeypatch.setattr("engine.cache.cost_model.perf_counter", lambda: next(ticks) * seconds)


def test_every_grid_point_is_measured(monkeypatch):
    tick(monkeypatch, 1 / 1024)
    costs = measure_costs(tiny.decoder())
    assert costs == CostModel(
        CACHED_TOKENS, COMPUTED_TOKENS, ((1000 / 1024,) * len(COMPUTED_TOKENS),) * len(CACHED_TOKENS)
    )


def test_slow_points_are_estimated_from_their_flops(monkeypatch):
    tick(monkeypatch, 1.5)
    costs = measure_costs(tiny.decoder())
    spec = tiny.decoder().spec
    few, more = (spec.flops(tokens, tokens * (tokens + 1) // 2) for tokens in COMPUTED_TOKENS[1:3])
    assert costs.ms[0][:2] == (1500.0, 1500.0)  # a pass over one token does not show the speed for 64
    assert costs.ms[0][2] == pytest.approx(1500.0 * more / few)


def test_costs_are_measured_once_and_saved(tmp_path):
    file, calls = tmp_path / "kv" / "costs.json", []
    for _ in range(2):
        assert load_or_measure(file, lambda: calls.append(1) or GRID) == GRID
    assert calls == [1]


@pytest.mark.parametrize("content", ["", "{}", '{"cached": [0], "computed": [1], "ms": [[1]]}', '{"ms": 3}'])
def test_an_invalid_file_is_replaced(tmp_path, content):
    file = tmp_path / "costs.json"
    file.write_text(content)
    assert load_or_measure(file, lambda: GRID) == GRID
    assert load_or_measure(file, lambda: None) == GRID


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert load_or_measure(tmp_path / "file" / "costs.json", lambda: GRID) == GRID
