"""The process that `store.ingest.isolated` reads a file in: `python -m store.ingest.worker`.

Standard input has a line of JSON with the file's name, its size, the limits and the pages to leave out, then the file;
it stays open, and if it is closed the process ends. Standard output has lines of JSON: the steps, then the document or
an error.
Limits hold where the system has them: not on Windows, and the one on memory not on macOS.
"""

import json
import os
import sys
import traceback
from contextlib import suppress
from importlib.util import find_spec
from threading import Thread
from typing import IO, Any

from store.errors import KVScopeError
from store.ingest import parse_steps
from store.ingest.sniff import detect_format
from store.limits import Limits

MEMORY_BYTES = 2**30  # of addresses; ordinary files take a quarter
OCR_MEMORY_BYTES = 3 * 2**30  # with the models of text recognition, which take 1.2 GB
MAX_MEMORY_BYTES = OCR_MEMORY_BYTES + 2**28  # while a worker out of memory says so
CPU_SECONDS = 3600  # of all threads; a hundred scanned pages take a quarter of an hour
MAX_TRACE_CHARACTERS = 3000
NICENESS = 5  # questions go first


def set_limits(memory_bytes: int) -> None:
    """Limit this process's addresses (at most MAX_MEMORY_BYTES) and processor time; no file can grow."""
    try:
        import resource  # noqa: PLC0415  # not on Windows
    except ImportError:
        return
    limits = {
        resource.RLIMIT_AS: (memory_bytes, MAX_MEMORY_BYTES),
        resource.RLIMIT_CPU: (CPU_SECONDS, CPU_SECONDS + 5),  # the first is a signal with a name of its own
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    for limit, values in limits.items():
        with suppress(OSError, ValueError):  # the system has a lower one
            resource.setrlimit(limit, values)


def main() -> None:
    """Read the request, parse the file and write the answer."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    with suppress(AttributeError, OSError):
        os.nice(NICENESS)
    request = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read(request["size"])
    Thread(target=_end_with_application, daemon=True).start()
    try:
        limits = Limits(**request["limits"])
        answer = _parse(data, request["name"], limits, frozenset(request["skipped_pages"]), answers)
    except Exception as error:  # noqa: BLE001  the application reports it
        set_limits(MAX_MEMORY_BYTES)
        answer = {"failure": type(error).__name__, "trace": traceback.format_exc()[-MAX_TRACE_CHARACTERS:]}
    _send(answers, answer)
    answers.flush()
    os._exit(0)  # without the libraries' clean-up, which may crash


def _end_with_application() -> None:
    """End this process when the application has ended, also if it was killed, or closes the pipe."""
    sys.stdin.buffer.read(1)
    os._exit(1)


def _parse(data: bytes, name: str, limits: Limits, skipped_pages: frozenset[int], answers: IO[bytes]) -> dict[str, Any]:
    set_limits(MEMORY_BYTES)
    try:
        kind = detect_format(data, name)
        if kind in ("pdf", "image") and find_spec("rapidocr") is not None:
            set_limits(OCR_MEMORY_BYTES)
        steps = parse_steps(data, name, limits, skipped_pages)
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                document = end.value
                break
            num_pages = step.total if kind == "pdf" else 0  # only pages of a PDF can be left out
            _send(answers, {"done": step.done, "total": step.total, "num_pages": num_pages})
    except KVScopeError as error:
        return {"error": type(error).__name__, "message": error.args[0]}
    return {
        "text": document.text,
        "page_starts": document.page_starts,
        "warning": document.warning,
        "recognized_pages": document.recognized_pages,
    }


def _send(answers: IO[bytes], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
