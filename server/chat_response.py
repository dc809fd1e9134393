"""Answers in OpenAI's chat completion format, complete or as chunks. KVScope's own fields are under `kvscope`."""

import json
import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Any

from engine.request import Answer
from server.errors import ApiError, to_api_error

_KVSCOPE_FIELDS = ("method", "ratio", "realised_ratio", "ttft_ms", "tokens_per_second", "notes", "sources")


def completion_body(model: str, answer: Answer) -> dict[str, Any]:
    """Return the JSON body for a finished answer; `model` is the client's. Raises ApiError (503) if it was stopped."""
    _check_finished(answer)
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(answer)}
    fields = {"choices": [choice], "usage": _usage(answer), "kvscope": _kvscope_fields(answer)}
    return _head("chat.completion", model) | fields


def completion_events(model: str, answers: Iterable[Answer], include_usage: bool) -> Iterator[str]:
    """Yield server-sent events whose texts, joined, are the text of the last answer.

    After the first event the status cannot change any more: an error is sent as an event, without an end mark.
    """
    head = _head("chat.completion.chunk", model)
    if include_usage:
        head["usage"] = None
    sent = ""
    try:
        yield _event(head, choices=_choices({"role": "assistant", "content": ""}))
        for answer in answers:
            if new_text := answer.text[len(sent) :]:
                yield _event(head, choices=_choices({"content": new_text}))
                sent = answer.text
        _check_finished(answer)
    except Exception as error:  # noqa: BLE001  sent to the client
        yield _event(to_api_error(error).body())
        return
    yield _event(head, choices=_choices({}, _finish_reason(answer)), kvscope=_kvscope_fields(answer))
    if include_usage:
        yield _event(head, choices=[], usage=_usage(answer))
    yield "data: [DONE]\n\n"


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


def _check_finished(answer: Answer) -> None:
    if answer.state != "done":
        message = "The answer was stopped before its end: the server is closing, or its settings were changed."
        raise ApiError(503, message, code="stopped")


def _event(data: dict[str, Any], **fields: Any) -> str:
    return f"data: {json.dumps(data | fields)}\n\n"
