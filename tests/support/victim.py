"""A process that is killed with SIGKILL in the middle of its work."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def killed(program, *arguments, stage, seed):
    """Run a program that prints each stage it comes to, and kill it within 0.15 s of one of them."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as victim:
        for line in victim.stdout:
            if line.strip() == stage:
                break
        time.sleep(random.Random(seed).uniform(0, 0.15))
        os.kill(victim.pid, signal.SIGKILL)
        victim.stdout.read()
