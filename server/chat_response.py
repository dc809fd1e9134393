"""An answer in OpenAI's shape: whole, or in chunks. What OpenAI has no field for stands under `kvscope`."""

import json
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from engine.request import Answer
from server.errors import Refused, refusal

_TOLD = ("method", "ratio", "realised_ratio", "ttft_ms", "tokens_per_second", "notes", "sources")
_STOPPED = "The answer was stopped before its end: the server is closing, or was told to stop."
END = "data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer under way. `model` is the name that the caller gave."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return a finished answer. Raises Refused (503) for one that was stopped."""
        _check_finished(answer)
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage(answer), "kvscope": told(answer)}

    async def stream(self, answers: AsyncIterator[Answer], include_usage: bool) -> AsyncIterator[str]:
        """Yield server-sent events; their texts joined are the text of the last answer.

        What goes wrong after the first event cannot change the status any more: it comes as an event of its own, and
        no end mark comes after it.
        """
        usage_later: dict[str, Any] = {"usage": None} if include_usage else {}
        sent, answer = "", None
        try:
            yield self._chunk({"role": "assistant", "content": ""}, **usage_later)
            async for answer in answers:
                if more := answer.text[len(sent) :]:
                    yield self._chunk({"content": more}, **usage_later)
                    sent = answer.text
            assert answer is not None
            _check_finished(answer)
        except Exception as error:  # noqa: BLE001  the border to the caller: every error becomes a sentence
            yield _event(refusal(error).body())
            return
        yield self._chunk({}, _reason(answer), kvscope=told(answer), **usage_later)
        if include_usage:
            yield _event({**self._head("chat.completion.chunk"), "choices": [], "usage": usage(answer)})
        yield END

    def _chunk(self, delta: dict[str, str], reason: str | None = None, **beside: Any) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _event({**self._head("chat.completion.chunk"), "choices": [choice], **beside})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def usage(answer: Answer) -> dict[str, Any]:
    """Return the tokens of prompt and answer; those whose KV was found and used as it was count as cached."""
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.new_tokens,
        "total_tokens": answer.prompt_tokens + answer.new_tokens,
        "prompt_tokens_details": {"cached_tokens": sum(source.reused for source in answer.sources)},
    }


def told(answer: Answer) -> dict[str, Any]:
    """Return what the page shows beside an answer: where it came from, how it was computed, and how long that took."""
    known = answer.as_dict()
    return {name: known[name] for name in _TOLD}


def _reason(answer: Answer) -> str:
    return "length" if answer.cut else "stop"


def _check_finished(answer: Answer) -> None:
    if answer.state != "done":
        raise Refused(503, _STOPPED, code="stopped")


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
