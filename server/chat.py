"""Chat completions in OpenAI's format: requests as questions about the documents, and answers as responses.

OpenAI's clients can choose only a model, so the method and its recompute ratio are part of the model's name: `kvscope`,
`kvscope/cacheblend`, `kvscope/cacheblend@15` (per cent). The last user message is the question, earlier messages are
the history. System and developer messages are refused: the shared prefix contains the instructions, and all stored KV
was computed after it. KVScope's own fields are under `kvscope`; `chat_fields` has those that are not implemented.
"""

import json
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from engine.method import MethodInfo, default_method, local_methods
from engine.request import Answer, ChatTurn, Request
from server.chat_fields import check_fields
from server.errors import ApiError, to_api_error

OWNER = "kvscope"
_MODEL_NAME = re.compile(rf"{OWNER}(?:/(?P<method>[\w.-]+))?(?:@(?P<percent>\d+(?:\.\d+)?))?")
_DEFAULTS = Request(question="")
_ROLES = ("user", "assistant")
_SYSTEM_ROLES = ("system", "developer")
_NO_INSTRUCTIONS = (
    "KVScope cannot follow a {role} message: all stored KV was computed after its own instructions. "
    "Remove the message, or write what matters into the question."
)
_KVSCOPE_FIELDS = (
    *("method", "ratio", "realised_ratio", "ttft_ms", "tokens_per_second", "notes", "draft", "sources"),
    *("confidence", "quotes", "alternatives"),
)


class ChatMessage(BaseModel):
    """One message of the conversation."""

    model_config = ConfigDict(extra="allow")

    role: str = Field(description="user or assistant; messages of the roles system and developer must be empty")
    content: Any = Field(default=None, description="a string, or a list of parts of the type text")


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(extra="allow")

    include_usage: bool | None = Field(default=None, description="send the token counts in a last chunk")


class KVScopeOptions(BaseModel):
    """Options without an OpenAI field (in the openai client: `extra_body={"kvscope": {...}}`)."""

    model_config = ConfigDict(extra="forbid")

    passages: int = Field(default=_DEFAULTS.passages, description="number of passages to retrieve")
    options: dict[str, Any] = Field(default_factory=dict, description="parameters of the method")
    documents: list[str] = Field(default_factory=list, description="ids of the documents to search; all if empty")
    draft: bool = Field(default=False, description="also send a draft from cached KV, before it is verified")


class ChatRequest(BaseModel):
    """The body of a chat completion request. Other fields are refused, unless they do not change the answer."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(default=OWNER, description="kvscope, kvscope/METHOD or kvscope/METHOD@PERCENT")
    messages: list[ChatMessage] = Field(min_length=1, description="the conversation; the last message is the question")
    stream: bool | None = Field(default=None, description="send the answer as server-sent events")
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(default=None, description="0, greedy decoding, by default")
    top_p: float | None = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    max_tokens: int | None = Field(default=None, description="maximum tokens of the answer")
    max_completion_tokens: int | None = Field(default=None, description="takes precedence over max_tokens")
    kvscope: KVScopeOptions | None = None

    def to_request(self, methods: Sequence[MethodInfo]) -> Request:
        """Return the request to the engine. Raises ApiError if a field is unsupported or invalid."""
        check_fields(self.model_extra)
        if self.stream_options:
            check_fields(self.stream_options.model_extra, "stream_options.")
        method, ratio = parse_model(self.model, methods)
        question, history = _conversation(self.messages)
        options = self.kvscope or KVScopeOptions()
        max_tokens = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        return Request(
            question=question,
            method=method.name,
            recompute_ratio=ratio,
            passages=options.passages,
            max_new_tokens=_DEFAULTS.max_new_tokens if max_tokens is None else max_tokens,
            temperature=_DEFAULTS.temperature if self.temperature is None else self.temperature,
            top_p=_DEFAULTS.top_p if self.top_p is None else self.top_p,
            seed=self.seed or _DEFAULTS.seed,
            options=options.options,
            documents=tuple(options.documents),
            history=history,
            draft=options.draft,
        )


def parse_model(model: str, methods: Sequence[MethodInfo]) -> tuple[MethodInfo, float]:
    """Return the method and recompute ratio of a model name. Raises ApiError (404) if there is no such model."""

    def not_found(hint: str) -> ApiError:
        message = f"The model {model!r} does not exist. {hint}"
        return ApiError(404, message, code="model_not_found", param="model")

    match = _MODEL_NAME.fullmatch(model)
    usual = local_methods(methods) if match and match["percent"] else methods  # a ratio is of a method of this machine
    name = (match["method"] or default_method(usual).name) if match else None
    method = next((each for each in methods if each.name == name), None)
    if match is None or method is None:
        names = ", ".join(each.name for each in methods)
        raise not_found(f"Use {OWNER}, or {OWNER}/METHOD with one of: {names}.")
    if match["percent"] is None:
        return method, default_ratio(method)
    if not method.has_ratio:
        raise not_found(f"This method has no recompute ratio; use {OWNER}/{method.name}.")
    if float(match["percent"]) > 100:
        raise not_found("The number after @ is a percentage, 0 to 100.")
    return method, float(match["percent"]) / 100


def default_ratio(method: MethodInfo) -> float:
    """Return the recompute ratio, 0 to 1, of a request that names none."""
    defaults = {param.name: param.default for param in method.params}
    return float(defaults.get("ratio", _DEFAULTS.recompute_ratio))


def _conversation(messages: Sequence[ChatMessage]) -> tuple[str, tuple[ChatTurn, ...]]:
    """Return the question and the turns before it. Consecutive messages of one role are joined."""
    spoken: list[tuple[str, str]] = []
    for i, message in enumerate(messages):
        place = f"messages.{i}."
        if message.role not in (*_ROLES, *_SYSTEM_ROLES):
            known = ", ".join((*_ROLES, *_SYSTEM_ROLES))
            raise ApiError(400, f"The role {message.role!r} is not one of {known}.", param=f"{place}role")
        check_fields(message.model_extra, place)
        text = _text(message.content, f"{place}content")
        if message.role in _ROLES:
            spoken.append((message.role, text))
        elif text.strip():
            raise ApiError(400, _NO_INSTRUCTIONS.format(role=message.role), param=f"{place}role")
    if not spoken or spoken[-1][0] != "user":
        raise ApiError(400, "The last message must have the role 'user': it is the question.", param="messages")
    texts = ["\n\n".join(text for _, text in run) for _, run in groupby(spoken, key=itemgetter(0))]
    has_greeting = spoken[0][0] == "assistant"
    *earlier, question = texts[has_greeting:]
    return question, tuple(map(ChatTurn, earlier[::2], earlier[1::2]))


def _text(content: Any, param: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ApiError(400, "The content of a message must be a string or a list of text parts.", param=param)
    for i, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text" or not isinstance(part.get("text"), str):
            message = f"Only parts of the type 'text' are supported, not {kind!r}."
            raise ApiError(400, message, param=f"{param}.{i}")
        check_fields({name: part[name] for name in part if name not in ("type", "text")}, f"{param}.{i}.")
    return "\n".join(part["text"] for part in content)


def completion_body(model: str, answer: Answer) -> dict[str, Any]:
    """Return the JSON body for a finished answer; `model` is the client's. Raises ApiError (503) if it was stopped."""
    check_finished(answer)
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(answer)}
    fields = {"choices": [choice], "usage": _usage(answer), "kvscope": _kvscope_fields(answer)}
    return _head("chat.completion", model) | fields


def completion_events(model: str, answers: Iterable[Answer], include_usage: bool) -> Iterator[str]:
    """Yield server-sent events whose texts, joined, are the text of the last answer.

    What was sent of an answer that repeats itself, or that was reasoning, remains; what replaces it follows after an
    empty line.
    A draft is sent piece by piece as `kvscope.draft_delta`, in events without text.
    After the first event the status cannot change any more: an error is sent as an event, without an end mark.
    """
    head = _head("chat.completion.chunk", model)
    if include_usage:
        head["usage"] = None
    sent = sent_draft = gap = ""
    try:
        yield _event(head, choices=_choices({"role": "assistant", "content": ""}))
        for answer in answers:
            if answer.draft and (new_draft := answer.draft.text[len(sent_draft) :]):
                yield _event(head, choices=_choices({}), kvscope={"draft_delta": new_draft})
                sent_draft = answer.draft.text
            if sent and not answer.text:
                sent, gap = "", "\n\n"
            if new_text := _text_after(sent, answer):
                yield _event(head, choices=_choices({"content": gap + new_text}))
                sent, gap = answer.text, ""
        check_finished(answer)
    except Exception as error:  # noqa: BLE001  sent to the client
        yield _event(to_api_error(error).body())
        return
    yield _event(head, choices=_choices({}, _finish_reason(answer)), kvscope=_kvscope_fields(answer))
    if include_usage:
        yield _event(head, choices=[], usage=_usage(answer))
    yield "data: [DONE]\n\n"


def _text_after(sent: str, answer: Answer) -> str:
    """Return the text to send next."""
    if answer.text.startswith(sent):
        return answer.text[len(sent) :]
    is_replaced = answer.is_quoted and not sent.startswith(answer.text)
    return f"\n\n{answer.text}" if is_replaced else ""


def _head(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{secrets.token_hex(12)}", "object": kind, "created": int(time.time()), "model": model}


def _choices(delta: dict[str, str], finish_reason: str | None = None) -> list[dict[str, Any]]:
    return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]


def _usage(answer: Answer) -> dict[str, Any]:
    """Return the token counts; cached tokens are those whose cached KV was reused."""
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.new_tokens,
        "total_tokens": answer.prompt_tokens + answer.new_tokens,
        "prompt_tokens_details": {"cached_tokens": sum(source.reused_tokens for source in answer.sources)},
    }


def _kvscope_fields(answer: Answer) -> dict[str, Any]:
    fields = answer.as_dict()
    return {name: fields[name] for name in _KVSCOPE_FIELDS}


def _finish_reason(answer: Answer) -> str:
    return "length" if answer.truncated else "stop"


def check_finished(answer: Answer) -> None:
    """Raise ApiError (503) if an answer was stopped."""
    if answer.state != "done":
        message = "The answer was stopped before its end: the server is closing, or its settings were changed."
        raise ApiError(503, message, code="stopped")


def _event(data: dict[str, Any], **fields: Any) -> str:
    return f"data: {json.dumps(data | fields)}\n\n"
