"""The example in docs/ stays what it says: a method of one's own goes the way of ours."""

import re

import pytest

from engine.method import params_of
from examples import custom_strategy as own_method
from tests.support.doubles import engine


def test_a_method_of_ones_own_stands_beside_ours_and_spends_its_budget(monkeypatch, capsys):
    monkeypatch.setattr(own_method, "open_engine", lambda config: engine())
    own_method.main()
    told, *rows = capsys.readouterr().out.splitlines()
    assert "chief engineer" in told
    away = {row.split("@")[0]: float(re.search(r"answer (\d\.\d{4})", row)[1]) for row in rows}
    shares = {row.split("@")[0]: int(re.search(r"(\d+)% recomputed", row)[1]) for row in rows}
    assert list(away) == ["full", "direct", "random", "cacheclip-trained", "agreed"]
    assert away["full"] == 0 and 0 < away["agreed"] < away["direct"]
    assert shares["full"] == 100 and shares["direct"] == 0 and 15 <= shares["agreed"] <= 20


def test_its_fields_are_settings_as_ours_are():
    assert [setting.name for setting in params_of(own_method.Agreed)] == ["ratio"]
    with pytest.raises(ValueError, match="1"):
        own_method.Agreed(1.5)
