"""Comparing with other programs: paired ratios, and a process for each peer."""

import json
import sys
from argparse import Namespace

import pytest

from bench.__main__ import main
from bench.errors import InvalidArgument
from bench.measures import peers


def measured(prefill_ms, tokens_per_s):
    return {"prefill_ms": prefill_ms, "ttft_ms": prefill_ms + 1, "tokens_per_s": tokens_per_s, "rss_mb": 500.0}


def test_a_row_pairs_a_peer_with_kvscope_in_each_round():
    rounds = [
        {"kvscope": measured(100.0, 50.0), "other": measured(300.0, 100.0)},
        {"kvscope": measured(200.0, 40.0), "other": measured(400.0, 20.0)},
        {"kvscope": measured(100.0, 50.0), "other": measured(250.0, 50.0)},
    ]
    row = peers._row("other", 64, rounds)
    assert (row["prefill_ms"], row["ttft_ms"], row["tokens_per_s"], row["n"]) == (300.0, 301.0, 50.0, 3)
    assert (row["prefill_ratio"], row["decode_ratio"]) == (2.5, 1.0)
    assert row["prefill_ratio_low"] <= 2.5 <= row["prefill_ratio_high"]
    assert peers._row("kvscope", 64, rounds)["prefill_ratio"] == 1.0


def test_only_the_bundled_model_has_peers():
    with pytest.raises(InvalidArgument, match="bundled model"):
        peers.run(Namespace(model="other"))


@pytest.mark.slow
def test_peers_run_in_processes_of_their_own(monkeypatch, tmp_path):
    rows = tmp_path / "rows.json"
    command = ["bench", "peers", "--context-lengths", "64", "--num-samples", "1", "--json", str(rows)]
    monkeypatch.setattr(sys, "argv", command)
    assert main() == 0
    found = {row["peer"]: row for row in json.loads(rows.read_text())}
    assert {"kvscope", "kvscope 20%", "transformers"} <= found.keys()
    assert all(row["prefill_ms"] > 0 and row["tokens_per_s"] > 1 and row["rss_mb"] > 100 for row in found.values())


def test_memory_is_the_peak_of_the_process_without_that_of_the_one_that_started_it(tmp_path, monkeypatch):
    """Linux hands on the peak that getrusage reports; the status of the process starts from 0."""
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t  99999 kB\nVmHWM:\t  250000 kB\nVmRSS:\t  1 kB\n")
    monkeypatch.setattr(peers, "STATUS", status)
    assert peers._peak_mb() == pytest.approx(256.0)
