"""Engines of a cluster in processes of their own, and what happens to answers when processes are killed.

The front is in this process, with its own engine as the reference: every question is answered by it alone, and then by
the cluster. Faults: an engine or the KV server is killed at a random time, and all engines are killed once a part of
the answer is shown. Wrong is a complete answer that differs from the reference, or an incomplete one that is not its
beginning. After each fault the same question is repeated until its answer is complete: the time that takes is the
recovery, without the answer's own.
"""

import random
import statistics
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Timer
from typing import Any

import psutil
import torch

from bench.arguments import positive_int
from bench.harness.engine import model_config
from bench.harness.workload import GIB, make_paragraph, make_questions
from bench.tables import columns_of, progress
from cluster.dispatch import REFRESH_S, Dispatcher
from engine.builder import build_engine, load_models
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.prompt.template import PromptTemplate
from engine.prompt.text_finder import TextFinder
from engine.request import Answer, Request

TITLE = "faults of the processes of a cluster"
COLUMNS = columns_of("fault n complete stopped wrong failed by_engines recovery_s max_recovery_s ttft_ms")
NUM_PASSAGES, MAX_DELAY_S, NEW_TOKENS = 2, 2.0, 48
LONG_TOKENS, MAX_PARTS = 300, 20  # of answers that are cut off, and parts of them that are shown before
MID_ANSWER = "engines killed mid-answer"
MAX_WAIT_S = 120.0
THREADS = 1
REPLICA = "ray::ServeReplica:kvscope-engines"


@dataclass
class _Results:
    complete: int = 0
    stopped: int = 0
    wrong: int = 0
    failed: int = 0
    by_engines: int = 0
    recoveries_s: list[float] = field(default_factory=list)
    ttfts_ms: list[float] = field(default_factory=list)

    def row(self, fault: str) -> dict[str, Any]:
        return {
            "fault": fault,
            "n": self.complete + self.stopped + self.failed,
            "complete": self.complete,
            "stopped": self.stopped,
            "wrong": self.wrong,
            "failed": self.failed,
            "by_engines": self.by_engines,
            "recovery_s": statistics.median(self.recoveries_s) if self.recoveries_s else None,
            "max_recovery_s": max(self.recoveries_s, default=None),
            "ttft_ms": statistics.median(self.ttfts_ms) if self.ttfts_ms else None,
        }


def add_arguments(parser: ArgumentParser) -> None:
    """Add the numbers of engines and runs."""
    parser.add_argument("--engines", type=positive_int, default=2)
    parser.add_argument("--runs", type=positive_int, default=40, help="questions with a fault, of both kinds in turn")
    parser.add_argument("--questions", type=positive_int, default=60, help="questions without a fault, before them")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row without faults, and one per kind of fault."""
    torch.set_num_threads(THREADS)  # as many as the engines have: sums of other parts are rounded differently
    rng, models = random.Random(arguments.seed), load_models(model_config(arguments))
    tokenizer = PromptTemplate(models.primary.tokenizer).tokenizer.data
    finder = TextFinder([make_paragraph(rng, tokenizer) for _ in range(4 * NUM_PASSAGES)])
    questions = make_questions(rng, 40)
    results = {fault: _Results() for fault in ("none", "engine killed", "KV server killed", MID_ANSWER)}
    with (
        _cluster(arguments) as (dispatcher, valkey),
        closing(CacheHierarchy(CacheHierarchyConfig(2 * GIB, 0), None, models.primary.device)) as tiers,
    ):
        front = build_engine(models, lambda tokenizer: finder, tiers, arguments.data)
        dispatcher.start(lambda: front)
        _wait_for_engines(dispatcher, arguments.engines)
        faults: dict[str, Callable[[], object]] = {
            "engine killed": lambda: _kill_engine(rng),
            "KV server killed": valkey.kill,
            MID_ANSWER: lambda: [each.kill() for each in replicas()],
        }
        for number in progress(range(arguments.questions + arguments.runs), "questions"):
            name = "none" if number < arguments.questions else list(faults)[number % len(faults)]
            is_cut = name == MID_ANSWER
            temperature = float(is_cut or number % 4 >= 2)  # the others are greedy
            request = Request(
                rng.choice(questions),
                "direct",
                passages=NUM_PASSAGES,
                max_new_tokens=LONG_TOKENS if is_cut else NEW_TOKENS,
                temperature=temperature,
                seed=number,
            )
            *_, expected = front.ask(request)
            if is_cut:
                _check(dispatcher, front, expected, results[name], faults[name], rng.randint(1, MAX_PARTS))
            else:
                with _fault(faults.get(name), rng):
                    _check(dispatcher, front, expected, results[name])
            if name != "none":
                results[name].recoveries_s.append(_seconds_to_recover(dispatcher, front, expected))
            if name == "KV server killed":
                valkey.start()
            elif name != "none":
                time.sleep(2 * REFRESH_S)  # until the front has noticed
                _wait_for_engines(dispatcher, arguments.engines)
    return [result.row(fault) for fault, result in results.items()]


@contextmanager
def _cluster(arguments: Namespace) -> Iterator[tuple[Dispatcher, Any]]:
    """Run Ray, a Valkey server and engines; yield what sends questions to them, and the server."""
    import ray  # noqa: PLC0415  needs requirements-cluster.txt

    from cluster.engine_server import EngineConfig, running_engines, start_engines  # noqa: PLC0415
    from cluster.valkey import running_valkey  # noqa: PLC0415

    with ExitStack() as files:
        folder = Path(files.enter_context(tempfile.TemporaryDirectory(prefix="kvscope-bench-")))
        valkey = files.enter_context(running_valkey(folder))
        ray.init(num_cpus=arguments.engines, include_dashboard=False, log_to_driver=False)
        files.callback(ray.shutdown)
        address = f"redis://127.0.0.1:{valkey.port}/0"
        config = EngineConfig(model_config(arguments), arguments.data, GIB, address, threads=THREADS)
        start_engines(config, arguments.engines)
        yield files.enter_context(closing(Dispatcher(running_engines))), valkey


def _wait_for_engines(dispatcher: Dispatcher, number: int) -> None:
    deadline = time.monotonic() + MAX_WAIT_S
    while len(dispatcher.engine_names()) < number:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the engines do not answer {dispatcher.refused}")
        time.sleep(0.2)


@contextmanager
def _fault(fault: Callable[[], object] | None, rng: random.Random) -> Iterator[None]:
    """Let something fail at a random time inside the block, or at its end."""
    timer = Timer(rng.uniform(0, MAX_DELAY_S), fault or (lambda: None))
    if fault is not None:
        timer.start()
    yield
    if fault is not None:
        timer.join()


def _kill_engine(rng: random.Random) -> None:
    """Kill one engine's process; Ray starts it again."""
    if engines := replicas():  # else all are being started
        rng.choice(engines).kill()


def replicas() -> list[psutil.Process]:
    """Return the processes of the engines that this process has started."""
    engines = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "".join(process.cmdline()[:1]).startswith(REPLICA):
                engines.append(process)
    return engines


def _check(
    dispatcher: Dispatcher,
    front: Engine,
    expected: Answer,
    results: _Results,
    fault: Callable[[], object] = lambda: None,
    parts: int = 0,
) -> None:
    """Ask the cluster and compare; let something fail once so many parts of the answer were shown."""
    shown = 0
    try:
        for answer in dispatcher.ask(front, expected.request, Event()):
            shown += bool(answer.text)
            if shown == parts > 0:
                fault()
    except Exception:  # noqa: BLE001  counted
        results.failed += 1
        return
    is_complete = answer.state == "done"
    results.complete += is_complete
    results.stopped += not is_complete
    results.wrong += answer.text != expected.text if is_complete else not expected.text.startswith(answer.text)
    results.by_engines += bool(answer.engine)
    if answer.trace.ttft_ms is not None:
        results.ttfts_ms.append(answer.trace.ttft_ms)


def _seconds_to_recover(dispatcher: Dispatcher, front: Engine, expected: Answer) -> float:
    """Return the time until a question gets a complete answer again, without the time of that answer."""
    began = time.monotonic()
    while (asked := time.monotonic()) < began + MAX_WAIT_S:
        *_, answer = dispatcher.ask(front, expected.request, Event())
        if answer.state == "done" and answer.text == expected.text:
            return asked - began
    return MAX_WAIT_S
