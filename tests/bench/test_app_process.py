"""Measures of the whole application, in a process of its own."""

import json
import sys

import pytest

from bench.__main__ import main
from bench.errors import InvalidArgument
from bench.harness import app_process
from bench.harness.app_process import AppProcess


def test_an_app_that_ends_is_reported_with_its_log(monkeypatch, tmp_path):
    program = tmp_path / "app.py"
    program.write_text("raise SystemExit('no such device')")
    monkeypatch.setattr(app_process, "APP", program)
    with AppProcess(tmp_path) as app, pytest.raises(InvalidArgument, match=r"app\.log"):
        app.wait_for("/healthz", "ok")
    assert (tmp_path / "app.log").read_text() == "no such device\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", [["startup"], ["uploads", "--words", "2000", "--pause", "0"]])
def test_the_application_is_measured(monkeypatch, tmp_path, command):
    rows = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["bench", *command, "--num-samples", "2", "--json", str(rows)])
    assert main() == 0
    (row,) = json.loads(rows.read_text())
    assert row["n"] >= 1 and all(value > 0 for value in row.values())


@pytest.mark.slow
def test_kills_lose_nothing(monkeypatch, tmp_path):
    rows = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["bench", "faults", "--kills", "4", "--json", str(rows)])
    assert main() == 0
    (row,) = json.loads(rows.read_text())
    assert row["acknowledged"] > 0
    assert row["lost"] == row["wrong"] == row["failed_starts"] == 0
