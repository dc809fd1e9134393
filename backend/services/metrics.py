"""Request metrics for Prometheus. Names are vLLM's wherever their meaning applies.

Each request is counted once, when it ends, whether it came from the UI, the Gradio API or the HTTP API.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from backend.interface.backend import TierUsage
from backend.interface.cache import KVServerUsage
from engine.request import Answer

MODEL = "model_name"  # vLLM's label; here kvscope/<method>, as in the list of models
TTFT_S = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0)
TOKEN_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
LATENCY_S = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
HISTOGRAMS = {  # description and buckets by name
    "vllm:time_to_first_token_seconds": ("Time to first token, with retrieval.", TTFT_S),
    "vllm:e2e_request_latency_seconds": ("Time from request to last token.", LATENCY_S),
    "vllm:request_queue_time_seconds": ("Time waiting for the model.", LATENCY_S),
    "vllm:request_decode_time_seconds": ("Time decoding, after the first token.", LATENCY_S),
    "vllm:request_time_per_output_token_seconds": ("Mean time per token of a request, after the first.", TOKEN_S),
}
COUNTERS = {  # description and labels after the model's, by name
    "vllm:request_success": ("Finished requests.", ["finished_reason"]),
    "vllm:prompt_tokens": ("Prompt tokens.", []),
    "vllm:prompt_tokens_cached": ("Prompt tokens whose cached KV was reused.", []),
    "vllm:generation_tokens": ("Generated tokens.", []),
    "vllm:prefix_cache_queries": ("Passage tokens looked up.", []),
    "vllm:prefix_cache_hits": ("Passage tokens in exact prefix hits.", []),
    "kvscope:passage_tokens": ("Passage tokens by cache result; unused: full prefill.", ["found"]),
    "kvscope:recomputed_tokens": ("Recomputed passage tokens.", []),
    "kvscope:engine_requests": ("Requests that an engine of a cluster answered.", ["engine"]),
    "kvscope:drafts": ("Drafts by what verification found.", ["status"]),
    "kvscope:stage_seconds": ("Time in each stage; stages overlap.", ["stage"]),
}
KV_SERVER_COUNTERS = {  # description by name; since the models were loaded
    "hits": "Passages read from the KV server.",
    "misses": "Passages that were not on the KV server, or that it delivered too late.",
    "read_bytes": "Bytes of chunk KV read from the KV server.",
    "written_bytes": "Bytes of chunk KV written to the KV server.",
    "failures": "Times that the KV server did not answer.",
}
STAGE_HISTOGRAMS = {"queue": "vllm:request_queue_time_seconds", "decode": "vllm:request_decode_time_seconds"}
CACHE_RESULTS = {"exact prefix hit": "exact", "chunk hit": "chunk", "miss": "missed", "none": "unused"}


class Metrics:
    """Counts requests.

    tier_usage  returns the cache tiers, fastest first
    kernels     returns what attends and what decodes
    kv_server   returns the use of the KV server; None without one
    """

    def __init__(
        self,
        tier_usage: Callable[[], list[TierUsage]],
        kernels: Callable[[], tuple[str, str]] = lambda: ("", ""),
        kv_server: Callable[[], KVServerUsage | None] = lambda: None,
    ) -> None:
        self._tier_usage = tier_usage
        self._kernels = kernels
        self._answers: dict[object, Answer | None] = {}  # of the running requests
        self._registry = registry = CollectorRegistry()
        self._histograms = {
            name: Histogram(name, text, [MODEL], buckets=buckets, registry=registry)
            for name, (text, buckets) in HISTOGRAMS.items()
        }
        self._counters = {
            name: Counter(name, text, [MODEL, *labels], registry=registry) for name, (text, labels) in COUNTERS.items()
        }
        self._failures = Counter("kvscope:request_failures", "Requests that failed.", ["error"], registry=registry)
        gauge = partial(Gauge, registry=registry)
        self._running = gauge("vllm:num_requests_running", "Requests in prefill or decode.")
        self._waiting = gauge("vllm:num_requests_waiting", "Requests in retrieval or waiting for the model.")
        self._cache_usage = gauge("vllm:kv_cache_usage_perc", "Used fraction of the fastest tier, 0 to 1.")
        self._tier_bytes = gauge("kvscope:kv_bytes", "Bytes of chunk KV.", ["tier"])
        self._kernel_info = [
            gauge(f"kvscope:{name.lower()}_info", f"{name} on the CPU, and why.", ["reason"])
            for name in ("Attention", "Decoding")
        ]
        self._tier_budgets = gauge("kvscope:kv_budget_bytes", "Budget for chunk KV.", ["tier"])
        registry.register(_KVServerCollector(kv_server))

    @contextmanager
    def track(self) -> Iterator[Callable[[Answer], Answer]]:
        """Count the enclosed request when it ends: finished, stopped, abandoned or failed.

        Yields a function that remembers the engine's answer, which keeps growing, and returns a copy to show.
        """
        request = object()
        start = time.monotonic()
        self._answers[request] = None

        def update(answer: Answer) -> Answer:
            self._answers[request] = answer
            return copy(answer)

        try:
            yield update
        except Exception as error:
            self._answers[request] = None
            self._failures.labels(type(error).__name__).inc()
            raise
        finally:
            if (answer := self._answers.pop(request)) is not None:
                self._count(answer, time.monotonic() - start)

    def render(self) -> str:
        tiers = self._tier_usage()
        self._tier_bytes.clear()  # of tiers that are not there any more
        self._tier_budgets.clear()
        for tier in tiers:
            self._tier_bytes.labels(tier.tier).set(tier.size_bytes)
            self._tier_budgets.labels(tier.tier).set(tier.budget_bytes)
        fastest = tiers[0] if tiers and tiers[0].budget_bytes else None
        self._cache_usage.set(fastest.size_bytes / fastest.budget_bytes if fastest else 0.0)
        for info, reason in zip(self._kernel_info, self._kernels(), strict=True):
            info.clear()
            if reason:
                info.labels(reason).set(1)
        is_waiting = [_is_waiting(answer) for answer in list(self._answers.values())]
        self._waiting.set(is_waiting.count(True))
        self._running.set(is_waiting.count(False))
        lines = generate_latest(self._registry).decode().splitlines(keepends=True)
        return "".join(line for line in lines if "_created" not in line)  # the start time of each metric

    def _count(self, answer: Answer, seconds: float) -> None:
        model, trace = f"kvscope/{answer.request.method}", answer.trace

        def observe(name: str, value: float) -> None:
            self._histograms[name].labels(model).observe(value)

        def count(name: str, value: float, *labels: str) -> None:
            self._counters[name].labels(model, *labels).inc(value)

        reason = ("length" if answer.truncated else "stop") if answer.state == "done" else "abort"
        count("vllm:request_success", 1, reason)
        observe("vllm:e2e_request_latency_seconds", seconds)
        if trace.ttft_ms is not None:
            observe("vllm:time_to_first_token_seconds", trace.ttft_ms / 1e3)
        if answer.tokens_per_second:
            observe("vllm:request_time_per_output_token_seconds", 1 / answer.tokens_per_second)
        for stage in trace.stages:
            count("kvscope:stage_seconds", stage.length_ms / 1e3, stage.name)
            if stage.name in STAGE_HISTOGRAMS:
                observe(STAGE_HISTOGRAMS[stage.name], stage.length_ms / 1e3)
        if answer.engine:
            count("kvscope:engine_requests", 1, answer.engine)
        if answer.draft_status:
            count("kvscope:drafts", 1, answer.draft_status)
        count("vllm:prompt_tokens", answer.prompt_tokens)
        count("vllm:generation_tokens", answer.new_tokens)
        count("kvscope:recomputed_tokens", answer.recomputed_tokens)
        for source in answer.sources:
            result = CACHE_RESULTS[source.cache_result]
            count("kvscope:passage_tokens", source.tokens, result)
            count("vllm:prompt_tokens_cached", source.reused_tokens)
            if result != "unused":
                count("vllm:prefix_cache_queries", source.tokens)
                count("vllm:prefix_cache_hits", source.tokens if result == "exact" else 0)


class _KVServerCollector(Collector):
    """The use of the KV server; nothing without one."""

    def __init__(self, kv_server: Callable[[], KVServerUsage | None]) -> None:
        self._kv_server = kv_server

    def collect(self) -> Iterator[Metric]:
        if (server := self._kv_server()) is None:
            return
        yield GaugeMetricFamily("kvscope:kv_server_up", "Whether the KV server works.", not server.error)
        for name, text in KV_SERVER_COUNTERS.items():
            yield CounterMetricFamily(f"kvscope:kv_server_{name}", text, getattr(server, name))


def _is_waiting(answer: Answer | None) -> bool:
    """Return whether a request has not run on the model yet."""
    if answer is None:
        return True
    if answer.answered_by:
        return answer.state == "searching"
    return answer.trace.ttft_ms is None and all(stage.name != "queue" for stage in answer.trace.stages)
