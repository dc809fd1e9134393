"""Threads that live on keep no OpenMP team: idle teams slow down the passes of all other threads."""

import subprocess
import sys

import pytest

COUNT = """
import os, time
from threading import Event, Thread
import torch
from backend.runtime.tasks import TaskRegistry
from engine.cache.hierarchy import WriteBehind
from engine.openmp import release_team
from engine.types import ChunkKV

def compute(*_):
    torch.rand(1_000_000).exp()
    return len(os.listdir("/proc/self/task"))

def remaining(expected):  # an ended thread may still be listed for a moment
    deadline = time.monotonic() + 10
    while (found := len(os.listdir("/proc/self/task"))) > expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return found

class Computing:  # a store
    put = compute

def between_questions():
    with TaskRegistry().between_questions(Event()):
        compute()

def idle_work():
    with TaskRegistry().track_idle_work(Event()):
        compute()

torch.set_num_threads(2)
alone = len(os.listdir("/proc/self/task"))
assert compute() > alone
release_team()
assert remaining(alone) == alone
for work in (between_questions, idle_work):
    work()
    assert remaining(alone) == alone, work
writer = WriteBehind(Computing(), print)
writer.put("key", ChunkKV(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1), 0), None)
writer.drain()
assert remaining(alone + 1) == alone + 1
print("right")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="torch has libgomp on Linux")
def test_work_of_threads_that_live_on_leaves_no_team():
    result = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=False, timeout=120)
    assert result.stdout.endswith("right\n"), result.stderr
