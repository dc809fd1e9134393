"""The HTTP interface of a library, as `store/remote_library.py` describes it: runs methods for its clients."""

import asyncio
import hmac
import logging
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import Event, Semaphore, Thread
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from store.errors import DocumentTooLarge, KVScopeError, StoreFull
from store.remote_library import (
    END,
    HEARTBEAT_S,
    OPERATIONS,
    PATH,
    PROTOCOL,
    PROTOCOL_HEADER,
    RUN_HEADER,
    LibraryServer,
    Operation,
    error_line,
    value_line,
)

MAX_LINE_BYTES = 2**20  # of arguments
MAX_COPY_BYTES = 2**30  # of a document's copy, which has its text, too
POLL_S = 0.01
HEADERS = {PROTOCOL_HEADER: str(PROTOCOL)}
log = logging.getLogger("kvscope")


class Runs:
    """The methods that run now."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    def prepare(self, operation: Operation, call: Callable[[], Any], files: ExitStack) -> tuple[str, "_Run"]:
        """Return a new run and its name; it starts with its response, or never if the client has gone before."""
        name = secrets.token_hex(16)
        return name, _Run(name, operation, call, files, self._runs)

    def find(self, name: str) -> "_Run | None":
        return self._runs.get(name)

    def close(self, timeout_s: float) -> None:
        """Close all runs, and wait for them."""
        for run in list(self._runs.values()):
            run.close()
            run.has_ended.wait(timeout_s)


def library_app(library: LibraryServer, key: str, max_file_bytes: int, runs: Runs | None = None) -> Starlette:
    """Return the ASGI application; requests need `key` as bearer token."""
    if not key:
        raise ValueError("the key must not be empty")
    running = runs or Runs()

    def is_allowed(request: Request) -> bool:
        given = request.headers.get("authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {key}".encode())

    async def call(request: Request) -> Response:
        if not is_allowed(request):
            return _respond(401)
        operation = OPERATIONS.get(request.path_params["method"])
        if operation is None:
            return _respond(404)
        max_bytes = {"add": max_file_bytes, "restore": MAX_COPY_BYTES}.get(operation.name, 0)
        with ExitStack() as files:
            try:
                file = files.enter_context(tempfile.NamedTemporaryFile())  # empty if the method takes none
                line = await _read_body(request, file, max_bytes)
                arguments = operation.decode(line, Path(file.name))
            except (ValueError, RecursionError, ClientDisconnect):
                return _respond(400)
            except DocumentTooLarge as error:
                return _respond(200, error_line(error))
            except OSError as error:
                return _respond(200, error_line(StoreFull(f"The library cannot store the file ({error.strerror}).")))
            name, run = running.prepare(
                operation, lambda: getattr(library, operation.name)(*arguments), files.pop_all()
            )
        return StreamingResponse(run.lines(), headers={**HEADERS, RUN_HEADER: name}, media_type="application/x-ndjson")

    async def go_on(request: Request) -> Response:
        if not is_allowed(request):
            return _respond(401)
        if (run := running.find(request.path_params["run"])) is None:
            return _respond(404)
        if request.path_params["what"] == "next":
            run.go_on()
        else:
            run.close()
            while not run.has_ended.is_set():
                await asyncio.sleep(POLL_S)
        return _respond(204)

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=HEADERS)

    routes = [
        Route(PATH + "{method}", call, methods=["POST"]),
        Route(PATH + "{run}/{what}", go_on, methods=["POST"]),
        Route("/health", health),
    ]
    return Starlette(routes=routes)


def _respond(status: int, content: bytes = b"") -> Response:
    return Response(content, status, headers={**HEADERS, RUN_HEADER: ""})


async def _read_body(request: Request, file: Any, max_bytes: int) -> bytes:
    """Return the first line, and write the rest to a file. Raises ValueError if something is too long."""
    line, is_line, size = b"", True, 0
    async for block in request.stream():
        if is_line:
            line += block
            if b"\n" not in line and len(line) > MAX_LINE_BYTES:
                raise ValueError("the arguments are too long")
            if b"\n" in line:
                line, _, block = line.partition(b"\n")
                is_line = False
        if not is_line and block:
            size += len(block)
            if not max_bytes:
                raise ValueError("the method takes no file")
            if size > max_bytes:
                raise DocumentTooLarge(f"The file is above the limit of the library, {max_bytes / 2**20:g} MiB.")
            await asyncio.to_thread(file.write, block)
    file.flush()
    return line


class _Run:
    """One call of a method, in a thread of its own."""

    def __init__(
        self, name: str, operation: Operation, call: Callable[[], Any], files: ExitStack, runs: "dict[str, _Run]"
    ) -> None:
        self.has_ended = Event()
        self._name, self._operation, self._call, self._files = name, operation, call, files
        self._runs = runs  # those that run, itself among them
        self._is_closed = Event()  # by the client, or because it has gone
        self._asked = Semaphore(0)  # for how many further values

    def go_on(self) -> None:
        """Let the iterator go on to its next value."""
        self._asked.release()

    def close(self) -> None:
        """Let the iterator be closed at its present value, or the next one if it computes that."""
        self._is_closed.set()
        self._asked.release()

    async def lines(self) -> AsyncIterator[bytes]:
        """Run the method; yield the response's lines."""
        queue, loop = asyncio.Queue[bytes](), asyncio.get_running_loop()

        def send(line: bytes) -> None:
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(queue.put_nowait, line)

        self._runs[self._name] = self
        Thread(target=self._run, args=[send], daemon=True).start()
        line = b""
        try:
            while not line.startswith((END, b'{"error"')):
                try:
                    line = await asyncio.wait_for(queue.get(), HEARTBEAT_S)
                except TimeoutError:
                    line = b"\n"
                yield line
        finally:
            self.close()

    def _run(self, send: Callable[[bytes], None]) -> None:
        try:
            with self._files:
                result = self._call()
                if not self._operation.yields:
                    send(value_line(self._operation, result))
                    return
                with closing(result):
                    for value in result:
                        send(value_line(self._operation, value))
                        self._asked.acquire()
                        if self._is_closed.is_set():
                            return
        except (KVScopeError, ValueError) as error:
            send(error_line(error))
        except BaseException as error:  # Rust's panics are no Exceptions
            log.exception("%s failed", self._operation.name)
            send(error_line(KVScopeError(f"The library failed ({type(error).__name__}). See its log for details.")))
        finally:
            send(END + b"\n")
            del self._runs[self._name]
            self.has_ended.set()
