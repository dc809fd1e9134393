"""Answers by a model on another server with OpenAI's chat completion API, such as Ollama, llama.cpp or vLLM.

Retrieval, citations and quotes are this engine's; KV of passages is neither reused nor seen. Whoever starts KVScope
names the server: no request can.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import httpx

from engine.engine import Engine
from engine.errors import Cancelled
from engine.generation.evidence import Evidence
from engine.generation.stream import GeneratedText, fill_prompt_fields, grow_text, stream_answer
from engine.method import SERVER_METHOD, MethodInfo
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind, question_kind
from engine.prompt.retrieval import prepare_stages
from engine.prompt.small_talk import reply
from engine.prompt.template import NO_ANSWER
from engine.prompt.validate import validate
from engine.request import Answer, Request
from engine.trace import Trace
from store.errors import KVScopeError

SYSTEM = (
    "Answer the question from the passages, in the language of the question. Be short and exact. "
    f"If the passages do not hold the answer, write only: {NO_ANSWER}"
)
TIMEOUTS = httpx.Timeout(30.0, connect=10.0, read=300.0)  # a large model on a CPU reads passages for minutes
MAX_BYTES = 2 * 2**20  # of a response
MAX_ERROR_CHARS = 300
POLL_S = 0.1
_THOUGHTS = ("<think>", "</think>")  # around what some models write before the answer


class AnswerServerFailed(KVScopeError):
    hint = "Check the server and the flags --answer-server and --answer-server-model, or choose another method."


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
    ) -> Iterator[str]:
        """Yield the pieces of an answer, about a token each; set what `generated` says about its end.

        A thread reads the response; after a cancellation it ends with the next bytes. Raises AnswerServerFailed and
        Cancelled.
        """
        body = {
            "model": self.model,
            "messages": messages,
            "stream": True,
            "max_tokens": max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed,
        }
        received: SimpleQueue[str | Exception | None] = SimpleQueue()

        def read() -> None:
            try:
                for piece in self._read(body, generated, cancel):
                    received.put(piece)
                received.put(None)
            except Exception as error:  # noqa: BLE001  raised below
                received.put(error)

        Thread(target=read, name="answer server", daemon=True).start()
        while True:
            try:
                piece = received.get(timeout=POLL_S)
            except Empty:
                piece = ""
            if cancel.is_set():
                raise Cancelled
            if piece is None:
                return
            if isinstance(piece, httpx.HTTPError):
                reason = "it did not answer in time" if isinstance(piece, httpx.TimeoutException) else str(piece)
                raise AnswerServerFailed(f"The answer server {self.host} cannot be used: {reason}.") from piece
            if isinstance(piece, Exception):
                raise piece
            if piece:
                yield piece

    def _read(self, body: dict[str, Any], generated: GeneratedText, cancel: Event) -> Iterator[str]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with (
            httpx.Client(timeout=TIMEOUTS, trust_env=False) as client,
            client.stream("POST", f"{self.url}/chat/completions", json=body, headers=headers) as response,
        ):
            lines = _lines(response, cancel)
            if response.status_code != httpx.codes.OK:
                raise self._refusal(response.status_code, "\n".join(lines))
            if "text/event-stream" in response.headers.get("content-type", ""):
                events: Iterable[str] = (line.removeprefix("data:").strip() for line in lines if line[:5] == "data:")
            else:  # a server that does not stream
                events = ["\n".join(lines)]
            for data in events:
                if data == "[DONE]":
                    return
                piece, reason = self._parse(data)
                generated.is_cut_off |= reason == "length"
                yield piece

    def _parse(self, data: str) -> tuple[str, str | None]:
        """Return the text of a chunk, or of a whole completion, and why it is the last, if it is."""
        try:
            event = json.loads(data)
            if event.get("error"):
                raise self._refusal(httpx.codes.OK, data)
            choice = (event.get("choices") or [{}])[0]  # the chunk with the usage has none
            message = choice.get("delta") or choice.get("message") or {}
            return message.get("content") or "", choice.get("finish_reason")
        except (ValueError, AttributeError, TypeError, LookupError) as error:
            raise AnswerServerFailed(f"The answer server {self.host} sent something else than an answer.") from error

    def _refusal(self, status: int, text: str) -> AnswerServerFailed:
        reason = text
        try:
            error = json.loads(text)["error"]
            reason = str(error["message"] if isinstance(error, dict) else error)
        except (ValueError, KeyError, TypeError):
            pass
        reason = " ".join(reason.split())[:MAX_ERROR_CHARS]
        code = "" if status == httpx.codes.OK else f" ({status})"
        return AnswerServerFailed(f"The answer server {self.host} refused the question{code}: {reason or 'no reason'}.")


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
    local = replace(request, method="full", options={}, draft=False)  # what searching and packing know
    validate(local)
    answer = Answer(request, Trace())
    yield answer
    try:
        yield from _run(engine, server, local, answer, cancel)
        answer.state = "done"
    except Cancelled:
        answer.state = "stopped"
    yield answer


def _run(engine: Engine, server: AnswerServer, local: Request, answer: Answer, cancel: Event) -> Iterator[Answer]:
    trace = answer.trace
    if question_kind(local.question) is QuestionKind.SMALL_TALK:
        answer.text = reply(local.question, engine.finder)
        trace.first_token()
        return
    *_, prepared = prepare_stages(engine.finder, engine.template, local, server.context, trace)
    fill_prompt_fields(answer, prepared, len(engine.template.prefix_ids), server.context)
    yield answer

    @cache
    def evidence() -> Evidence | None:
        if engine.grounding is None:
            return None
        with trace.stage("ground"):
            return engine.grounding.evidence(prepared, cancel)

    generated = GeneratedText()
    pieces = _without_thoughts(server.stream(_messages(prepared), local, prepared.max_new_tokens, generated, cancel))
    with trace.stage("answer server"):
        first = next(pieces, "")
    trace.first_token()
    answer.state = "writing"
    yield answer

    def counted() -> Iterator[str]:
        for piece in chain([first], pieces):
            generated.tokens.append(len(generated.tokens))  # the ids are the server's; only their number is used
            yield piece

    yield from stream_answer(answer, prepared, grow_text(generated, counted()), evidence)
    if not answer.text:
        raise AnswerServerFailed(f"The model {server.model} on {server.host} returned an empty answer.")


def _messages(prepared: PreparedPrompt) -> list[dict[str, str]]:
    names = [hit.chunk.document_name for hit in prepared.hits]
    passages = "\n\n".join(f"{name}:\n{text}" for name, text in zip(names, prepared.texts, strict=True))
    question = f"Passages:\n\n{passages}\n\nQuestion: {prepared.standalone_question}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def _without_thoughts(pieces: Iterable[str]) -> Iterator[str]:
    """Yield an answer without the reasoning that some models write before it, and without blank space at its start."""
    start, end = _THOUGHTS
    text, is_answer = "", False
    for piece in pieces:
        if is_answer:
            yield piece
            continue
        text = (text + piece).lstrip()
        if text.startswith(start):
            if end not in text:
                continue
            text = text.partition(end)[2].lstrip()
        if text and not start.startswith(text):
            is_answer = True
            yield text
    if not is_answer and not text.startswith(start):
        yield text


def _lines(response: httpx.Response, cancel: Event) -> Iterator[str]:
    """Yield the lines of a response. Raises AnswerServerFailed beyond MAX_BYTES, and Cancelled."""
    pending, size = "", 0
    for text in response.iter_text():
        if cancel.is_set():
            raise Cancelled
        size += len(text)
        if size > MAX_BYTES:
            raise AnswerServerFailed("The answer server sent more than an answer can have.")
        *lines, pending = (pending + text).split("\n")
        yield from lines
    yield pending
