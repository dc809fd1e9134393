"""The library of several KVScopes as a server: `python -m cluster library`. Its client is `store/remote_library.py`.

It is the only process that writes documents. A request runs one method of the library in a thread of its own.
"""

import asyncio
import hmac
import logging
import secrets
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event, Lock, Semaphore, Thread
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tokenizers import Tokenizer

from backend.interface.errors import BadSettings
from backend.runtime.loader import RuntimeLoader, model_config
from backend.runtime.secrets import LIBRARY_KEY
from backend.runtime.settings import Settings
from backend.runtime.tasks import TaskRegistry
from engine.model.loading.resolve import resolve
from engine.model.tokenizer import TextTokenizer
from store.catalog.transfer import export_library
from store.data_folder import restrict_access, temporary_folder
from store.document_library import DocumentLibrary
from store.errors import KVScopeError
from store.lock import FolderLock
from store.remote_library import (
    BLOCK_BYTES,
    END,
    HEARTBEAT_S,
    OPERATIONS,
    PATH,
    PROTOCOL,
    PROTOCOL_HEADER,
    Deletions,
    LibraryServer,
    Operation,
    error_line,
    value_line,
)
from store.types import Chunk, Progress

MAX_LINE_BYTES = 2**20  # of arguments
MAX_WAITING = 4  # values for a slow client
GRACE_S = 3  # for running requests at the end
KEPT_PASSAGES = 10_000  # deleted ones, whose texts are remembered until the process ends
HEADERS = {PROTOCOL_HEADER: str(PROTOCOL)}
log = logging.getLogger("kvscope")


class SharedLibrary(DocumentLibrary, LibraryServer):
    """A library that tells what was deleted, for the backends that have KV of it."""

    def __init__(self, root: Path, *arguments: Any) -> None:
        super().__init__(root, *arguments)
        self._data = root.parent
        self._process = secrets.token_hex(8)  # in cursors: those of an earlier process are unknown
        self._deleted = deque[tuple[str, str]](maxlen=KEPT_PASSAGES)  # document id, empty if it exists, and passage
        self._num_deleted = 0
        self._deleted_lock = Lock()

    def delete(self, document_id: str) -> list[Chunk]:
        chunks = super().delete(document_id)
        self._record(document_id, [chunk.passage for chunk in chunks])
        return chunks

    def reindex(self, document_id: str) -> Iterator[Progress]:
        before = [chunk.passage for chunk in self.chunks(document_id)]
        try:
            yield from super().reindex(document_id)
        finally:
            present = {chunk.passage for chunk in self.chunks(document_id)}
            self._record("", [passage for passage in before if passage not in present])

    def deletions(self, cursor: str) -> Deletions:
        with self._deleted_lock:
            process, _, count = cursor.partition("-")
            num_new = self._num_deleted - int(count) if process == self._process and count.isdecimal() else -1
            is_complete = 0 <= num_new <= len(self._deleted)
            new = list(self._deleted)[len(self._deleted) - num_new :] if is_complete else []
            ids = list(dict.fromkeys(each for each, _ in new if each))
            passages = [passage for _, passage in new]
            return Deletions(f"{self._process}-{self._num_deleted}", is_complete, ids, passages)

    def export(self) -> Iterator[bytes]:
        with tempfile.TemporaryFile() as file:
            export_library(self._data, file)
            file.seek(0)
            while block := file.read(BLOCK_BYTES):
                yield block

    def _record(self, document_id: str, passages: Sequence[str]) -> None:
        with self._deleted_lock:
            self._deleted.extend((document_id, passage) for passage in passages)
            self._num_deleted += len(passages)


def library_app(library: SharedLibrary, key: str, max_file_bytes: int) -> Starlette:
    """Return the ASGI application; requests need `key` as bearer token."""
    if not key:
        raise ValueError("the key must not be empty")

    async def call(request: Request) -> Response:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
            return _refusal(401)
        operation = OPERATIONS.get(request.path_params["method"])
        if operation is None:
            return _refusal(404)
        with ExitStack() as files:
            file = files.enter_context(tempfile.NamedTemporaryFile())  # empty if the method takes none
            try:
                line = await _read_body(request, file, max_file_bytes if operation.takes_file else 0)
                arguments = operation.decode(line, Path(file.name))
            except (ValueError, RecursionError):
                return _refusal(400)
            run = _Run(operation, lambda: getattr(library, operation.name)(*arguments), files.pop_all())
        return StreamingResponse(run.lines(), headers=HEADERS, media_type="application/x-ndjson")

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=HEADERS)

    return Starlette(routes=[Route(PATH + "{method}", call, methods=["POST"]), Route("/health", health)])


def _refusal(status: int) -> Response:
    return Response(status_code=status, headers=HEADERS)


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
            if size > max_bytes:
                raise ValueError("the body is too long")
            await asyncio.to_thread(file.write, block)
    file.flush()
    return line


def serve(settings: Settings, key: str, certificate: str = "", certificate_key: str = "") -> None:
    """Serve the library of a data folder until SIGINT or SIGTERM. Raises KVScopeError."""
    if not key:
        raise BadSettings(f"A library server needs a key in {LIBRARY_KEY}, which its clients send.")
    with closing(FolderLock(settings.data)), temporary_folder(settings.data) as temporary:
        restrict_access(settings.data)
        tempfile.tempdir = str(temporary.absolute())
        library = _open(settings)
        app = library_app(library, key, settings.limits.max_file_bytes)
        config = uvicorn.Config(
            app,
            settings.host,
            settings.port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=GRACE_S,
            ssl_certfile=certificate or None,
            ssl_keyfile=certificate_key or None,
        )
        ended = Event()
        filling = Thread(target=_embed_missing, args=[library, ended], name="vectors")
        filling.start()
        log.info("The library of %s is served on %s:%d", settings.data, settings.host, settings.port)
        try:
            uvicorn.Server(config).run()
        finally:
            ended.set()
            filling.join()
            library.close()


def _open(settings: Settings) -> SharedLibrary:
    config = model_config(settings)
    folder = resolve(config.model, config.folder, lambda message, fraction: log.info("%s", message))
    tokenizer = TextTokenizer(Tokenizer.from_file(str(folder / "tokenizer.json"))).data
    library = RuntimeLoader(settings, TaskRegistry(), {}).open_library(tokenizer, SharedLibrary)
    assert isinstance(library, SharedLibrary)
    return library


def _embed_missing(library: SharedLibrary, ended: Event) -> None:
    """Compute the vectors that are missing, as after the loss of the Chroma server's data."""
    try:
        with closing(library.embed_missing()) as steps:
            for _ in steps:
                if ended.is_set():
                    return
    except KVScopeError as error:
        log.warning("vectors are still missing: %s", error)


class _Run:
    """One call of a method, in a thread of its own."""

    def __init__(self, operation: Operation, call: Callable[[], Any], files: ExitStack) -> None:
        self._operation, self._call, self._files = operation, call, files
        self._is_over = Event()  # also when the client has gone
        self._space = Semaphore(MAX_WAITING)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the response's lines; closing this closes the method's iterator at its next value."""
        queue, loop = asyncio.Queue[bytes](), asyncio.get_running_loop()
        Thread(target=self._run, args=[lambda line: loop.call_soon_threadsafe(queue.put_nowait, line)]).start()
        line = b""
        try:
            while not line.startswith((END, b'{"error"')):
                try:
                    line = await asyncio.wait_for(queue.get(), HEARTBEAT_S)
                except TimeoutError:
                    line = b"\n"
                else:
                    self._space.release()
                yield line
        finally:
            self._is_over.set()
            self._space.release()

    def _run(self, send: Callable[[bytes], object]) -> None:
        try:
            with self._files:
                result = self._call()
                if self._operation.yields:
                    with closing(result):
                        for value in result:
                            if not self._send(send, value_line(self._operation, value)):
                                return
                else:
                    self._send(send, value_line(self._operation, result))
            self._send(send, END + b"\n")
        except (KVScopeError, ValueError) as error:
            self._send(send, error_line(error))
        except Exception as error:
            log.exception("%s failed", self._operation.name)
            reason = KVScopeError(f"The library failed ({type(error).__name__}). See its log for details.")
            self._send(send, error_line(reason))

    def _send(self, send: Callable[[bytes], object], line: bytes) -> bool:
        """Send a line as soon as there is space; return False if the client has gone."""
        if not self._is_over.is_set():
            self._space.acquire()
        if self._is_over.is_set():
            return False
        send(line)
        return True
