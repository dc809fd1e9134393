"""Processes of a cluster are killed while documents are added, and while questions are asked.

`python -m cluster up` runs with a tiny random model and a temporary data folder. A client adds, renames, re-indexes and
deletes documents through the page's API while a process is killed at a random moment. Recovery is the time from the
kill until the document with a certain code is found by a question again. Then the documents are compared with what was
acknowledged: an operation that failed may have happened or not.
"""

import random
import statistics
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
from gradio_client import Client

from bench.arguments import positive_int
from bench.harness.app_process import AppProcess, ClusterProcess
from bench.harness.changed_documents import (
    NUM_PASSAGES,
    KnownDocuments,
    change_documents,
    compare_documents,
    save_tiny_model,
    tiny_model_flags,
)
from bench.tables import columns_of, progress
from engine.model.loading.resolve import resolve

TITLE = "processes of a cluster killed while documents change"
COLUMNS = columns_of("fault n acknowledged refused lost wrong recovery_s max_recovery_s")
PROCESSES = {  # words of the command line, by name of the fault
    "page killed": ["--cluster", "--library"],
    "library killed": ["library", "--chroma"],
    "Chroma killed": ["run", "--path"],
    "Valkey killed": ["valkey-server"],
    "engine killed": ["ray::ServeReplica:kvscope-engines"],
}
MAX_DELAY_S = 4.0
MAX_WAIT_S = 120.0
FIRST_DOCUMENTS = 3


@dataclass
class _Results:
    acknowledged: int = 0
    refused: int = 0
    lost: int = 0
    wrong: int = 0
    recoveries_s: list[float] = field(default_factory=list)

    def row(self, fault: str) -> dict[str, Any]:
        return {
            "fault": fault,
            "n": len(self.recoveries_s),
            "acknowledged": self.acknowledged,
            "refused": self.refused,
            "lost": self.lost,
            "wrong": self.wrong,
            "recovery_s": statistics.median(self.recoveries_s) if self.recoveries_s else None,
            "max_recovery_s": max(self.recoveries_s, default=None),
        }


def add_arguments(parser: ArgumentParser) -> None:
    """Add the number of runs."""
    parser.add_argument("--runs", type=positive_int, default=10, help="kills, of each process in turn")
    parser.add_argument("--engines", type=positive_int, default=1)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per kind of process."""
    rng, models = random.Random(arguments.seed), arguments.data / "models"
    results = {fault: _Results() for fault in PROCESSES}
    with tempfile.TemporaryDirectory(prefix="kvscope-kills-") as folder:
        data = Path(folder)
        save_tiny_model(resolve(arguments.model, models), data / "tiny")
        flags = ["--engines", str(arguments.engines), "--threads", "1", *tiny_model_flags(data / "tiny")]
        with ClusterProcess(data, *flags) as cluster:
            cluster.wait_for("/healthz", '"ok"')
            cluster.wait_for("/metrics", "vllm")
            documents, client = KnownDocuments(), Client(cluster.url, verbose=False)
            while len(documents.codes) < FIRST_DOCUMENTS:
                change_documents(client, documents, data, rng)
            for number in progress(range(arguments.runs), "kills"):
                fault = list(PROCESSES)[number % len(PROCESSES)]
                _kill_once(cluster, PROCESSES[fault], documents, data, rng, results[fault])
    return [result.row(fault) for fault, result in results.items()]


def _kill_once(
    cluster: AppProcess,
    words: list[str],
    documents: KnownDocuments,
    data: Path,
    rng: random.Random,
    results: _Results,
) -> None:
    is_over, before = Event(), documents.num_acknowledged
    client = Client(cluster.url, verbose=False)

    def work() -> None:
        with suppress(Exception):  # the process that answers, or that it needs, was killed
            while not is_over.is_set():
                change_documents(client, documents, data, rng)
            return
        results.refused += 1

    worker = Thread(target=work)
    worker.start()
    time.sleep(rng.uniform(0, MAX_DELAY_S))
    _process(cluster.pid, words).kill()
    killed = time.monotonic()
    is_over.set()  # after the change that is running
    clients: list[Client] = []

    def works() -> bool:
        fresh = Client(cluster.url, verbose=False)
        names = {each["name"] for each in fresh.predict(api_name="/list_documents")}
        name, code = next((name, code) for name, code in documents.codes.items() if name in names)
        sources = cluster.ask(f"What has the code {code}?", passages=NUM_PASSAGES)["sources"]
        clients.append(fresh)
        return name in {source["document"] for source in sources}

    results.recoveries_s.append(_seconds_until(works, killed))
    worker.join()
    lost, wrong = compare_documents(cluster, clients[-1], documents, rng)
    results.lost += lost
    results.wrong += wrong
    results.acknowledged += documents.num_acknowledged - before


def _process(pid: int, words: list[str]) -> psutil.Process:
    """Return the process below this one with these words in its command line. Raises TimeoutError."""
    deadline = time.monotonic() + MAX_WAIT_S
    while time.monotonic() < deadline:
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                command = process.cmdline()
                if all(any(word in part for part in command) for word in words):
                    return process
        time.sleep(0.1)
    raise TimeoutError(f"no process {' '.join(words)}")


def _seconds_until(works: Callable[[], bool], start: float) -> float:
    while time.monotonic() < start + MAX_WAIT_S:
        with suppress(Exception):
            if works():
                return time.monotonic() - start
        time.sleep(0.1)
    raise TimeoutError("the cluster does not work again")
