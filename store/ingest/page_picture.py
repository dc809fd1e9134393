"""Draw a page of a PDF in a process of its own, with limits on its time, memory and output."""

import json
import sys
from contextlib import suppress
from threading import BoundedSemaphore, Timer

from store.ingest.isolated import start_worker

COMMAND = (sys.executable, "-m", "store.ingest.pdf.picture")
TIMEOUT_S = 20.0
WAIT_S = 5.0  # for a place: it takes up a thread of the server
MAX_BYTES = 20 * 2**20
PNG_END = b"IEND\xaeB`\x82"
_AT_A_TIME = BoundedSemaphore(2)


def page_picture(data: bytes, page_index: int, quote: str) -> bytes | None:
    """Return the page, from 0, as PNG with the quote marked; None if it cannot be drawn, or if two others take long."""
    if not _AT_A_TIME.acquire(timeout=WAIT_S):
        return None
    try:
        return _draw(data, json.dumps({"page": page_index, "quote": quote}).encode() + b"\n")
    finally:
        _AT_A_TIME.release()


def _draw(data: bytes, request: bytes) -> bytes | None:
    with start_worker(COMMAND) as process:
        assert process.stdin is not None and process.stdout is not None
        timer = Timer(TIMEOUT_S, process.kill)
        timer.start()
        try:
            with suppress(OSError):  # it may end before it has read all
                process.stdin.write(request + data)
                process.stdin.close()
            picture = process.stdout.read(MAX_BYTES)
        finally:
            timer.cancel()
            process.kill()
    return picture if picture.endswith(PNG_END) else None
