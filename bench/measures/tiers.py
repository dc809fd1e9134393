"""TTFT by source of the chunk KV: memory, disk (as after a restart), a KV server, or recomputation. Paired by question.

With a KV server, also over a link of 10 MB per second, and with a server that accepts connections and never answers:
'computed' is without any server. Each time the engine has no experience with the server yet.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from bench.arguments import address
from bench.bootstrap import medians
from bench.harness.engine import first_token
from bench.harness.slow_link import slow_link
from bench.harness.workload import Workload, ask_all
from engine.builder import load_cost_model
from engine.cache.remote import RemoteTier
from engine.strategies import Direct, Full
from engine.trace import Trace

TITLE = "loading chunk KV against recomputing it"
COLUMNS = {
    "tier": "tier",
    "length": "length",
    "load_ms": "load ms",
    "ttft_ms": "TTFT ms",
    "over_host_ms": "over host ms",
    "full_ttft_ms": "full TTFT ms",
    "slowdown": "against computed",
    "n": "n",
}
LOCAL = ("computed", "disk", "host")
SLOW_BYTES_PER_S = 10e6
LINKS = {"remote": None, "remote, 10 MB/s": SLOW_BYTES_PER_S, "remote, no answer": 0.0}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the KV server."""
    parser.add_argument("--kv-server", type=address, help="Valkey or Redis to measure too, such as 127.0.0.1:6379")
    parser.add_argument("--kv-server-bits", type=int, choices=[8, 16], default=16)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per length and tier; medians over the questions."""
    tiers = ("host", "disk", *(LINKS if arguments.kv_server else ()), "computed")

    def measure(work: Workload, number: int) -> dict[str, dict[str, float]]:
        return _measure(work, number, arguments)

    return [
        {"tier": tier, "length": length, **medians(by_tier[tier])}
        for length, by_tier in ask_all(arguments, measure)
        for tier in tiers
    ]


def _measure(work: Workload, number: int, arguments: Namespace) -> dict[str, dict[str, float]]:
    """Return load time and TTFT of direct reuse with every chunk in each tier in turn, and in no faster one."""
    cache = work.engine.cache
    results = {}
    prompt = work.engine.prepare(work.request(number), Trace())
    _, full_ms = first_token(work.engine, prompt, Full(), Trace())
    for tier in LOCAL:
        if tier == "computed":
            for ids in prompt.passage_ids:
                cache.delete(ids)
        elif tier == "disk":
            cache.flush()
            work.tiers.drain()
            cache.tree.clear(0)  # the memory tier
        results[tier] = _ask(work, number, {tier})
    if arguments.kv_server:
        host, port = arguments.kv_server
        with _remote(work, host, port, arguments):
            _fill_server(work, prompt.passage_ids)
        for link, bytes_per_s in LINKS.items():
            with ExitStack() as files:
                host, port = arguments.kv_server
                if bytes_per_s is not None:
                    host, port = "127.0.0.1", files.enter_context(slow_link(host, port, bytes_per_s))
                files.enter_context(_remote(work, host, port, arguments))
                cache.tree.clear()
                results[link] = _ask(work, number, {"remote"} if link == "remote" else {"remote", "computed"})
    for result in results.values():
        result["full_ttft_ms"] = full_ms
        result["over_host_ms"] = result["ttft_ms"] - results["host"]["ttft_ms"]
        result["slowdown"] = result["ttft_ms"] / results["computed"]["ttft_ms"]
    return results


def _ask(work: Workload, number: int, tiers: set[str]) -> dict[str, float]:
    trace = Trace()
    prompt = work.engine.prepare(work.request(number), trace)
    result, ttft_ms = first_token(work.engine, prompt, Direct(), trace)
    if not set(result.tiers) <= tiers:
        raise ValueError(f"expected every passage from {tiers}, got {sorted(set(result.tiers))}")
    (load_ms,) = [stage.length_ms for stage in trace.stages if stage.name == "load"]
    return {"load_ms": load_ms, "ttft_ms": ttft_ms}


def _fill_server(work: Workload, passages: Sequence[Sequence[int]]) -> None:
    cache = work.engine.cache
    cache.tree.clear()
    cache.get_or_compute_all(passages)
    cache.flush()
    work.tiers.drain()
    if cache.remote is None or not cache.remote.drain(60) or cache.remote.error:
        raise ValueError("the KV server does not take the passages")


@contextmanager
def _remote(work: Workload, host: str, port: int, arguments: Namespace) -> Iterator[None]:
    """Let the engine use a KV server inside the block, and weigh it against its own speed as the app does."""
    from store.kv.kv_server import KVServer  # noqa: PLC0415  needs requirements-cluster.txt

    cache = work.engine.cache
    cache.costs = load_cost_model(cache.decoder, arguments.data)
    with closing(RemoteTier(KVServer(f"redis://{host}:{port}"), arguments.kv_server_bits)) as cache.remote:
        yield
    cache.remote = cache.costs = None
