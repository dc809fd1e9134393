"""Processes that are started again, and the command line of a cluster."""

import os
import sys
import time

import psutil
import pytest

from cluster.__main__ import _running, _without, main
from cluster.processes import Supervised, end_all

SLEEP = "import time; time.sleep(99)"
CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{SLEEP}']); {SLEEP}"


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not (result := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return result


def test_a_process_that_ends_is_started_again_after_a_while_and_all_end_with_their_children(monkeypatch):
    monkeypatch.setattr("cluster.processes.RESTART_S", 0.2)
    supervised = Supervised("It", [sys.executable, "-c", CHILD], {"A_SECRET": "x"})
    supervised.check()
    first = supervised.process.pid
    assert psutil.Process(first).environ()["A_SECRET"] == "x" and "A_SECRET" not in os.environ
    (child,) = wait_for(psutil.Process(first).children)
    psutil.Process(first).kill()
    supervised.process.wait()
    supervised.check()
    assert supervised.process is None
    child.kill()
    time.sleep(0.25)
    supervised.check()
    second = supervised.process.pid
    assert second != first
    (child,) = wait_for(psutil.Process(second).children)
    end_all([supervised])
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    assert supervised.process.poll() is not None


@pytest.mark.parametrize("content", ["", "x", "0", "1", "999999999"])
def test_a_pid_file_of_another_process_names_no_cluster(tmp_path, content):
    file = tmp_path / "cluster.pid"
    assert _running(file) is None
    file.write_text(content)
    assert _running(file) is None


def test_options_are_left_out_with_their_values():
    options = ["--data", "x", "--model=m", "--port=1", "--dtype", "fp32"]
    assert _without(options, "--data", "--port") == ["--model=m", "--dtype", "fp32"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["down"], "No cluster runs"),
        (["library"], "needs a key in KVSCOPE_LIBRARY_KEY"),
        (["library", "--port", "x"], "--port"),
    ],
)
def test_errors_have_a_message(tmp_path, arguments, message, monkeypatch, caplog):
    monkeypatch.setattr(sys, "argv", ["cluster", *arguments, "--data", str(tmp_path)])
    assert main() == 1 and message in caplog.text
