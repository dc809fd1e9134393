"""A request in OpenAI's shape, turned into a question to the documents.

The last user message is the question, what stands before it the conversation. System and developer messages are left
out: the shared prefix holds the instructions here, and every stored passage was computed behind it. Fields that would
change what the answer looks like, and that nothing here can do, are refused; all others that are unknown are ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.method import MethodInfo
from engine.request import ChatTurn, Request
from server.errors import Refused
from server.models import OWNER, choose

_DEFAULTS = Request(question="")
_UNHEARD = ("system", "developer")
_CANNOT = {  # field -> values that ask for nothing
    "n": (None, 1),
    "stop": (None, "", []),
    "tools": (None, []),
    "functions": (None, []),
    "logprobs": (None, False),
    "response_format": (None, {"type": "text"}),
    "modalities": (None, ["text"]),
}


class Message(BaseModel):
    """One turn of the conversation, as a client tells it."""

    role: str
    content: Any = None


class StreamOptions(BaseModel):
    """`include_usage` asks for the tokens in a last chunk of their own."""

    include_usage: bool | None = None


class Extras(BaseModel):
    """What OpenAI has no field for (`extra_body={"kvscope": {...}}`); a misspelt name is an error.

    options    the method's own settings by name, as list_methods gives them
    documents  ids of the documents to search, as list_documents gives them; none: all
    """

    model_config = ConfigDict(extra="forbid")

    passages: int = _DEFAULTS.passages
    options: dict[str, Any] = Field(default_factory=dict)
    documents: list[str] = Field(default_factory=list)


class Chat(BaseModel):
    """The body of POST /v1/chat/completions. Unlike OpenAI's, an absent temperature is 0."""

    model_config = ConfigDict(extra="allow")

    model: str = OWNER
    messages: list[Message] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    kvscope: Extras | None = None

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def request(self, methods: Sequence[MethodInfo]) -> Request:
        """Return the question. Raises Refused for what cannot be asked here."""
        chosen, extras = choose(self.model, methods), self.kvscope or Extras()
        asked, earlier = _conversation(self.messages)
        length = self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens
        return Request(
            question=asked,
            method=chosen.method,
            ratio=chosen.ratio,
            passages=extras.passages,
            max_new_tokens=_DEFAULTS.max_new_tokens if length is None else length,
            temperature=_DEFAULTS.temperature if self.temperature is None else self.temperature,
            top_p=_DEFAULTS.top_p if self.top_p is None else self.top_p,
            seed=self.seed or _DEFAULTS.seed,
            options=extras.options,
            documents=tuple(extras.documents),
            earlier=earlier,
        )


def read(body: bytes) -> Chat:
    """Return the request in a JSON body. Raises Refused (400) that names the field that is wrong."""
    try:
        chat = Chat.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Refused(400, f"{place or 'The body'}: {first['msg']}.", param=place or None) from None
    _check_ability(chat.model_extra or {})
    return chat


def _check_ability(others: Mapping[str, Any]) -> None:
    for field, nothing in _CANNOT.items():
        if field in others and others[field] not in nothing:
            raise Refused(400, f"KVScope cannot do what {field!r} asks for; leave it out.", param=field)


def _conversation(messages: Sequence[Message]) -> tuple[str, tuple[ChatTurn, ...]]:
    """Return the question and what was said before it. Several user messages in a row are one question."""
    turns: list[tuple[str, list[str]]] = []
    for number, message in enumerate(messages):
        if message.role in _UNHEARD:
            continue
        place = f"messages.{number}"
        if message.role not in ("user", "assistant"):
            known = ", ".join(("user", "assistant", *_UNHEARD))
            raise Refused(400, f"The role {message.role!r} is not one of {known}.", param=f"{place}.role")
        if not turns or turns[-1][0] != message.role:
            turns.append((message.role, []))
        turns[-1][1].append(_text(message.content, f"{place}.content"))
    if not turns or turns[-1][0] != "user":
        raise Refused(400, "The last message must be the user's: it is the question.", param="messages")
    said = ["\n\n".join(parts) for _, parts in turns[turns[0][0] == "assistant" :]]  # a greeting is no answer
    return said[-1], tuple(ChatTurn(*pair) for pair in zip(said[:-1:2], said[1::2], strict=True))


def _text(content: Any, place: str) -> str:
    """Return a message's text: a string, or parts of which all are text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise Refused(400, "A message's content must be a text, or a list of text parts.", param=place)
    for number, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text" or not isinstance(part.get("text"), str):
            said = f"Only parts of the type 'text' can be read here, not {kind!r}."
            raise Refused(400, said, param=f"{place}.{number}")
    return "\n".join(part["text"] for part in content)
