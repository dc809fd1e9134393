"""Run a program and kill it with SIGKILL in the middle of its work."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_DELAY = 0.05  # seconds: the work that is killed takes a few tenths of one


def kill_at_stage(program, *arguments, stage, seed):
    """Run a program that prints the stages it reaches; kill it at a random moment shortly after `stage`."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.strip() == stage:
                break
        time.sleep(random.Random(seed).uniform(0, MAX_DELAY))
        os.kill(process.pid, signal.SIGKILL)
        process.stdout.read()


def kills(*stages, num_slow=25):
    """Return parameters (seed, stage): one kill per stage in the default run, `num_slow` kills with the slow ones."""
    return [
        pytest.param(seed, stages[seed % len(stages)], marks=[pytest.mark.slow] if seed >= len(stages) else [])
        for seed in range(num_slow)
    ]
