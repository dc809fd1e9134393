"""Which earlier questions a new one leans on: "How many does it carry?" means nothing without the one before.

The rule is plain, knows English only, and errs towards leaning, since a question that is understood with the one before
it loses little. A question leans when it opens as a continuation ("And ...", "What about ..."), holds a word that
points back ("it", "they", "there"), or has fewer than two words that tell what it is about.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.prompt.template import NO_ANSWER, Prompt
from engine.request import ChatTurn, Request
from engine.text import CITATION_MARK

OPENING = re.compile(r"(and|but|or|so|also|then|what about|how about|what if|why not)\b")
POINTING = re.compile(
    r"its?|itself|he|him|his|she|hers?|they|them|theirs?|this|these|those|there|then|ones?|former|latter|same|others?"
    r"|another|else|previous|above"
)
SILENT = re.compile(  # words that do not tell what a question is about
    r"a|an|the|of|in|on|at|to|for|from|by|with|about|as|into|per|and|or|but|not|no|yes|any|some|that|more|please"
    r"|i|me|my|we|us|our|you|your|is|are|was|were|be|been|being|do|does|did|has|have|had|can|could|may|might|must"
    r"|shall|should|will|would|wh(at|ich|om|ose|o|en|ere|y)|how|much|many|long|far|often|old|big|tell|say|mean"
    r"|year|day|date|name|number|kind|sort|part|time|place"
    r"|ca|sha|wo"  # of can't, shan't, won't
)
CLIPPED = re.compile(r"(?<=\w)(?:n['\u2019]t|['\u2019](?:s|re|ve|ll|d|m))\b")  # of "what's" and "don't"
TELLING = 2  # words that a question of its own has at least
RECALLED_TOKENS = 128  # of earlier questions and answers that stand before a new one; they are computed every time
CITATION = re.compile(f" {CITATION_MARK.pattern}")


def needs_context(question: str) -> bool:
    """Return whether a question needs what was asked before it to be understood."""
    words = re.findall(r"\w+", CLIPPED.sub("", question.lower()))
    if OPENING.match(question.strip().lower()) or any(map(POINTING.fullmatch, words)):
        return True
    return sum(not SILENT.fullmatch(word) for word in words) < TELLING


def relevant_turns(question: str, earlier: Sequence[ChatTurn]) -> tuple[ChatTurn, ...]:
    """Return the exchanges that a question leans on, the oldest first; none where it stands by itself.

    They reach back to the last question that stood by itself: what came before that was about something else.
    """
    leaning: list[ChatTurn] = []
    for exchange in reversed(earlier):
        if not needs_context(leaning[-1].question if leaning else question):
            break
        leaning.append(exchange)
    return tuple(reversed(leaning))


@dataclass(frozen=True, slots=True)
class ContextualQuestion:
    """A question as the models read it.

    text   what it leans on, then the question
    ids    of everything behind the passages
    notes  what a person should know
    """

    text: str
    ids: tuple[int, ...]
    notes: tuple[str, ...] = ()


def with_history(prompt: Prompt, request: Request) -> ContextualQuestion:
    """Return the question behind the earlier ones that it leans on, as far as 128 tokens go, the newest first.

    An exchange that does not fit with its answer is recalled without it.
    """
    question, leaning = request.question.strip(), relevant_turns(request.question, request.earlier)
    recalled: list[str] = []
    left, cut = RECALLED_TOKENS, False
    for exchange in reversed(leaning):
        said = _said(exchange)
        fitting = [text for text in (said, exchange.question.strip()) if _tokens(prompt, text) <= left]
        cut = cut or fitting[:1] != [said]
        if not fitting:
            break
        recalled.append(fitting[0])
        left -= _tokens(prompt, fitting[0])
    text = " ".join([*reversed(recalled), question])
    shown = f"Of the earlier questions and answers the model sees {RECALLED_TOKENS - left} tokens, the newest first."
    return ContextualQuestion(text, prompt.question(text), (shown,) if cut else ())


def _said(exchange: ChatTurn) -> str:
    """Return question and answer in one line, without the marks of citations; an answer that says nothing is none."""
    answer = " ".join(CITATION.sub("", exchange.answer).split())
    if answer == NO_ANSWER:
        return exchange.question.strip()
    ended = answer if not answer or answer[-1] in ".!?" else f"{answer}."
    return f"{exchange.question.strip()} {ended}".strip()


def _tokens(prompt: Prompt, text: str) -> int:
    return len(prompt.tokens.encode(text).ids)
