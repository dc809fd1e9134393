"""A question made ready: checked, its passages tokenised and fitted into the model's context."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.errors import BadRequest, DocumentTooLong, QuestionTooLong
from engine.method import params_of
from engine.model.tokenizer import Encoded
from engine.prompt.followups import ContextualQuestion, with_history
from engine.prompt.template import MAX_QUERY_ROWS, Prompt
from engine.request import ChatTurn, Request
from engine.strategies import STRATEGIES, Strategy
from store.types import Hit

MAX_PASSAGES = 64
MAX_NEW_TOKENS = 4096
_HALF = re.compile("[\ud800-\udfff]")  # one half of a character: a lone surrogate
MIN_ANSWER_TOKENS = 16  # tokens of an answer that every question leaves room for, or as many as are asked for
NOTHING_AT_ALL = "No passage was found: the answer comes from the model alone. Add documents first."
NOTHING_CHOSEN = "No passage was found in the chosen documents: the answer comes from the model alone."


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """What the model will read, in prompt order, and how much room its answer has.

    texts     as tokenised, stripped
    asked     the question as the auxiliary model reads it, with what it leans on
    alone     the question without that
    question  ids of everything behind the passages
    room      tokens of the answer
    left_out  passages that were found and did not fit
    """

    texts: tuple[str, ...]
    passages: tuple[Encoded, ...]
    standalone_question: str
    original_question: str
    suffix_ids: tuple[int, ...]
    max_new_tokens: int
    hits: tuple[Hit, ...] = ()
    notes: tuple[str, ...] = ()
    num_dropped_chunks: int = 0

    @property
    def context_tokens(self) -> int:
        return sum(len(passage.ids) for passage in self.passages)


def same_prompt(one: PreparedPrompt, other: PreparedPrompt) -> bool:
    """Return whether the two are the same prompt; their hits may have other scores."""
    return one.passages == other.passages and one.suffix_ids == other.suffix_ids


def validate(request: Request) -> None:
    """Raise BadRequest for a setting of another kind or outside its range, with the value and the range.

    A program's request comes as JSON, so nothing of it has been what it should be until here.
    """
    if not isinstance(request.question, str):
        raise BadRequest(f"The question must be a text, got {request.question!r}.")
    if not _whole((request.question,)):
        raise BadRequest("The question holds half a character (a lone surrogate). Write it anew.")
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
    seed = request.seed
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise BadRequest(f"The seed must be a whole number of 64 bits, got {seed!r}.")
    for name, share, least, most in (
        ("recompute ratio", request.ratio, 0.0, 1.0),
        ("temperature", request.temperature, 0.0, 5.0),
        ("top-p", request.top_p, 0.01, 1.0),
    ):
        if not isinstance(share, int | float) or not least <= share <= most:  # not a number is in no range
            raise BadRequest(f"The {name} must lie between {least:g} and {most:g}, got {share!r}.")
    validate_scope(request)
    if not isinstance(request.options, Mapping):
        raise BadRequest(f"The method's options must be names with values, got {request.options!r}.")
    strategy_of(request)


def validate_scope(request: Request) -> None:
    """Raise BadRequest where documents, earlier questions or `whole` are not what they should be."""
    if not _texts(request.documents):
        raise BadRequest(f"The documents must be a list of their ids, got {request.documents!r}.")
    if not isinstance(request.earlier, list | tuple):
        raise BadRequest(f"The earlier questions must be a list, got {request.earlier!r}.")
    for exchange in request.earlier:
        texts = isinstance(exchange, ChatTurn) and _texts((exchange.question, exchange.answer))
        if not texts or not _texts(exchange.passages):
            raise BadRequest(f"An earlier question is its text, its answer and its passages' ids, got {exchange!r}.")
        if not _whole((exchange.question, exchange.answer)):
            raise BadRequest("An earlier question holds half a character (a lone surrogate). Write it anew.")
    if not isinstance(request.whole, bool):
        raise BadRequest(f"Whether to read a whole document must be true or false, got {request.whole!r}.")
    if request.whole and len(request.documents) != 1:
        raise BadRequest(f"To read a whole document, choose exactly one; {len(request.documents)} are chosen.")


def _texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _whole(texts: Sequence[str]) -> bool:
    """Return whether the texts can be written as UTF-8, as every tokenizer wants them."""
    return not any(_HALF.search(text) for text in texts)


def strategy_of(request: Request) -> Strategy:
    """Return the request's strategy, with the ratio where the method has one.

    Raises BadRequest for an option that the method does not have, or a value that it may not have.
    """
    build: Callable[..., Strategy] = STRATEGIES[request.method]
    known = [setting.name for setting in params_of(build)]
    for name in request.options:
        if name not in known or name == "ratio":
            has = ", ".join(other for other in known if other != "ratio") or "none"
            raise BadRequest(f"{name!r} is no option of the method {request.method!r}; it has: {has}.")
    try:
        return build(**({"ratio": request.ratio} if "ratio" in known else {}), **request.options)
    except ValueError as error:
        raise BadRequest(f"The option {error}.") from error


def split_budget(prompt: Prompt, request: Request, max_tokens: int) -> tuple[ContextualQuestion, int, int]:
    """Return the question as it will be asked, and the tokens that answer and passages may have beside it.

    Raises QuestionTooLong if the question alone does not fit.
    """
    asked = with_history(prompt, request)
    fixed = len(prompt.prefix) + len(asked.ids)
    if fixed + min(request.max_new_tokens, MIN_ANSWER_TOKENS) > max_tokens:
        raise QuestionTooLong(f"The question has {len(asked.ids)} tokens; the model reads {max_tokens} in all.")
    answer = min(request.max_new_tokens, max_tokens - fixed, max(MIN_ANSWER_TOKENS, (max_tokens - fixed) // 2))
    return asked, answer, max_tokens - fixed - answer


def pack_greedy(lengths: Sequence[int], room: int) -> list[int]:
    """Return which of the passages are read, best first, as long as they fit; a shorter one may follow a left-out."""
    numbers = []
    for number, length in enumerate(lengths):
        if length <= room:
            numbers.append(number)
            room -= length
    return numbers


def in_old_order(hits: Sequence[Hit], numbers: Sequence[int], read: Sequence[str]) -> list[int]:
    """Return the same numbers of hits, those that were read last in front as they stood then.

    A passage changes its place, and takes none: what fits was decided before, best first.
    """
    places = {chunk: place for place, chunk in enumerate(read)}
    return sorted(numbers, key=lambda number: places.get(hits[number].chunk.id, len(places)))


def _tokenised(prompt: Prompt, hits: Sequence[Hit], room: int | None) -> Iterator[Encoded]:
    """Yield the hits' passages; with a room, only as long as all of them can fit: 16 MB would take 20 s to count."""
    tokens = 0
    for number, hit in enumerate(hits, start=1):
        yield (passage := prompt.passage(hit.chunk.text))
        tokens += len(passage.ids)
        if room is not None and tokens > room:
            about = tokens * len(hits) // number
            name = hit.chunk.document_name
            raise DocumentTooLong(f"{name} has about {about} tokens; {room} fit beside the question and its answer.")


def pack(prompt: Prompt, request: Request, hits: Sequence[Hit], max_tokens: int) -> PreparedPrompt:
    """Take hits, best first, as long as they fit beside prefix, question and answer; say what was left out.

    What was read last goes in front, in its order of then, so that its path in the knowledge tree is exact again.

    Raises QuestionTooLong if the question alone does not fit, DocumentTooLong if not all of a whole document does.
    """
    asked, answer, room = split_budget(prompt, request, max_tokens)
    passages = list(_tokenised(prompt, hits, room if request.whole else None))
    lengths = [len(passage.ids) for passage in passages]
    read = request.earlier[-1].passages if request.earlier and not request.whole else ()
    fitting = in_old_order(hits, pack_greedy(lengths, room), read)
    left_out, notes = len(hits) - len(fitting), list(asked.notes)
    if left_out:
        notes.append(f"{left_out} of {len(hits)} passages did not fit into the model's {max_tokens} tokens.")
    if STRATEGIES[request.method].scoring and len(asked.ids) > MAX_QUERY_ROWS:
        notes.append(f"The question is long: only its last {MAX_QUERY_ROWS} tokens choose what is recomputed.")
    if not hits:
        notes.append(NOTHING_CHOSEN if request.documents else NOTHING_AT_ALL)
    return PreparedPrompt(
        texts=tuple(hits[number].chunk.text.strip() for number in fitting),
        passages=tuple(passages[number] for number in fitting),
        standalone_question=asked.text,
        original_question=request.question.strip(),
        suffix_ids=asked.ids,
        max_new_tokens=answer,
        hits=tuple(hits[number] for number in fitting),
        notes=tuple(notes),
        num_dropped_chunks=left_out,
    )
