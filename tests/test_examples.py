"""The examples run, and a custom strategy is on a par with the built-in ones."""

import re

import pytest

from engine.method import list_params
from examples import custom_strategy, quickstart
from tests.support.doubles import TEXTS, make_engine


def test_quickstart_prints_answers_and_ttft(monkeypatch, capsys):
    monkeypatch.setattr(quickstart, "load_engine", lambda texts: make_engine(*TEXTS))
    quickstart.main()
    printed = capsys.readouterr().out
    assert len(re.findall(r"^TTFT \d+ ms, \d+% of the passages' tokens recomputed$", printed, re.MULTILINE)) == 2


def test_custom_strategy_runs_next_to_built_in_ones_and_keeps_its_budget(monkeypatch, capsys):
    monkeypatch.setattr(custom_strategy, "open_engine", lambda config: make_engine())
    custom_strategy.main()
    header, *rows = capsys.readouterr().out.splitlines()
    assert "chief engineer" in header
    answer_kl = {row.split("@")[0]: float(re.search(r"answer KL (\d\.\d{4})", row)[1]) for row in rows}
    percent = {row.split("@")[0]: int(re.search(r"(\d+)% recomputed", row)[1]) for row in rows}
    assert list(answer_kl) == ["full", "direct", "random", "cacheclip-trained", "combined"]
    assert answer_kl["full"] == 0 and 0 < answer_kl["combined"] < answer_kl["direct"]
    assert percent["full"] == 100 and percent["direct"] == 0 and 15 <= percent["combined"] <= 20


def test_fields_of_a_custom_strategy_are_parameters():
    assert [param.name for param in list_params(custom_strategy.CombinedWindows)] == ["ratio"]
    with pytest.raises(ValueError, match="1"):
        custom_strategy.CombinedWindows(1.5)
