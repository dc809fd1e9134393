"""Read a file in a process of its own, with limits: what a parser needs or breaks ends that process only.

`store.ingest.worker` is that process. It answers in lines of JSON, never pickles, so that an answer cannot run code. It
contains faults and is no sandbox: it runs as the same user.
"""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

from store.errors import DocumentTooLarge, UnreadableDocument
from store.ingest.document import ParsedDocument, ParseSteps
from store.ingest.worker import CPU_SECONDS
from store.limits import DEFAULT_LIMITS, Limits
from store.names import clean_name
from store.types import Progress

COMMAND = (sys.executable, "-m", "store.ingest.worker")
STEP_TIMEOUT_S = 120.0  # until the first step, and from a step to the next
POLL_S = 0.5  # the last step is repeated this often, so that the caller can stop a busy worker
OUTPUT_BYTES = 2**20  # besides twelve for each character, which JSON may need, and PAGE_BYTES for each page
PAGE_BYTES = 200  # its steps and where it starts
MAX_SKIPPED_PAGES = 3
EXIT_TIMEOUT_S = 5.0  # from the end of a worker's answer to its own
ERRORS = {error.__name__: error for error in (UnreadableDocument, DocumentTooLarge)}
INHERITED = (  # no keys or tokens
    *("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("LANG", "LC_ALL", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR"),
)
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}  # each reserves addresses
log = logging.getLogger("kvscope")


class WorkerEnded(Exception):
    """A worker ended without an answer; `error` is for the user."""

    def __init__(self, error: UnreadableDocument | DocumentTooLarge) -> None:
        super().__init__(str(error))
        self.error = error


def parse_isolated(data: bytes, name: str, limits: Limits = DEFAULT_LIMITS) -> ParseSteps:
    """Do what `parse_steps` does in a process of its own; closing the steps ends it.

    A page of a PDF during whose reading the process ends is left out like a damaged one; text recognition and the
    layout of the whole are not reading. Raises what `parse_steps` raises, and DocumentTooLarge above a limit.
    """
    name = clean_name(name)
    skipped: list[int] = []
    while True:
        worker = _Worker(data, name, limits, skipped)
        try:
            return (yield from worker.follow())
        except WorkerEnded as ended:
            page = worker.page
            if page is None or page in skipped or len(skipped) == MAX_SKIPPED_PAGES:
                raise ended.error from ended
            log.warning("page %d of %r is left out: %s", page + 1, name, ended.error.args[0])
            skipped.append(page)
        finally:
            worker.end()


def start_worker(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a process that reads a file from its standard input and answers on standard output."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
        start_new_session=True,  # Ctrl+C is for the application alone
        env={key: os.environ[key] for key in INHERITED if key in os.environ} | THREADS,
    )


class _Worker:
    """A running process that parses one file."""

    def __init__(self, data: bytes, name: str, limits: Limits, skipped_pages: list[int]) -> None:
        self._name = name
        self._limits = limits
        self._num_steps = 0
        self._num_pages = 0
        self._lines = SimpleQueue[bytes]()  # of the answer; an empty one is its end
        self._process = start_worker(COMMAND)
        request = {"name": name, "size": len(data), "limits": asdict(limits), "skipped_pages": skipped_pages}
        parts = [json.dumps(request).encode() + b"\n", data]
        Thread(target=self._write, args=parts, name="parsing", daemon=True).start()
        Thread(target=self._read, name="parsing", daemon=True).start()

    @property
    def page(self) -> int | None:
        """The page, from 0, that was being read; None if it was something else."""
        return self._num_steps - 1 if 1 <= self._num_steps <= self._num_pages else None

    def follow(self) -> ParseSteps:
        """Yield the worker's steps and return its document. Raises its error, or WorkerEnded."""
        step, deadline = Progress("parsed", 0, 1), monotonic() + STEP_TIMEOUT_S
        while True:
            try:
                line = self._lines.get(timeout=POLL_S)
            except Empty:
                if monotonic() > deadline:
                    raise self._too_large(f"takes more than {STEP_TIMEOUT_S:.0f} seconds") from None
            else:
                try:
                    answer = self._decode(line)
                except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                    raise self._unreadable(f"its reader gave a wrong answer ({type(error).__name__})") from error
                if isinstance(answer, ParsedDocument):
                    return answer
                step, deadline = answer, monotonic() + STEP_TIMEOUT_S
            yield step

    def end(self) -> None:
        """Kill the worker and what it started."""
        if hasattr(os, "killpg") and self._process.poll() is None:  # else the number may be another's by now
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _decode(self, line: bytes) -> Progress | ParsedDocument:
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ERRORS[answer["error"]](str(answer["message"]))
        if "failure" in answer:
            log.error("%r could not be read: %r", self._name, str(answer.get("trace")))
            if answer["failure"] == MemoryError.__name__:
                raise self._too_large("takes more memory than a document may")
            raise self._unreadable(f"its reader failed ({answer['failure']})")
        if "text" in answer:
            text, warning, recognized = str(answer["text"]), str(answer["warning"]), int(answer["recognized_pages"])
            self._limits.check_characters(len(text), self._name)
            starts = tuple(map(int, answer["page_starts"]))
            if len(starts) > self._limits.most_pages:
                raise self._too_large("gives too many pages").error
            if list(starts) != sorted(starts) or any(not 0 <= start <= len(text) for start in starts):
                raise ValueError("page starts outside the text, or out of order")
            return ParsedDocument(text, starts, warning, recognized)
        self._num_steps += 1
        self._num_pages = int(answer["num_pages"])
        return Progress("parsed", int(answer["done"]), max(1, int(answer["total"])))

    def _ended(self) -> WorkerEnded:
        """Return why the worker ended. Raises DocumentTooLarge if its time is up: it would be up again."""
        try:
            code = self._process.wait(timeout=EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            code = 0
        if code >= 0:
            return self._unreadable("its reader ended early")
        name = signal.Signals(-code).name
        if name == "SIGXCPU":
            raise self._too_large(f"takes more than {CPU_SECONDS // 60} minutes of computing").error
        return self._unreadable(f"its reader crashed ({name})")

    def _too_large(self, reason: str) -> WorkerEnded:
        return WorkerEnded(DocumentTooLarge(f"Reading {self._name} {reason}."))

    def _unreadable(self, reason: str) -> WorkerEnded:
        return WorkerEnded(UnreadableDocument(f"{self._name} cannot be read: {reason}."))

    def _write(self, *parts: bytes) -> None:
        file = self._process.stdin
        assert file is not None
        with suppress(OSError, ValueError):  # the worker may end before it has read all
            for part in parts:
                file.write(part)
            file.flush()  # and not closed: that ends the worker

    def _read(self) -> None:
        output, size_bytes = self._process.stdout, 0
        max_bytes = OUTPUT_BYTES + 12 * self._limits.max_characters + PAGE_BYTES * self._limits.most_pages
        assert output is not None
        with suppress(OSError, ValueError), output:
            while size_bytes < max_bytes and (line := output.readline(max_bytes)):
                size_bytes += len(line)
                self._lines.put(line)
        if size_bytes >= max_bytes:
            self._process.kill()
        self._lines.put(b"")
