"""Request metrics for Prometheus. Names are vLLM's wherever their meaning applies.

Each request is counted once, when it ends, whether it came from the UI, the Gradio API or the HTTP API.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from backend.interface.backend import TierUsage
from engine.request import Answer

MODEL = "model_name"  # vLLM's label; here kvscope/<method>, as in the list of models
TTFT_S = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0)
TOKEN_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
LATENCY_S = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
CACHE_RESULTS = {"exact prefix hit": "exact", "chunk hit": "chunk", "miss": "missed", "none": "unused"}


class TrackedRequest:
    """A running request."""

    def __init__(self) -> None:
        self.answer: Answer | None = None

    def update(self, answer: Answer) -> Answer:
        """Remember the engine's answer, which keeps growing, and return a copy to show."""
        self.answer = answer
        return copy(answer)

    @property
    def is_waiting(self) -> bool:
        """Whether the request has not run on the model yet."""
        if self.answer is None:
            return True
        trace = self.answer.trace
        return trace.ttft_ms is None and not any(stage.name == "queue" for stage in trace.stages)


class Metrics:
    """Counts requests.

    tier_usage  returns the cache tiers, fastest first
    clock       seconds, monotonic
    """

    def __init__(self, tier_usage: Callable[[], list[TierUsage]], clock: Callable[[], float] = time.monotonic) -> None:
        self._tier_usage = tier_usage
        self._clock = clock
        self._tracked: set[TrackedRequest] = set()
        self._registry = registry = CollectorRegistry()

        def counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(name, description, labels, registry=registry)

        def gauge(name: str, description: str, *labels: str) -> Gauge:
            return Gauge(name, description, labels, registry=registry)

        def histogram(name: str, description: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, description, (MODEL,), registry=registry, buckets=buckets)

        self._finished = counter("vllm:request_success", "Finished requests.", MODEL, "finished_reason")
        self._ttft = histogram("vllm:time_to_first_token_seconds", "Time to first token, with retrieval.", TTFT_S)
        self._latency = histogram("vllm:e2e_request_latency_seconds", "Time from request to last token.", LATENCY_S)
        self._queue_time = histogram("vllm:request_queue_time_seconds", "Time waiting for the model.", LATENCY_S)
        self._decode_time = histogram(
            "vllm:request_decode_time_seconds", "Time decoding, after the first token.", LATENCY_S
        )
        self._time_per_token = histogram(
            "vllm:request_time_per_output_token_seconds", "Mean time per token of a request, after the first.", TOKEN_S
        )
        self._prompt_tokens = counter("vllm:prompt_tokens", "Prompt tokens.", MODEL)
        self._cached_tokens = counter("vllm:prompt_tokens_cached", "Prompt tokens whose cached KV was reused.", MODEL)
        self._generation_tokens = counter("vllm:generation_tokens", "Generated tokens.", MODEL)
        self._prefix_queries = counter("vllm:prefix_cache_queries", "Passage tokens looked up.", MODEL)
        self._prefix_hits = counter("vllm:prefix_cache_hits", "Passage tokens in exact prefix hits.", MODEL)
        self._passage_tokens = counter(
            "kvscope:passage_tokens", "Passage tokens by cache result; unused: full prefill.", MODEL, "found"
        )
        self._recomputed_tokens = counter("kvscope:recomputed_tokens", "Recomputed passage tokens.", MODEL)
        self._stage_time = counter("kvscope:stage_seconds", "Time in each stage; stages overlap.", MODEL, "stage")
        self._failures = counter("kvscope:request_failures", "Requests that failed.", "error")
        self._running = gauge("vllm:num_requests_running", "Requests in prefill or decode.")
        self._waiting = gauge("vllm:num_requests_waiting", "Requests in retrieval or waiting for the model.")
        self._cache_usage = gauge("vllm:kv_cache_usage_perc", "Used fraction of the fastest tier, 0 to 1.")
        self._tier_bytes = gauge("kvscope:kv_bytes", "Bytes of chunk KV.", "tier")
        self._tier_budgets = gauge("kvscope:kv_budget_bytes", "Budget for chunk KV.", "tier")

    @contextmanager
    def track(self) -> Iterator[TrackedRequest]:
        """Count the enclosed request when it ends: finished, stopped, abandoned or failed."""
        request, start = TrackedRequest(), self._clock()
        self._tracked.add(request)
        try:
            yield request
        except Exception as error:
            request.answer = None
            self._failures.labels(type(error).__name__).inc()
            raise
        finally:
            self._tracked.discard(request)
            if request.answer is not None:
                self._count(request.answer, self._clock() - start)

    def render(self) -> str:
        """Return all metrics in the Prometheus text format 0.0.4."""
        tiers = self._tier_usage()
        for tier in tiers:
            self._tier_bytes.labels(tier.tier).set(tier.size_bytes)
            self._tier_budgets.labels(tier.tier).set(tier.budget_bytes)
        fastest = tiers[0] if tiers and tiers[0].budget_bytes else None
        self._cache_usage.set(fastest.size_bytes / fastest.budget_bytes if fastest else 0.0)
        waiting = sum(request.is_waiting for request in list(self._tracked))
        self._waiting.set(waiting)
        self._running.set(len(self._tracked) - waiting)
        lines = generate_latest(self._registry).decode().splitlines(keepends=True)
        return "".join(line for line in lines if "_created" not in line)  # the start time of each metric

    def _count(self, answer: Answer, seconds: float) -> None:
        model, trace = f"kvscope/{answer.request.method}", answer.trace
        reason = ("length" if answer.truncated else "stop") if answer.state == "done" else "abort"
        self._finished.labels(model, reason).inc()
        self._latency.labels(model).observe(seconds)
        if trace.ttft_ms is not None:
            self._ttft.labels(model).observe(trace.ttft_ms / 1e3)
        if answer.tokens_per_second:
            self._time_per_token.labels(model).observe(1 / answer.tokens_per_second)
        for stage in trace.stages:
            self._stage_time.labels(model, stage.name).inc(stage.length_ms / 1e3)
            if stage.name == "queue":
                self._queue_time.labels(model).observe(stage.length_ms / 1e3)
            if stage.name == "decode":
                self._decode_time.labels(model).observe(stage.length_ms / 1e3)
        self._prompt_tokens.labels(model).inc(answer.prompt_tokens)
        self._generation_tokens.labels(model).inc(answer.new_tokens)
        self._recomputed_tokens.labels(model).inc(answer.recomputed_tokens)
        for source in answer.sources:
            result = CACHE_RESULTS[source.cache_result]
            self._passage_tokens.labels(model, result).inc(source.tokens)
            self._cached_tokens.labels(model).inc(source.reused_tokens)
            if result != "unused":
                self._prefix_queries.labels(model).inc(source.tokens)
                self._prefix_hits.labels(model).inc(source.tokens if result == "exact" else 0)
