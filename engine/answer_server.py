"""Answers by a model on another server with OpenAI's chat completion API, such as Ollama, llama.cpp or vLLM.

Retrieval, citations and quotes are this engine's; KV of passages is neither reused nor seen. The command line names the
server: no request can.
"""

import json
import socket
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, islice
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import httpx

from engine.engine import Engine
from engine.errors import AnswerServerFailed, BadRequest, Cancelled
from engine.generation.changes import format_changes
from engine.generation.stream import GeneratedText, fill_prompt_fields, grow_text, stream_answer
from engine.method import SERVER_METHOD, MethodInfo
from engine.prompt.pack import PreparedPrompt, estimate_budget
from engine.prompt.question_kind import QuestionKind, question_kind
from engine.prompt.retrieval import prepare_stages
from engine.prompt.small_talk import reply
from engine.prompt.template import NO_ANSWER
from engine.prompt.validate import validate
from engine.request import Answer, ContextBudget, Request
from engine.trace import Trace

SYSTEM = (
    "Answer the question from the passages, in the language of the question. Be short and exact. "
    f"If the passages do not hold the answer, write only: {NO_ANSWER}"
)
TIMEOUTS = httpx.Timeout(30.0, connect=10.0, read=300.0)  # a large model on a CPU reads passages for minutes
MAX_SECONDS = 1800.0  # for an answer
MAX_BYTES = 2 * 2**20  # of a response
MAX_ERROR_CHARS = 300
MAX_NAME_CHARS = 60  # of a document, above its passages
RESERVED_TOKENS = 64  # for the server's own template
NAME_TOKENS = 24  # about as many as a name has at most
POLL_S = 0.1
_REFUSED_KEY = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
_THOUGHTS = ("<think>", "</think>")  # around what some models write before the answer


@dataclass(frozen=True, slots=True)
class AnswerServer:
    """The address of an API, such as http://127.0.0.1:11434/v1, and the model that is to answer.

    `context` is the number of tokens that the server's model reads and writes, counted by this engine's tokenizer.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    context: int = 4096

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def stream(
        self, messages: list[dict[str, str]], request: Request, max_tokens: int, generated: GeneratedText, cancel: Event
    ) -> Generator[str, None, None]:
        """Yield the pieces of an answer, about a token each; set what `generated` says about its end.

        A thread reads the response. At a cancellation, and if this generator is closed, its connection is cut, so that
        the server stops as well. Raises AnswerServerFailed and Cancelled.
        """
        body = {
            "model": self.model,
            "messages": messages,
            "stream": True,
            "max_tokens": max_tokens,
            "temperature": request.temperature,
        }
        body |= {"top_p": request.top_p} if request.top_p != 1.0 else {}
        body |= {"seed": request.seed} if request.seed else {}  # some services refuse it
        received: SimpleQueue[str | Exception | None] = SimpleQueue()
        sockets: list[socket.socket] = []

        def read() -> None:
            try:
                for piece in self._read(body, generated, sockets):
                    received.put(piece)
                received.put(None)
            except Exception as error:  # noqa: BLE001  raised below
                received.put(error)

        Thread(target=read, name="answer server", daemon=True).start()
        deadline = time.monotonic() + MAX_SECONDS
        try:
            while (piece := self._next(received, deadline, cancel)) is not None:
                yield piece
        finally:
            for each in sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _next(self, received: SimpleQueue[str | Exception | None], deadline: float, cancel: Event) -> str | None:
        """Return the next piece, or None after the last. Raises AnswerServerFailed and Cancelled."""
        while not cancel.is_set():
            if time.monotonic() > deadline:
                raise AnswerServerFailed(f"The answer server {self.host} took longer than {MAX_SECONDS:g} seconds.")
            try:
                piece = received.get(timeout=POLL_S)
            except Empty:
                continue
            if isinstance(piece, httpx.TimeoutException):
                raise AnswerServerFailed(f"The answer server {self.host} did not answer in time.") from piece
            if isinstance(piece, httpx.HTTPError | httpx.InvalidURL | OSError):
                reason = self._shown(str(piece)) or type(piece).__name__
                raise AnswerServerFailed(f"The answer server {self.host} cannot be used: {reason}.") from piece
            if isinstance(piece, Exception):
                raise piece
            return piece
        raise Cancelled

    def _read(self, body: dict[str, Any], generated: GeneratedText, sockets: list[socket.socket]) -> Iterator[str]:
        headers = {"Accept-Encoding": "identity"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"

        def trace(event: str, info: dict[str, Any]) -> None:
            if event.endswith(("connect_tcp.complete", "start_tls.complete")):
                sockets.append(info["return_value"].get_extra_info("socket"))

        with (
            httpx.Client(timeout=TIMEOUTS, trust_env=False) as client,
            client.stream(
                "POST", f"{self.url}/chat/completions", json=body, headers=headers, extensions={"trace": trace}
            ) as response,
        ):
            if response.headers.get("content-encoding", "identity").lower() != "identity":  # it could be of any size
                raise AnswerServerFailed(f"The answer server {self.host} compresses its answer without being asked.")
            lines = self._lines(response)
            if response.status_code != httpx.codes.OK:
                raise self._refusal(response.status_code, "\n".join(lines))
            is_stream = "text/event-stream" in response.headers.get("content-type", "")
            events: Iterable[str] = ["\n".join(lines)] if not is_stream else _events(lines)
            end = None if is_stream else "stop"  # why the answer ends; a stream without an end has been broken off
            for data in events:
                if data == "[DONE]":
                    end = end or "stop"
                    break
                piece, reason = self._parse(data)
                end = reason or end
                if piece:
                    yield piece
            generated.is_cut_off = end in (None, "length")

    def _lines(self, response: httpx.Response) -> Iterator[str]:
        """Yield the lines of a response. Raises AnswerServerFailed beyond MAX_BYTES."""
        parts: list[bytes] = []  # of the line that is not complete
        size = 0
        for part in response.iter_raw():
            size += len(part)
            if size > MAX_BYTES:
                raise AnswerServerFailed(f"The answer server {self.host} sent more than an answer can have.")
            first, *others = part.split(b"\n")
            parts.append(first)
            for other in others:
                yield b"".join(parts).decode("utf-8", "replace")
                parts = [other]
        yield b"".join(parts).decode("utf-8", "replace")

    def _parse(self, data: str) -> tuple[str, str | None]:
        """Return the text of a chunk, or of a whole completion, and why it is the last, if it is."""
        try:
            event = json.loads(data)
            if event.get("error"):
                raise self._refusal(httpx.codes.OK, data)
            choice = (event.get("choices") or [{}])[0]  # the chunk with the usage has none
            message = choice.get("delta") or choice.get("message") or {}
            content = message.get("content") or ""
            if isinstance(content, list):  # parts, of which some services send reasoning
                content = "".join(part.get("text") or "" for part in content if part.get("type") == "text")
            if not isinstance(content, str):
                raise TypeError
            return content, choice.get("finish_reason")
        except (ValueError, AttributeError, TypeError, LookupError, RecursionError) as error:
            raise AnswerServerFailed(f"The answer server {self.host} returned an invalid response.") from error

    def _refusal(self, status: int, text: str) -> AnswerServerFailed:
        if status in _REFUSED_KEY:  # the text may repeat the key
            return AnswerServerFailed(f"The answer server {self.host} refused the key ({status}).")
        reason = text
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            error = json.loads(text)["error"]
            reason = str(error["message"] if isinstance(error, dict) else error)
        code = "" if status == httpx.codes.OK else f" ({status})"
        reason = self._shown(reason) or "no reason"
        return AnswerServerFailed(f"The answer server {self.host} refused the question{code}: {reason}.")

    def _shown(self, text: str) -> str:
        """Return the beginning of what the server says, without the key, for a message."""
        text = text.replace(self.key, "***") if self.key else text
        return _repaired(" ".join(text.split())[:MAX_ERROR_CHARS])


def method_info(server: AnswerServer) -> MethodInfo:
    """Return the method under which requests choose the server; it is the default."""
    about = (
        f"The model {server.model} on {server.host} answers: it is sent the question and the passages found for it. "
        "What its KV cache does is not seen here."
    )
    return MethodInfo(SERVER_METHOD, f"{server.model} (answer server)", about, (), is_default=True)


def ask_server(engine: Engine, server: AnswerServer, request: Request, cancel: Event) -> Iterator[Answer]:
    """Answer as `Engine.ask` does, but by the server's model.

    Raises BadRequest, QuestionTooLong and DocumentTooLong before anything is sent, and AnswerServerFailed.
    """
    local = _local(request)
    validate(local)
    if request.options:
        raise BadRequest(f"The method {request.method!r} has no options.")
    answer = Answer(request, Trace(), answered_by=f"{server.model} on {server.host}")
    yield answer
    try:
        yield from _run(engine, server, local, answer, cancel)
        answer.state = "done"
    except Cancelled:
        answer.state = "stopped"
    yield answer


def server_budget(engine: Engine, server: AnswerServer, request: Request) -> ContextBudget:
    """Return how a request would divide the server's context, without a search. Raises QuestionTooLong."""
    return estimate_budget(engine.finder, engine.template, _local(request), _prompt_budget(engine, server, request))


def _local(request: Request) -> Request:
    """Return what searching and packing know of a request."""
    return replace(request, method="full", options={}, draft=False)


def _prompt_budget(engine: Engine, server: AnswerServer, request: Request) -> int:
    """Return the tokens that this engine's prompt and the answer may have, so that the server's fit its context."""
    template = engine.template
    longer = max(0, len(template.tokenizer.encode(SYSTEM).ids) - len(template.prefix_ids))
    names = NAME_TOKENS * (1 if request.whole_document else request.passages)
    return server.context - longer - RESERVED_TOKENS - min(names, server.context // 8)


def _run(engine: Engine, server: AnswerServer, local: Request, answer: Answer, cancel: Event) -> Iterator[Answer]:
    trace = answer.trace
    if question_kind(local.question) is QuestionKind.SMALL_TALK:
        answer.text = reply(local.question, engine.finder)
        trace.first_token()
        return
    *_, prepared = prepare_stages(engine.finder, engine.template, local, _prompt_budget(engine, server, local), trace)
    fill_prompt_fields(answer, prepared, len(engine.template.prefix_ids), server.context)
    yield answer

    evidence = cache(partial(engine.evidence, prepared, trace, cancel))
    generated, limit = GeneratedText(), prepared.max_new_tokens
    stream = server.stream(_messages(prepared), local, limit, generated, cancel)
    pieces = _without_thoughts(_whole_characters(stream))
    with closing(stream):
        with trace.stage("answer server"):
            first = next(pieces, "")
        trace.first_token()
        answer.state = "writing"
        yield answer

        def counted() -> Iterator[str]:
            for piece in islice(chain([first], pieces), limit):  # some servers ignore the limit
                generated.tokens.append(len(generated.tokens))  # the ids are the server's; only their number is used
                yield piece

        yield from stream_answer(answer, prepared, _texts(generated, counted()), evidence)
    if not answer.text:
        cause = f" within {limit} tokens: allow a longer answer" if generated.is_cut_off else ""
        raise AnswerServerFailed(f"The model {server.model} on {server.host} wrote no answer{cause}.")


def _messages(prepared: PreparedPrompt) -> list[dict[str, str]]:
    parts, last = [], ""
    for hit, text in zip(prepared.hits, prepared.texts, strict=True):
        name = hit.chunk.document_name
        parts.append(text if name == last else f"{name[:MAX_NAME_CHARS]}:\n{text}")
        last = name
    if prepared.changes:
        parts.append(f"What differs between the documents:\n\n{format_changes(prepared.changes)}")
    passages = "\n\n".join(parts)
    question = f"Passages:\n\n{passages}\n\nQuestion: {prepared.standalone_question}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def _events(lines: Iterable[str]) -> Iterator[str]:
    """Yield the data of server-sent events of one line each."""
    return (line.removeprefix("data:").strip() for line in lines if line.startswith("data:"))


def _repaired(text: str) -> str:
    """Return a text with pairs of surrogates joined and single ones replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _whole_characters(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the pieces with characters that were sent in two halves in one."""
    half = ""
    for piece in pieces:
        text = half + piece
        half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        if whole := _repaired(text[: len(text) - len(half)]):
            yield whole


def _without_thoughts(pieces: Iterable[str]) -> Iterator[str]:
    """Yield an answer without the reasoning that some models write before it, and without blank space at its start."""
    start, end = _THOUGHTS
    text, is_thought, is_answer = "", False, False
    for piece in pieces:
        if is_answer:
            yield piece
            continue
        text += piece
        if not is_thought:
            text = text.lstrip().removeprefix(end).lstrip()
            is_thought = text.startswith(start)
        if is_thought and end in text:
            text, is_thought = text.partition(end)[2].lstrip(), False
        if is_thought:
            text = text[-len(end) :]  # enough to find its end
        elif text and not any(mark.startswith(text) for mark in _THOUGHTS):
            is_answer = True
            yield text
    if not is_answer and not is_thought and text:
        yield text


def _texts(generated: GeneratedText, pieces: Iterator[str]) -> Iterator[GeneratedText]:
    """Yield the growing answer, which starts again after a line with the end of reasoning that never began.

    Some chat templates begin it, so that what comes first cannot be told from an answer.
    """
    mark, text, is_thought = f"\n{_THOUGHTS[1]}", "", True

    def until_mark() -> Iterator[str]:
        nonlocal text, is_thought
        for piece in pieces:
            before, found, after = (text + piece).partition(mark)
            if found:
                text, is_thought = after.lstrip(), True
                return
            held = next(size for size in range(len(mark), -1, -1) if before.endswith(mark[:size]))
            text = before[len(before) - held :]
            yield before[: len(before) - held]
        yield text
        text = ""

    while is_thought:
        is_thought, generated.text = False, ""
        if generated.tokens:
            yield generated
        yield from grow_text(generated, until_mark())
