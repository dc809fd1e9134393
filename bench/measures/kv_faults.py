"""Two engines that share a KV server, and faults of the server while they answer.

One engine computes the passages of a question and writes them. Then the other one, which has none of them, answers the
same question while the server fails. Wrong is an answer that differs from that of an engine without a server, sampled
with the same seed. `slowdown` is the TTFT over that of the engine without a server, which computes all passages too.
Recovery is the time from the end of the fault until the second engine reads again what the first one writes.
"""

import random
import signal
import statistics
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

from bench.arguments import positive_int
from bench.harness.engine import model_config
from bench.harness.slow_link import slow_link
from bench.harness.workload import GIB, make_paragraph, make_questions
from bench.tables import columns_of, progress
from engine.builder import Models, build_engine, load_models
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.prompt.template import PromptTemplate
from engine.prompt.text_finder import TextFinder
from engine.request import Answer, Request

if TYPE_CHECKING:
    from cluster.valkey import Valkey

TITLE = "faults of the KV server"
COLUMNS = columns_of("fault n wrong failed remote_passages slowdown max_slowdown recovery_s max_recovery_s")
NUM_PASSAGES, NUM_QUESTIONS, MEMORY = 2, 20, "400mb"
MAX_DELAY_S = 0.12  # from the question to the fault: reading takes about as long
MAX_RECOVERY_S = 60.0
SLOW_BYTES_PER_S = 10e6


@dataclass
class _Results:
    wrong: int = 0
    failed: int = 0
    remote_passages: int = 0
    slowdowns: list[float] = field(default_factory=list)
    recoveries_s: list[float] = field(default_factory=list)

    def row(self, fault: str) -> dict[str, Any]:
        return {
            "fault": fault,
            "n": len(self.slowdowns) + self.failed,
            "wrong": self.wrong,
            "failed": self.failed,
            "remote_passages": self.remote_passages,
            "slowdown": statistics.median(self.slowdowns) if self.slowdowns else None,
            "max_slowdown": max(self.slowdowns, default=None),
            "recovery_s": statistics.median(self.recoveries_s),
            "max_recovery_s": max(self.recoveries_s),
        }


@contextmanager
def _nothing(server: "Valkey", rng: random.Random) -> Iterator[None]:
    yield


@contextmanager
def _killed(server: "Valkey", rng: random.Random) -> Iterator[None]:
    server.kill()
    yield
    server.start()


@contextmanager
def _stopped(server: "Valkey", rng: random.Random) -> Iterator[None]:
    server.send(signal.SIGSTOP)
    yield
    server.send(signal.SIGCONT)


@contextmanager
def _emptied(server: "Valkey", rng: random.Random) -> Iterator[None]:
    server.client.flushall()
    yield


@contextmanager
def _corrupted(server: "Valkey", rng: random.Random) -> Iterator[None]:
    client = server.client
    for key in client.keys("kv3:*"):
        client.setrange(key, rng.randrange(max(1, client.strlen(key))), rng.randbytes(8))
    yield


@contextmanager
def _filled(server: "Valkey", rng: random.Random) -> Iterator[None]:
    client = server.client
    for number in range(80):
        client.set(f"other {number}", bytes(8 * 2**20), ex=60)
    yield
    client.delete(*(f"other {number}" for number in range(80)))


Fault = Callable[["Valkey", random.Random], AbstractContextManager[None]]
FAULTS: dict[str, Fault] = {
    "none": _nothing,
    "killed": _killed,
    "stopped": _stopped,
    "emptied": _emptied,
    "corrupted": _corrupted,
    "filled": _filled,
    "10 MB/s": _nothing,
}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the number of runs."""
    parser.add_argument("--runs", type=positive_int, default=70, help="questions, each with the next kind of fault")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per kind of fault."""
    from cluster.valkey import running_valkey  # noqa: PLC0415  needs requirements-cluster.txt

    rng = random.Random(arguments.seed)
    # Without the span scorer, every answer waits for the KV of its passages.
    models = replace(load_models(model_config(arguments)), grounding=None)
    tokenizer = PromptTemplate(models.primary.tokenizer).tokenizer.data
    texts = [make_paragraph(rng, tokenizer) for _ in range(3 * NUM_PASSAGES)]
    requests = [
        Request(question, "direct", passages=NUM_PASSAGES, max_new_tokens=24, temperature=1.0, seed=seed)
        for seed, question in enumerate(make_questions(rng, NUM_QUESTIONS))
    ]
    results = {fault: _Results() for fault in FAULTS}
    with ExitStack() as files:
        folder = Path(files.enter_context(tempfile.TemporaryDirectory(prefix="kvscope-bench-")))
        server = files.enter_context(running_valkey(folder, MEMORY))
        slow_port = files.enter_context(slow_link("127.0.0.1", server.port, SLOW_BYTES_PER_S))

        def open_engine(port: int | None) -> Engine:
            return files.enter_context(_open_engine(models, texts, port, arguments))

        alone, first, second, slow = map(open_engine, (None, server.port, server.port, slow_port))
        for number in progress(range(arguments.runs), "faults"):
            fault = list(FAULTS)[number % len(FAULTS)]
            reader = slow if fault == "10 MB/s" else second
            expected = _ask(alone, requests[number % NUM_QUESTIONS])
            _ask(first, expected.request)
            _drain(first)
            _run_one(server, FAULTS[fault], reader, expected, rng, results[fault])
            results[fault].recoveries_s.append(_seconds_to_recover(first, second, rng))
    return [result.row(fault) for fault, result in results.items() if result.recoveries_s]


def _run_one(
    server: "Valkey",
    fault: Fault,
    engine: Engine,
    expected: Answer,
    rng: random.Random,
    results: _Results,
) -> None:
    """Ask a question while the server fails; the fault has ended when this returns."""
    errors: list[Exception] = []

    def begin() -> None:
        try:
            faults.enter_context(fault(server, rng))
        except Exception as error:  # noqa: BLE001  raised below: this is a thread of its own
            errors.append(error)

    with ExitStack() as faults:
        timer = Timer(rng.uniform(0, MAX_DELAY_S), begin)
        timer.start()
        try:
            answer = _ask(engine, expected.request)
        except Exception:  # noqa: BLE001  counted
            results.failed += 1
        else:
            results.wrong += answer.text != expected.text
            results.remote_passages += sum(source.tier == "remote" for source in answer.sources)
            assert answer.trace.ttft_ms and expected.trace.ttft_ms
            results.slowdowns.append(answer.trace.ttft_ms / expected.trace.ttft_ms)
        timer.join()
        if errors:
            raise errors[0]


def _seconds_to_recover(first: Engine, second: Engine, rng: random.Random) -> float:
    """Return how long it takes until one engine reads what the other one writes; at most MAX_RECOVERY_S."""
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < MAX_RECOVERY_S:
        ids = [[rng.randrange(100, 10_000) for _ in range(512)]]
        first.cache.get_or_compute_all(ids)
        _drain(first)
        if second.cache.get_or_compute_all(ids)[0][1] == "remote":
            return elapsed
        time.sleep(0.1)
    return MAX_RECOVERY_S


def _ask(engine: Engine, request: Request) -> Answer:
    """Answer a question without any local KV."""
    engine.cache.tree.clear()
    *_, answer = engine.ask(request)
    return answer


def _drain(engine: Engine) -> None:
    engine.cache.flush()
    assert engine.cache.remote
    engine.cache.remote.drain(5)


@contextmanager
def _open_engine(models: Models, texts: Sequence[str], port: int | None, arguments: Namespace) -> Iterator[Engine]:
    from store.kv.kv_server import KVServer  # noqa: PLC0415  needs requirements-cluster.txt

    server = KVServer(f"redis://127.0.0.1:{port}") if port else None
    config = CacheHierarchyConfig(host_bytes=2 * GIB, disk_bytes=0)
    with closing(CacheHierarchy(config, None, models.primary.device, server)) as tiers:
        yield build_engine(models, lambda tokenizer: TextFinder(texts), tiers, arguments.data)
