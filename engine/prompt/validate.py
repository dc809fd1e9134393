"""Check a request before anything is computed. Requests come from JSON, so types are checked as well as ranges."""

import re
from collections.abc import Callable, Mapping
from types import UnionType

from engine.errors import BadRequest
from engine.method import list_params
from engine.request import ChatTurn, Request
from engine.strategies import STRATEGIES, Strategy

MAX_PASSAGES = 64
MAX_NEW_TOKENS = 4096
SURROGATE = re.compile("[\ud800-\udfff]")  # an unpaired one cannot be encoded as UTF-8, which tokenizers require


def validate(request: Request) -> None:
    """Raise BadRequest if a field has the wrong type or is out of range; the message names the value and the range."""
    if not isinstance(request.question, str):
        raise BadRequest(f"The question must be a string, got {request.question!r}.")
    if SURROGATE.search(request.question):
        raise BadRequest("The question contains half a character (an unpaired surrogate). Type it again.")
    if not request.question.strip():
        raise BadRequest("The question is empty. Type a question, then press Enter.")
    if request.method not in list(STRATEGIES):
        raise BadRequest(f"The method {request.method!r} is not one of {', '.join(STRATEGIES)}.")
    for name, value, types, low, high in (
        ("number of passages", request.passages, int, 1, MAX_PASSAGES),
        ("answer length", request.max_new_tokens, int, 1, MAX_NEW_TOKENS),
        ("recompute ratio", request.recompute_ratio, int | float, 0.0, 1.0),
        ("temperature", request.temperature, int | float, 0.0, 5.0),
        ("top-p", request.top_p, int | float, 0.01, 1.0),
    ):
        if not _is_number(value, types) or not low <= value <= high:  # NaN is in no range
            kind = "a whole number between" if types is int else "between"
            raise BadRequest(f"The {name} must be {kind} {low:g} and {high:g}, got {value!r}.")
    if not _is_number(request.seed, int) or not -(2**63) <= request.seed < 2**63:
        raise BadRequest(f"The seed must be a 64-bit integer, got {request.seed!r}.")
    validate_scope(request)
    if not isinstance(request.draft, bool):
        raise BadRequest(f"Whether to write a draft must be true or false, got {request.draft!r}.")
    if not isinstance(request.options, Mapping):
        raise BadRequest(f"The method's options must map names to values, got {request.options!r}.")
    build_strategy(request)


def validate_scope(request: Request) -> None:
    """Raise BadRequest if `documents`, `history` or `whole_document` is malformed."""
    if not _are_strings(request.documents):
        raise BadRequest(f"The documents must be a list of their ids, got {request.documents!r}.")
    if not isinstance(request.history, list | tuple):
        raise BadRequest(f"The earlier questions must be a list, got {request.history!r}.")
    for turn in request.history:
        has_texts = isinstance(turn, ChatTurn) and _are_strings((turn.question, turn.answer))
        if not has_texts or not _are_strings(turn.chunk_ids):
            raise BadRequest("An earlier turn must have a question, an answer and passage ids.")
        if SURROGATE.search(turn.question + "\n" + turn.answer):
            raise BadRequest("An earlier question contains half a character (an unpaired surrogate). Type it again.")
    if not isinstance(request.whole_document, bool):
        raise BadRequest(f"Whether to use the whole document must be true or false, got {request.whole_document!r}.")
    if request.whole_document and len(request.documents) != 1:
        raise BadRequest(f"To use a whole document, choose exactly one; {len(request.documents)} are chosen.")


def _is_number(value: object, types: type | UnionType) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _are_strings(values: object) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)


def build_strategy(request: Request) -> Strategy:
    """Return the request's strategy with its options. Raises BadRequest for an unknown one or a value out of range."""
    strategy: Callable[..., Strategy] = STRATEGIES[request.method]
    known = [param.name for param in list_params(strategy)]
    for name in request.options:
        if name not in known or name == "ratio":
            options = ", ".join(other for other in known if other != "ratio") or "none"
            raise BadRequest(f"{name!r} is not an option of the method {request.method!r}; its options: {options}.")
    ratio = {"ratio": request.recompute_ratio} if "ratio" in known else {}
    try:
        return strategy(**ratio, **request.options)
    except ValueError as error:
        raise BadRequest(f"The option {error}.") from error
