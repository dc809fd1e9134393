"""The library of another process, `cluster/library_server.py`: each method of `LibraryServer` is one request.

POST /v1/library/METHOD has a JSON array of the arguments in the first line of its body; a method that takes a file has
the file's bytes after it. The response is JSON lines: {"value": ...} for what the method returns, or for each value
that it yields, then {"end": true}, or {"error": the exception's class, "message": ...}. An empty line is a sign of
life. Closing the connection closes the method's iterator, which leaves no trace of what it has not completed.
"""

import inspect
import json
import ssl
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
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

PROTOCOL = 1  # changes with the methods and their types
PROTOCOL_HEADER = "kvscope-library"
PATH = "/v1/library/"
HEARTBEAT_S = 2.0  # between two signs of life
TIMEOUTS = httpx.Timeout(10.0, connect=3.0, pool=None)
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


class LibraryServer(Library, Protocol):
    """A library that several backends use."""

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
    if not key:
        raise LibraryUnavailable(f"The library at {url} needs a key (KVSCOPE_LIBRARY_KEY).")
    library = cast(LibraryServer, _RemoteLibrary(url, key))
    library.info()
    return library


class _RemoteLibrary:
    """Has the methods of `LibraryServer`. They raise what these raise, and LibraryUnavailable."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self._url = url.rstrip("/")
        limits = httpx.Limits(max_connections=None)
        context = ssl.create_default_context()  # with the certificates of SSL_CERT_FILE, if it is set
        self._client = httpx.Client(headers=headers, timeout=TIMEOUTS, limits=limits, verify=context, trust_env=False)

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS:
            raise AttributeError(name)
        return partial(self._call, OPERATIONS[name])

    def close(self) -> None:
        self._client.close()

    def _call(self, operation: Operation, *arguments: Any, **named: Any) -> Any:
        line, path = operation.encode(arguments, named)
        values = self._values(operation, line, path)
        if operation.yields:
            return values
        with closing(values):
            return next(values)

    def _values(self, operation: Operation, line: bytes, path: Path | None) -> Generator[Any]:
        try:
            content = _body(line, path) if path else line
            with self._client.stream("POST", self._url + PATH + operation.name, content=content) as response:
                self._check(response)
                for line in _lines(response.iter_bytes()):
                    if line.startswith(VALUE):
                        yield operation.value.validate_json(line.removeprefix(VALUE)[:-1])
                    elif line == END:
                        return
                    else:
                        error = json.loads(line)
                        raise ERRORS.get(error["error"], KVScopeError)(error["message"])
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise LibraryUnavailable(f"The library at {self._url} does not answer ({reason}).") from error
        raise LibraryUnavailable(f"The library at {self._url} ended while it answered.")

    def _check(self, response: httpx.Response) -> None:
        """Raise LibraryUnavailable for what is no answer of a library of this version."""
        protocol = response.headers.get(PROTOCOL_HEADER, "")
        if not protocol.isdecimal():
            raise LibraryUnavailable(f"What answers at {self._url} is no library of KVScope.")
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
    rest = b""
    for block in blocks:
        *complete, rest = (rest + block).split(b"\n")
        yield from filter(None, complete)


def value_line(operation: Operation, value: Any) -> bytes:
    """Return the line of a value."""
    return VALUE + operation.value.dump_json(value) + b"}\n"


def error_line(error: Exception) -> bytes:
    """Return the line of an error that the client is to raise."""
    name = type(error).__name__
    message = error.args[0] if name in ERRORS and error.args else str(error)
    return json.dumps({"error": name, "message": message}).encode() + b"\n"
