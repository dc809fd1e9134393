"""What is counted of every question, for Prometheus. Names are vLLM's where what they mean there is true here.

A question is counted once, when it ends, wherever it came from. Metrics live in a registry of their own, one a meter.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.registry import Collector

from backend.interface.backend import TierUsage
from engine.request import Answer

MODEL = "model_name"  # vLLM's label; here kvscope/<method>, as in the list of models
TTFT_S = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0)
TOKEN_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
LONG_S = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
FOUND = {"exact prefix hit": "exact", "chunk hit": "chunk", "miss": "missed", "none": "unused"}


class Plain(Collector):
    """A registry without the time at which each metric began: half of the lines, and nobody asks for them."""

    def __init__(self) -> None:
        self.all = CollectorRegistry()

    def collect(self) -> Iterator[Metric]:
        for metric in self.all.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class Question:
    """One question under way, as far as it is known."""

    def __init__(self) -> None:
        self.answer: Answer | None = None

    def note(self, answer: Answer) -> Answer:
        """Remember the engine's own answer, which goes on growing, and return a copy of it to show."""
        self.answer = answer
        return copy(answer)

    @property
    def waits(self) -> bool:
        """Whether it has not had its turn with the model yet."""
        if self.answer is None:
            return True
        trace = self.answer.trace
        return trace.ttft_ms is None and not any(stage.name == "queue" for stage in trace.stages)


class Metrics:
    """Counts questions.

    kept   the tiers of chunk KV, the fastest first
    clock  seconds, monotonic
    """

    def __init__(self, kept: Callable[[], list[TierUsage]], clock: Callable[[], float] = time.monotonic) -> None:
        self._kept, self._clock = kept, clock
        self._under_way: set[Question] = set()
        self._metrics = Plain()
        self._draw_counters()
        self._draw_gauges()

    @contextmanager
    def question(self) -> Iterator[Question]:
        """Count the enclosed question once it has ended: done, stopped, left, or failed."""
        question, began = Question(), self._clock()
        self._under_way.add(question)
        try:
            yield question
        except Exception as error:
            question.answer = None
            self._failures.labels(type(error).__name__).inc()
            raise
        finally:
            self._under_way.discard(question)
            if question.answer is not None:
                self._count(question.answer, self._clock() - began)

    def text(self) -> str:
        """Return all metrics in Prometheus' text format 0.0.4."""
        tiers = self._kept()
        for tier in tiers:
            self._bytes.labels(tier.tier).set(tier.size_bytes)
            self._budgets.labels(tier.tier).set(tier.budget_bytes)
        fastest = tiers[0] if tiers and tiers[0].budget_bytes else None
        self._usage.set(fastest.size_bytes / fastest.budget_bytes if fastest else 0.0)
        waiting = sum(question.waits for question in list(self._under_way))
        self._waiting.set(waiting)
        self._running.set(len(self._under_way) - waiting)
        return generate_latest(self._metrics).decode()

    def _count(self, answer: Answer, seconds: float) -> None:
        model, trace = f"kvscope/{answer.request.method}", answer.trace
        reason = ("length" if answer.cut else "stop") if answer.state == "done" else "abort"
        self._ended.labels(model, reason).inc()
        self._latency.labels(model).observe(seconds)
        if trace.ttft_ms is not None:
            self._ttft.labels(model).observe(trace.ttft_ms / 1e3)
        if answer.tokens_per_second:
            self._per_token.labels(model).observe(1 / answer.tokens_per_second)
        for stage in trace.stages:
            self._stages.labels(model, stage.name).inc(stage.length_ms / 1e3)
            if stage.name == "queue":
                self._queued.labels(model).observe(stage.length_ms / 1e3)
            if stage.name == "decode":
                self._decoded.labels(model).observe(stage.length_ms / 1e3)
        self._prompt.labels(model).inc(answer.prompt_tokens)
        self._generated.labels(model).inc(answer.new_tokens)
        self._recomputed.labels(model).inc(answer.recomputed_tokens)
        for source in answer.sources:
            kind = FOUND[source.found]
            self._passages.labels(model, kind).inc(source.tokens)
            self._cached.labels(model).inc(source.reused)
            if kind != "unused":
                self._looked_up.labels(model).inc(source.tokens)
                self._prefix_hits.labels(model).inc(source.tokens if kind == "exact" else 0)

    def _draw_counters(self) -> None:
        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(name, about, labels, registry=self._metrics.all)

        def histogram(name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, about, (MODEL,), registry=self._metrics.all, buckets=buckets)

        self._ended = counter("vllm:request_success", "Questions that ended.", MODEL, "finished_reason")
        self._ttft = histogram("vllm:time_to_first_token_seconds", "From the question to its first token.", TTFT_S)
        self._latency = histogram("vllm:e2e_request_latency_seconds", "From the question to its end.", LONG_S)
        self._queued = histogram("vllm:request_queue_time_seconds", "Waiting for the model.", LONG_S)
        self._decoded = histogram("vllm:request_decode_time_seconds", "Writing, behind the first token.", LONG_S)
        self._per_token = histogram(
            "vllm:request_time_per_output_token_seconds", "Mean of a question, behind the first token.", TOKEN_S
        )
        self._prompt = counter("vllm:prompt_tokens", "TextTokenizer of prompts.", MODEL)
        self._cached = counter(
            "vllm:prompt_tokens_cached", "TextTokenizer whose KV was found and used as it was.", MODEL
        )
        self._generated = counter("vllm:generation_tokens", "TextTokenizer of answers.", MODEL)
        self._looked_up = counter("vllm:prefix_cache_queries", "Passage tokens looked up.", MODEL)
        self._prefix_hits = counter("vllm:prefix_cache_hits", "Passage tokens on an exact path that was found.", MODEL)
        self._passages = counter(
            "kvscope:passage_tokens", "Passage tokens by how their KV was found; unused: full prefill.", MODEL, "found"
        )
        self._recomputed = counter("kvscope:recomputed_tokens", "Passage tokens that were given fresh KV.", MODEL)
        self._stages = counter("kvscope:stage_seconds", "Time in each stage; stages overlap.", MODEL, "stage")
        self._failures = counter("kvscope:request_failures", "Questions that ended in an error.", "error")

    def _draw_gauges(self) -> None:
        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(name, about, labels, registry=self._metrics.all)

        self._running = gauge("vllm:num_requests_running", "Questions that are read or answered.")
        self._waiting = gauge("vllm:num_requests_waiting", "Questions that search, or wait for the model.")
        self._usage = gauge("vllm:kv_cache_usage_perc", "Share of the fastest tier that is used, 0 to 1.")
        self._bytes = gauge("kvscope:kv_bytes", "Chunk KV kept.", "tier")
        self._budgets = gauge("kvscope:kv_budget_bytes", "Room for chunk KV.", "tier")
