"""A loaded queue in front of the engine, simulated: the largest cached share first, against first come, first served.

The choice is the engine's own (engine.scheduler.scheduler); arrivals are Poisson; each question takes what
T(cached, computed) says at the moment that it is served.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from bench.cache.simulate import SimulatedCache
from bench.cache.workload import RequestStream
from engine.scheduler.scheduler import WaitingRequest, pop_next


@dataclass(frozen=True, slots=True)
class QueueResult:
    """ttft_ms   of each question, waiting included
    overtaken  most often that one question was overtaken
    busy_ms    from the first arrival to the last first token
    hit_rate   by tokens
    """

    ttft_ms: list[float]
    times_skipped: int
    busy_ms: float
    hit_rate: float


def simulate_queue(
    reuse: SimulatedCache, demand: RequestStream, questions: int, gap_ms: float, window: int, seed: int
) -> QueueResult:
    """Serve questions that arrive `gap_ms` apart on average; nobody is overtaken more than `window` times."""
    draw = np.random.default_rng(seed)
    arrivals = np.cumsum(draw.exponential(gap_ms, questions))
    asked = list(demand.questions(questions))
    line: list[WaitingRequest] = []
    who: dict[int, int] = {}
    now, coming, hit, tokens, ttft, overtaken = 0.0, 0, 0, 0, [], 0
    while coming < questions or line:
        now = now if line else max(now, arrivals[coming])
        while coming < questions and arrivals[coming] <= now:
            line.append(WaitingRequest(partial(reuse.lengths, asked[coming])))
            who[id(line[-1])] = coming
            coming += 1
        request = pop_next(line, window)
        number = who.pop(id(request))
        served = reuse.serve(asked[number])
        now += served.ttft_ms
        ttft.append(now - arrivals[number])
        hit, tokens, overtaken = hit + served.hit_tokens, tokens + served.tokens, max(overtaken, request.times_skipped)
    return QueueResult(ttft, overtaken, now - float(arrivals[0]), hit / tokens)
