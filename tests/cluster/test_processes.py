"""Processes that are started again, and the command line of a cluster."""

import os
import subprocess
import sys
import time
from threading import Thread

import psutil
import pytest

from backend.runtime.settings import read_settings
from cluster.__main__ import _running, _without, main
from cluster.processes import FOLDER_VARIABLE, Supervised, end_all

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
    (child,) = wait_for(psutil.Process(first).children)  # it runs by now
    assert psutil.Process(first).environ()["A_SECRET"] == "x" and "A_SECRET" not in os.environ
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


def test_a_process_that_cannot_be_started_is_tried_again(monkeypatch, caplog):
    supervised = Supervised("It", ["no such program"])
    supervised.check()
    assert supervised.process is None and "It cannot be started" in caplog.text
    first = supervised.restart_at
    monkeypatch.setattr("cluster.processes.time.monotonic", lambda: first)
    supervised.command = [sys.executable, "-c", ""]
    supervised.check()
    assert supervised.process.wait() == 0


def test_what_a_killed_cluster_has_left_running_is_ended(tmp_path, monkeypatch):
    left = subprocess.Popen([sys.executable, "-c", SLEEP], env={**os.environ, FOLDER_VARIABLE: str(tmp_path)})
    other = subprocess.Popen([sys.executable, "-c", SLEEP], env={**os.environ, FOLDER_VARIABLE: str(tmp_path / "b")})
    for each in (left, other):
        wait_for(lambda each=each: "time.sleep" in " ".join(psutil.Process(each.pid).cmdline()))  # it runs by now
    waiting = Thread(target=left.wait)
    waiting.start()
    monkeypatch.setattr(sys, "argv", ["cluster", "down", "--data", str(tmp_path)])
    assert main() == 0
    waiting.join(20)
    assert not psutil.pid_exists(left.pid) and other.poll() is None
    assert main() == 1  # now there is none
    other.kill()
    other.wait()


@pytest.mark.parametrize("content", ["", "x", "0", "1", "999999999"])
def test_a_pid_file_of_another_process_names_no_cluster(tmp_path, content):
    file = tmp_path / "cluster.pid"
    assert _running(file) is None
    file.write_text(content)
    assert _running(file) is None


def test_down_ends_the_process_of_up(tmp_path, monkeypatch):
    up = subprocess.Popen([sys.executable, "-c", SLEEP, "cluster"])
    wait_for(lambda: "cluster" in psutil.Process(up.pid).cmdline())  # it runs by now
    (tmp_path / "cluster.pid").write_text(str(up.pid))
    monkeypatch.setattr(sys, "argv", ["cluster", "down", "--data", str(tmp_path)])
    waiting = Thread(target=up.wait)  # or it would stay as a zombie
    waiting.start()
    assert main() == 0
    waiting.join(20)
    assert not psutil.pid_exists(up.pid)  # its exit status is lost if psutil waits for it before `waiting` does


def test_up_passes_secrets_on_and_gives_the_page_and_the_library_a_key(tmp_path, monkeypatch):
    started = {}

    def run_engines(arguments, settings, given, processes, begun):
        started.update({process.name: process for process in processes})
        assert settings.kv_server == "redis://box:1" and given.kv_server_password == "p"

    monkeypatch.setattr("cluster.__main__._run_engines", run_engines)
    monkeypatch.setenv("KVSCOPE_KV_SERVER_PASSWORD", "p")
    monkeypatch.setenv("KVSCOPE_ANSWER_SERVER_KEY", "k")
    monkeypatch.setenv("KVSCOPE_API_KEYS", "a key of a client")
    options = ["--data", str(tmp_path), "--port", "7871", "--kv-server", "redis://box:1", "--dtype", "fp32"]
    monkeypatch.setattr(sys, "argv", ["cluster", "up", *options])
    assert main() == 0 and started.keys() == {"Chroma", "The library", "The page"}
    page, library = started["The page"], started["The library"]
    assert page.environment["KVSCOPE_LIBRARY_KEY"] == library.environment["KVSCOPE_LIBRARY_KEY"] != ""
    assert (
        page.environment["KVSCOPE_KV_SERVER_PASSWORD"] == "p" and page.environment["KVSCOPE_ANSWER_SERVER_KEY"] == "k"
    )
    assert page.environment["KVSCOPE_API_KEYS"] == "a key of a client" and "KVSCOPE_API_KEYS" not in os.environ
    assert "KVSCOPE_API_KEYS" not in library.environment
    for process in (page, library):
        settings = read_settings([each for each in process.command[3:] if each != "library"])
        assert settings.dtype == "fp32" and settings.kv_server == "redis://box:1"
    assert read_settings(page.command[3:]).library and read_settings(library.command[4:]).chroma
    assert not (tmp_path / "cluster.pid").exists()


def test_options_are_left_out_with_their_values():
    options = ["--data", "x", "--model=m", "--port=1", "--dtype", "fp32"]
    assert _without(options, "data", "port") == ["--model=m", "--dtype", "fp32"]
    assert _without(["--data-dir", "x", "--data_dir=y", "--port", "1"], "data") == ["--port", "1"]


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
