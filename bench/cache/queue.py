"""Simulate a loaded queue: largest cached fraction first, against first come, first served.

The scheduling rule is the engine's (engine.scheduler.scheduler); arrivals are Poisson; each request takes
T(cached, computed) at the time it is served.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from bench.cache.simulate import SimulatedCache
from bench.cache.workload import RequestStream
from engine.scheduler.scheduler import WaitingRequest, pop_next


@dataclass(frozen=True, slots=True)
class QueueResult:
    """Result of one simulation.

    ttft_ms    of each request, waiting included
    max_skips  largest number of times that one request was skipped
    busy_ms    from the first arrival to the last first token
    hit_rate   by tokens
    """

    ttft_ms: list[float]
    max_skips: int
    busy_ms: float
    hit_rate: float


def simulate_queue(
    cache: SimulatedCache, stream: RequestStream, questions: int, gap_ms: float, window: int, seed: int
) -> QueueResult:
    """Serve requests that arrive `gap_ms` apart on average; none is skipped more than `window` times."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(gap_ms, questions))
    requests = list(stream.questions(questions))
    waiting: list[WaitingRequest] = []
    number_of: dict[int, int] = {}
    now, arrived, hit_tokens, tokens, max_skips = 0.0, 0, 0, 0, 0
    ttft: list[float] = []
    while arrived < questions or waiting:
        now = now if waiting else max(now, arrivals[arrived])
        while arrived < questions and arrivals[arrived] <= now:
            waiting.append(WaitingRequest(partial(cache.lengths, requests[arrived])))
            number_of[id(waiting[-1])] = arrived
            arrived += 1
        request = pop_next(waiting, window)
        number = number_of.pop(id(request))
        served = cache.serve(requests[number])
        now += served.ttft_ms
        ttft.append(now - arrivals[number])
        hit_tokens += served.hit_tokens
        tokens += served.tokens
        max_skips = max(max_skips, request.times_skipped)
    return QueueResult(ttft, max_skips, now - float(arrivals[0]), hit_tokens / tokens)
