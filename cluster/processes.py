"""Processes on this machine that are started again when they end."""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

RESTART_S, MAX_RESTART_S = 0.3, 30.0  # from the end of a process to its next start; longer each time it ends early
EARLY_S = 10.0  # after its start
END_S = 10.0  # to end by itself, before it is killed
FOLDER_VARIABLE = "KVSCOPE_CLUSTER_FOLDER"  # marks the processes of a cluster
log = logging.getLogger("kvscope")


@dataclass
class Supervised:
    """A command that is kept running."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_quiet: bool = False  # its standard output is of no interest
    process: "subprocess.Popen[bytes] | None" = None
    started_at: float = 0.0
    restart_at: float = 0.0
    wait_s: float = 0.0

    def check(self) -> None:
        """Start the process if it does not run; again only after RESTART_S."""
        if self.process is not None and self.process.poll() is not None:
            log.warning("%s ended (exit status %d) and is started again", self.name, self.process.returncode)
            is_early = time.monotonic() < self.started_at + EARLY_S
            self.wait_s = _longer(self.wait_s) if is_early else RESTART_S
            self.process, self.restart_at = None, time.monotonic() + self.wait_s
        if self.process is None and time.monotonic() >= self.restart_at:
            self.started_at = time.monotonic()
            environment = {**os.environ, **self.environment}
            output = subprocess.DEVNULL if self.is_quiet else None
            try:
                self.process = subprocess.Popen(self.command, env=environment, stdout=output, start_new_session=True)
            except OSError as error:
                log.error("%s cannot be started: %s", self.name, error)
                self.wait_s = _longer(self.wait_s)
                self.restart_at = self.started_at + self.wait_s


def _longer(wait_s: float) -> float:
    return min(max(2 * wait_s, RESTART_S), MAX_RESTART_S)


def end_all(supervised: Sequence[Supervised]) -> None:
    """End the processes, the last one first; those that do not end are killed with their children."""
    for each in reversed(supervised):
        if each.process is not None:
            each.process.terminate()
    deadline = time.monotonic() + END_S
    for each in reversed(supervised):
        if each.process is not None:
            with suppress(subprocess.TimeoutExpired):
                each.process.wait(max(0.0, deadline - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(each.process.pid, signal.SIGKILL)  # each has a group of its own


def end_left(folder: Path) -> list[int]:
    """Kill what a cluster in this folder has left running because it was killed itself; return the process ids."""
    left = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
            if process.environ().get(FOLDER_VARIABLE) == str(folder):
                process.kill()
                left.append(process)
    psutil.wait_procs(left, END_S)
    return [process.pid for process in left]
