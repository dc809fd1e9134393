"""Choose how many threads run a decoding step, by the time that steps take.

Threads of a step wait for one another, so a step takes as long as its slowest thread. Where another process keeps a
core busy, fewer threads are faster.
"""

from collections import deque
from statistics import median

PROBE_STEPS = 32  # every so many steps, one runs with half or twice the threads
COMPARED_STEPS = 8  # whose median the probe is compared with
MIN_GAIN = 0.9  # of the median time that a probe may take to be preferred


class ThreadChoice:
    """Threads of the next step, up to a maximum; of steps with the same work, the faster number wins."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._current = maximum
        self._times: dict[int, deque[float]] = {}  # of steps with the current number, in seconds, by their work
        self._steps = 0
        self._probes_half = True

    def next(self) -> int:
        """Return the number of threads for the next step; call `record` with it after the step."""
        self._steps += 1
        if self._steps < PROBE_STEPS:
            return self._current
        self._steps = 0
        self._probes_half = self._current == self.maximum or not (self._probes_half or self._current == 1)
        return max(1, self._current // 2) if self._probes_half else min(self.maximum, 2 * self._current)

    def record(self, threads: int, work: int, seconds: float) -> None:
        """Take note of how long a step took; only steps with the same `work` are compared."""
        times = self._times.setdefault(work, deque(maxlen=COMPARED_STEPS))
        if threads != self._current:
            if len(times) < COMPARED_STEPS or seconds > MIN_GAIN * median(times):
                return
            self._current = threads
            self._times.clear()
            return
        times.append(seconds)
