"""Many sessions at a time: only announced limits are errors, no answers are mixed, and memory is flat.

The whole application runs in a process of its own with a temporary data folder. Each session, a thread with clients of
its own, asks about a small document of its own over the HTTP API and the Gradio API, stops some answers, and replaces
the document now and then. All ask the same questions, and each document has a code that no other one has: an answer is
mixed if a source is another document, if it has the code of another document, or if its stream is not the final text.

Memory is the resident set (RSS) of the application's process; its part in mapped files is known on Linux only. The
slope is fitted after the warm-up; its 95 % interval is from a bootstrap of blocks.
"""

import random
import re
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import numpy as np
import psutil

from bench.arguments import fraction, positive_int
from bench.bootstrap import slope_interval
from bench.harness.app_process import AppProcess
from bench.soak.findings import Findings
from bench.soak.session import Session
from bench.tables import columns_of, progress
from engine.model.loading.resolve import resolve

TITLE = "many sessions at a time"
COUNTED = "questions uploads stops deletions announced_errors other_errors mixed"
COLUMNS = columns_of(f"sessions minutes {COUNTED} rss_mb rss_slope_mb_per_min p50_ttft_ms p95_ttft_ms")
SAMPLE_S = 1.0
WINDOW_S = 10.0  # the slope is fitted to means of so many seconds
END_TIMEOUT_S = 300.0  # for the last answers
MIN_WINDOWS = 12  # for a slope
RUNNING = re.compile(r"^vllm:num_requests_(?:running|waiting)\S* (\S+)$", re.MULTILINE)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the sessions, the time, and what the memory depends on."""
    add = parser.add_argument
    add("--sessions", type=positive_int, default=50, help="sessions at a time")
    add("--minutes", type=float, default=30.0, help="how long they use the application")
    add("--warm-up", type=fraction, default=0.4, help="fraction of the minutes before the slope is fitted")
    add("--cpu-cache-gib", type=float, default=0.125, help="of the application; so small that the warm-up fills it")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row; `other_errors` and `mixed` must be 0."""
    models = arguments.data / "models"
    resolve(arguments.model, models)
    findings, ended = Findings(), Event()
    with tempfile.TemporaryDirectory(prefix="kvscope-soak-") as folder:
        data = Path(folder)
        (data / "models").symlink_to(models.absolute())
        with AppProcess(data, *_flags(arguments)) as app:
            app.wait_for("/healthz", '"ok"')
            sessions = [
                Session(app.url, data, findings, ended, random.Random(f"{arguments.seed} {number}"))
                for number in range(arguments.sessions)
            ]
            with ThreadPoolExecutor(len(sessions)) as pool:
                list(pool.map(Session.add_document, sessions))
            threads = [Thread(target=session.run, daemon=True) for session in sessions]
            for thread in threads:
                thread.start()
            rss_mb, mapped_mb = _sample_memory(psutil.Process(app.pid), 60 * arguments.minutes)
            ended.set()
            _wait_for_end(app, threads, findings)
    counts = {name: findings.counts[name] for name in COUNTED.split()}
    p50, p95 = np.percentile(findings.ttfts_ms, [50, 95]).tolist() if findings.ttfts_ms else (None, None)
    return [
        {"sessions": arguments.sessions, "minutes": arguments.minutes, **counts}
        | {"rss_mb": max(rss_mb), **_slope_fields(rss_mb, arguments.warm_up)}
        | {"p50_ttft_ms": p50, "p95_ttft_ms": p95}
        | {"rss_mb_by_minute": _means(rss_mb, 60.0), "mapped_mb_by_minute": _means(mapped_mb, 60.0)}
    ]


def _flags(arguments: Namespace) -> list[str]:
    """Return the application's flags for the models of the command line, without sample documents."""
    names = ("model", "auxiliary_model", "lora_adapter", "token_selector", "span_scorer", "dtype", "cpu_cache_gib")
    flags = [f"--{name.replace('_', '-')}={getattr(arguments, name)}" for name in names]
    return ["--no-sample-docs", *flags]


def _sample_memory(process: psutil.Process, seconds: float) -> tuple[list[float], list[float]]:
    """Return the resident set in MB and its part in mapped files, a sample per SAMPLE_S; fewer if the process ends."""
    rss_mb, mapped_mb = [], []
    for _ in progress(range(max(1, round(seconds / SAMPLE_S))), "Samples"):
        time.sleep(SAMPLE_S)
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            memory = process.memory_info()
            rss_mb.append(memory.rss / 2**20)
            mapped_mb.append(getattr(memory, "shared", 0) / 2**20)  # Linux
    return rss_mb, mapped_mb


def _wait_for_end(app: AppProcess, threads: Sequence[Thread], findings: Findings) -> None:
    """Wait for the last answers; sessions and requests that do not end are errors, and so is an end of the process."""
    end = time.monotonic() + END_TIMEOUT_S
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive():
            findings.add_error(f"A session waits since {END_TIMEOUT_S:g} s for an answer.")
    if not app.is_running:
        findings.add_error("The application ended.")
        return
    while running := sum(map(float, RUNNING.findall(httpx.get(f"{app.url}/metrics", timeout=END_TIMEOUT_S).text))):
        if time.monotonic() > end:
            findings.add_error(f"{running:g} questions run without a client.")
            return
        time.sleep(SAMPLE_S)


def _slope_fields(rss_mb: Sequence[float], warm_up: float) -> dict[str, float | None]:
    """Return the row's fields for the slope after the warm-up; without values if that is too short."""
    means = _means(rss_mb[round(warm_up * len(rss_mb)) :], WINDOW_S)
    name = "rss_slope_mb_per_min"
    if len(means) < MIN_WINDOWS:
        return {name: None}
    slope, low, high = slope_interval([WINDOW_S / 60 * number for number in range(len(means))], means)
    return {name: slope, f"{name}_low": low, f"{name}_high": high}


def _means(samples: Sequence[float], seconds: float) -> list[float]:
    """Return the mean of each window of so many seconds, without an incomplete last one."""
    size = round(seconds / SAMPLE_S)
    return np.mean(np.reshape(samples[: len(samples) // size * size], (-1, size)), axis=1).tolist()
