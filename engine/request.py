"""A question made ready: checked, its passages tokenised and fitted into the model's context."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.answer import Request
from engine.errors import BadRequest, QuestionTooLong
from engine.model.tokens import Encoded
from engine.prompt import ASKED_TOKENS, Prompt
from engine.reuse.strategies import STRATEGIES, Strategy
from engine.setting import settings_of
from store.types import Hit

MAX_PASSAGES = 64
MAX_NEW_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Reading:
    """What the model will read, in prompt order, and how much room its answer has.

    texts     as tokenised, stripped
    asked     the question as the auxiliary model reads it
    question  ids of everything behind the passages
    room      tokens of the answer
    """

    texts: tuple[str, ...]
    passages: tuple[Encoded, ...]
    asked: str
    question: tuple[int, ...]
    room: int
    hits: tuple[Hit, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def context_tokens(self) -> int:
        return sum(len(passage.ids) for passage in self.passages)


def alike(one: Reading, other: Reading) -> bool:
    """Return whether the two are the same prompt; their hits may have other scores."""
    return one.passages == other.passages and one.question == other.question


def check(request: Request) -> None:
    """Raise BadRequest for a setting of another kind or outside its range, with the value and the range.

    A program's request comes as JSON, so nothing of it has been what it should be until here.
    """
    if not isinstance(request.question, str):
        raise BadRequest(f"The question must be a text, got {request.question!r}.")
    if not request.question.strip():
        raise BadRequest("The question is empty. Type a question, then press Enter.")
    if request.method not in list(STRATEGIES):
        raise BadRequest(f"The method {request.method!r} is not one of {', '.join(STRATEGIES)}.")
    for name, value, low, high in (
        ("number of passages", request.passages, 1, MAX_PASSAGES),
        ("answer length", request.max_new_tokens, 1, MAX_NEW_TOKENS),
    ):
        if not isinstance(value, int) or not low <= value <= high:
            raise BadRequest(f"The {name} must be a whole number between {low} and {high}, got {value!r}.")
    for name, share, least, most in (
        ("recompute ratio", request.ratio, 0.0, 1.0),
        ("temperature", request.temperature, 0.0, 5.0),
        ("top-p", request.top_p, 0.01, 1.0),
    ):
        if not isinstance(share, int | float) or not least <= share <= most:  # not a number is in no range
            raise BadRequest(f"The {name} must lie between {least:g} and {most:g}, got {share!r}.")
    if not isinstance(request.options, Mapping):
        raise BadRequest(f"The method's options must be names with values, got {request.options!r}.")
    strategy_of(request)


def strategy_of(request: Request) -> Strategy:
    """Return the request's strategy, with the ratio where the method has one.

    Raises BadRequest for an option that the method does not have, or a value that it may not have.
    """
    build: Callable[..., Strategy] = STRATEGIES[request.method]
    known = [setting.name for setting in settings_of(build)]
    for name in request.options:
        if name not in known or name == "ratio":
            has = ", ".join(other for other in known if other != "ratio") or "none"
            raise BadRequest(f"{name!r} is no option of the method {request.method!r}; it has: {has}.")
    try:
        return build(**({"ratio": request.ratio} if "ratio" in known else {}), **request.options)
    except ValueError as error:
        raise BadRequest(f"The option {error}.") from error


def fit(prompt: Prompt, request: Request, hits: Sequence[Hit], max_tokens: int) -> Reading:
    """Take hits, best first, as long as they fit beside prefix, question and answer; say what was left out.

    Raises QuestionTooLong if the question alone does not fit.
    """
    question = prompt.question(request.question.strip())
    fixed = len(prompt.prefix) + len(question)
    if fixed + min(request.max_new_tokens, 16) > max_tokens:
        raise QuestionTooLong(f"The question has {len(question)} tokens; the model reads {max_tokens} in all.")
    answer = min(request.max_new_tokens, max_tokens - fixed, max(16, (max_tokens - fixed) // 2))
    left, taken = max_tokens - fixed - answer, []
    for hit in hits:
        passage = prompt.passage(hit.chunk.text)
        if len(passage.ids) <= left:
            taken.append((hit, passage))
            left -= len(passage.ids)
    notes = []
    if len(taken) < len(hits):
        notes.append(
            f"{len(hits) - len(taken)} of {len(hits)} passages did not fit into the model's {max_tokens} tokens."
        )
    if STRATEGIES[request.method].scoring and len(question) > ASKED_TOKENS:
        notes.append(f"The question is long: only its last {ASKED_TOKENS} tokens choose what is recomputed.")
    if not hits:
        notes.append("No passage was found: the answer comes from the model alone. Add documents first.")
    return Reading(
        texts=tuple(hit.chunk.text.strip() for hit, _ in taken),
        passages=tuple(passage for _, passage in taken),
        asked=request.question.strip(),
        question=question,
        room=answer,
        hits=tuple(hit for hit, _ in taken),
        notes=tuple(notes),
    )
