"""The library of another process, `cluster/library_server.py`: each method of `LibraryServer` is one request.

POST /v1/library/METHOD has a JSON array of the arguments in the first line of its body; a method that takes a file has
the file's bytes after it. The response is JSON lines: {"value": ...} for what the method returns, or for each value
that it yields, then {"end": true}, or {"error": the exception's class, "message": ...}. An empty line is a sign of
life. A method that yields computes its next value after POST /v1/library/RUN/next, where RUN is in the response's
headers; /v1/library/RUN/close closes its iterator, and returns when that is done. So does the end of the
connection.
"""

import inspect
import json
import ssl
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast, get_args, get_origin, get_type_hints

import httpx
from pydantic import ConfigDict, TypeAdapter

from store import errors
from store.catalog.transfer import ImportFailed
from store.errors import KVScopeError, LibraryUnavailable, UnreadableDocument
from store.library import Library
from store.types import Document

PROTOCOL = 1  # changes with the methods and their types
PROTOCOL_HEADER, RUN_HEADER = "kvscope-library", "kvscope-run"
PATH = "/v1/library/"
HEARTBEAT_S = 2.0  # between two signs of life
TIMEOUTS = httpx.Timeout(10.0, connect=3.0, pool=None)
RETRY_S = 1.0  # after a failure, in which calls fail at once
BLOCK_BYTES = 2**18
VALUE, END = b'{"value":', b'{"end":true}'
ERRORS: dict[str, type[Exception]] = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, KVScopeError) and value is not errors.FolderInUse
} | {"ImportFailed": ImportFailed, "ValueError": ValueError}


@dataclass(frozen=True, slots=True)
class Deletions:
    """What was deleted since an earlier call."""

    cursor: str  # for the next call
    is_complete: bool  # False: the server does not know all that was deleted since then
    document_ids: list[str]
    passages: list[str]  # of deleted documents, and those that re-indexed ones do not have any more


@dataclass(frozen=True, slots=True)
class DocumentList:
    """The documents at some time."""

    version: str  # of the library; it changes with every document
    documents: list[Document] | None  # None: as in the version that the client has


class LibraryServer(Library, Protocol):
    """A library that several backends use."""

    def documents_since(self, version: str) -> DocumentList:
        """Return all documents, newest first, unless this is still the library's version."""

    def deletions(self, cursor: str) -> Deletions:
        """Return what was deleted since the call that returned `cursor`; everything is unknown to an empty one."""

    def export(self) -> Iterator[bytes]:
        """Yield the parts of an export of all documents (`store.catalog.transfer`). Raises ExportFailed."""


class Operation:
    """A method of `LibraryServer` as it is sent: how to read its arguments and its values."""

    def __init__(self, name: str, method: Any) -> None:
        hints = get_type_hints(method)
        returned = hints.pop("return")
        self.name = name
        self.yields = get_origin(returned) in (Iterator, Generator)
        self.takes_file = Path in hints.values()
        self.value = _adapter(get_args(returned)[0] if self.yields else returned)
        self._signature = inspect.signature(method)
        self._arguments = [(name, None if hint is Path else _adapter(hint)) for name, hint in hints.items()]

    def encode(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[bytes, Path | None]:
        """Return the arguments as a line, and the file. Raises TypeError as a call would."""
        bound = self._signature.bind(None, *arguments, **named)
        bound.apply_defaults()
        values = [
            None if adapter is None else adapter.dump_python(bound.arguments[name], mode="json")
            for name, adapter in self._arguments
        ]
        paths = [bound.arguments[name] for name, adapter in self._arguments if adapter is None]
        return json.dumps(values).encode() + b"\n", paths[0] if paths else None

    def decode(self, line: bytes, file: Path) -> list[Any]:
        """Return the arguments of a line, with the file's path. Raises ValueError."""
        values = json.loads(line)
        if not isinstance(values, list) or len(values) != len(self._arguments):
            raise ValueError(f"{self.name} takes {len(self._arguments)} arguments")
        return [
            file if adapter is None else adapter.validate_python(value)
            for (_, adapter), value in zip(self._arguments, values, strict=True)
        ]


def _adapter(hint: Any) -> TypeAdapter[Any]:
    """Return the JSON form of a type; bytes are in base64."""
    has_bytes = bytes in (hint, *get_args(hint))
    config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    return TypeAdapter(hint, config=config) if has_bytes else TypeAdapter(hint)


OPERATIONS = {
    name: Operation(name, method)
    for name, method in inspect.getmembers(LibraryServer, inspect.isfunction)
    if not name.startswith("_") and name != "close"
}


def connect(url: str, key: str) -> LibraryServer:
    """Return the library at an address such as http://10.0.0.5:7870. Raises LibraryUnavailable."""
    library = cast(LibraryServer, _RemoteLibrary(url, key))
    try:
        library.info()
    except BaseException:
        library.close()
        raise
    return library


class _RemoteLibrary:
    """Has the methods of `LibraryServer`. They raise what these raise, and LibraryUnavailable."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self._url = url.rstrip("/")
        limits = httpx.Limits(max_connections=None)
        context = ssl.create_default_context()  # with the certificates of SSL_CERT_FILE, if it is set
        self._client = httpx.Client(headers=headers, timeout=TIMEOUTS, limits=limits, verify=context, trust_env=False)
        self._retry_at, self._failure = 0.0, ""
        self._listed = DocumentList("", [])

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS:
            raise AttributeError(name)
        return partial(self._call, OPERATIONS[name])

    def documents(self) -> list[Document]:
        """Return all documents, newest first; they are sent again only if there was a change."""
        known = self._listed
        found: DocumentList = self._call(OPERATIONS["documents_since"], known.version)
        if found.documents is not None:
            self._listed = known = found
        return list(known.documents or ())

    def close(self) -> None:
        self._client.close()

    def _call(self, operation: Operation, *arguments: Any, **named: Any) -> Any:
        line, path = operation.encode(arguments, named)
        values = self._values(operation, line, path)
        if operation.yields:
            return values
        (value,) = values  # to the end, or the connection could not be used again
        return value

    def _values(self, operation: Operation, line: bytes, path: Path | None) -> Generator[Any]:
        if time.monotonic() < self._retry_at:
            raise LibraryUnavailable(self._failure)
        try:
            content = _body(line, path) if path else line
            with self._client.stream("POST", self._url + PATH + operation.name, content=content) as response:
                self._check(response)
                run, is_over = response.headers[RUN_HEADER], False
                try:
                    for line in _lines(response.iter_bytes()):
                        if line.startswith(VALUE):
                            yield operation.value.validate_json(line.removeprefix(VALUE)[:-1])
                            if operation.yields:
                                self._tell(run, "next")
                        else:
                            is_over = True
                            if line != END:
                                error = json.loads(line)
                                raise ERRORS.get(error["error"], KVScopeError)(error["message"])
                finally:
                    if not is_over:
                        with suppress(httpx.HTTPError):
                            self._tell(run, "close")
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            self._failure = f"The library at {self._url} does not answer ({reason})."
            self._retry_at = time.monotonic() + RETRY_S
            raise LibraryUnavailable(self._failure) from error
        if not is_over:
            raise LibraryUnavailable(f"The library at {self._url} ended while it answered.")

    def _tell(self, run: str, what: str) -> None:
        self._client.post(f"{self._url}{PATH}{run}/{what}")

    def _check(self, response: httpx.Response) -> None:
        """Raise LibraryUnavailable for what is no answer of a library of this version."""
        protocol = response.headers.get(PROTOCOL_HEADER, "")
        if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:  # of a proxy, or of the library
            raise LibraryUnavailable(f"The library at {self._url} answers with status {response.status_code}.")
        if not protocol.isdecimal():
            raise LibraryUnavailable(f"The server at {self._url} is not a KVScope library.")
        if int(protocol) != PROTOCOL:
            older = "this KVScope" if int(protocol) > PROTOCOL else "the library"
            versions = f"it has protocol {protocol}, this KVScope has {PROTOCOL}"
            raise LibraryUnavailable(f"The library at {self._url} has another version ({versions}). Update {older}.")
        if response.status_code == httpx.codes.UNAUTHORIZED:
            raise LibraryUnavailable(
                f"The library at {self._url} refuses the key; KVSCOPE_LIBRARY_KEY must be the same."
            )
        if response.status_code != httpx.codes.OK:
            raise LibraryUnavailable(f"The library at {self._url} answers with status {response.status_code}.")


def _body(line: bytes, path: Path) -> Iterator[bytes]:
    yield line
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                yield block
    except OSError as error:
        raise UnreadableDocument(f"The file cannot be read ({error.strerror}).") from error


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield complete lines but empty ones."""
    parts: list[bytes] = []  # of the last line; it may be long
    for block in blocks:
        *complete, rest = block.split(b"\n")
        for line in complete:
            yield from filter(None, [b"".join([*parts, line])])
            parts = []
        parts.append(rest)


def value_line(operation: Operation, value: Any) -> bytes:
    """Return the line of a value."""
    return VALUE + operation.value.dump_json(value) + b"}\n"


def error_line(error: Exception) -> bytes:
    """Return the line of an error that the client is to raise."""
    name = type(error).__name__
    message = str(error.args[0]) if name in ERRORS and error.args else str(error)
    return json.dumps({"error": name, "message": message}).encode() + b"\n"
