"""Decide which earlier turns a question needs to be understood, and put them in front of it (query contextualization).

A rule for English and German: a question is a follow-up if it starts with a connective ("And ...", "What about ..."),
contains an anaphor ("it", "they", "there"), or is short and has fewer than two content words. A pronoun in a later
clause means what the question has named before it: "How loud is the washer when it spins?", "I lost my card, what does
it cost?". An expletive ("Is there ...?", "Gibt es ...?") counts only if there is little else. In doubt a question is a
follow-up, because a standalone question often loses little when its history is added.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.prompt.template import NO_ANSWER, PromptTemplate
from engine.request import ChatTurn, Request
from engine.text import CITATION_MARK

CONNECTIVE = re.compile(
    r"(and|but|or|so|also|then|what about|how about|what if|why not"
    r"|und|aber|oder|auch|dann|was ist mit|wie ist es|wie sieht es|warum nicht)\b"
)
ANAPHOR = re.compile(
    r"its?|itself|he|him|his|she|hers?|they|them|theirs?|this|these|those|there|then|ones?|former|latter|same|others?"
    r"|another|else|previous|above"
    r"|es|er|ihn|ihm|ihre?[mnrs]?|seine?[mnrs]?|dies(?:e[mnrs]?)?|da|dort|daf\u00fcr|davon|damit|daran|dabei|danach|vorher|jene\w*"
    r"|andere[mnrs]?"
)
EXPLETIVE = re.compile(r"there|es|da")  # 'is there', 'gibt es'; at the end it is a place
CLAUSE_END = re.compile(r"(?:[,;!?]|(?<=[^\W\d_A-Z]{3})\.| [-\u2013\u2014]) +(?=\w)")
NAMES_NOTHING = re.compile(  # of the start of a clause: thanks, or a circumstance ('For a family of four, ...')
    r"(?:ok(?:ay)?|(?:al)?right|great|good|cool|perfect|super|fine|nice|sorry|interesting|yes|no|hi|hello|hey"
    r"|thank(?:s| you)|thx|cheers|danke|vielen dank|gut|prima|hallo|ja|nein"
    r"|for|on|in|at|with|without|after|before|during|since|from|by|as|if|when|once|while|because"
    r"|f\u00fcr|am|an|im|bei[mn]?|mit|ohne|nach|vor|w\u00e4hrend|seit|ab|wenn|falls|sobald|weil)\b",
    re.I,
)
SUBORDINATE = re.compile(
    r"\b(?:when(?:ever)?|if|once|while|until|before|after|because|wenn|falls|sobald|bevor|nachdem|weil|w\u00e4hrend) "
    r"(?:it|they|he|she|es|er)\b",
    re.I,
)
STOP_WORD = re.compile(  # words that do not say what a question is about
    r"a|an|the|of|in|on|at|to|for|from|by|with|about|as|into|per|and|or|but|not|no|yes|any|some|that|more|please"
    r"|i|me|my|we|us|our|you|your|is|are|was|were|be|been|being|do|does|did|has|have|had|can|could|may|might|must"
    r"|shall|should|will|would|wh(at|ich|om|ose|o|en|ere|y)|how|much|many|long|far|often|old|big|tell|say|mean"
    r"|year|day|date|name|number|kind|sort|part|time|place"
    r"|ca|sha|wo"  # of can't, shan't, won't
    r"|der|die|das|de[mns]|eine?[mnrs]?|und|oder|ist|sind|waren|wird|werden|wurden?|haben|hatten?|kann|k\u00f6nnen"
    r"|darf|d\u00fcrfen|muss|m\u00fcssen|soll|sollen|ich|du|er|sie|es|wir|ihr|mir|mich|sich|unser|meine?[mnrs]?|im|am|auf|aus"
    r"|beim?|mit|nach|vo[nmr]|zu[mr]?|f\u00fcrs?|\u00fcber|unter|um|als|wie|wer|we[mn]|wann|warum|welche[mnrs]?|viele?"
    r"|lange|noch|auch|nicht|keine?[mnrs]?|gibt|denn|wenn|ab|bis"
)
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
RELATIVE_YEAR = re.compile(
    r"\b(?:year|jahr) (?:before|earlier|davor|vorher|zuvor)\b|\b(?:previous|prior|preceding) year\b|\bvorjahr"
    r"|(?P<after>\b(?:year|jahr) (?:after|later|danach)\b|\b(?:next|following) year\b)",
    re.I,
)
REFERS_TO_ROWS = re.compile(  # 'How many of those are paid?', but not 'How many of those rooms ...?'
    r"\b(?:of (?P<of>those|these|them)|those|these|they|them|davon|von (?:denen|diesen|ihnen))(?: ones)?\b"
    r"(?=\W*$| (?:are|were|have|had|do|did|will|can|is|was|in|from|over|under|add|costs?"
    r"|sind|waren|haben|hatten|ist|war|kosten|im|aus|\u00fcber|unter)\b)",
    re.I,
)
ASKS_FOR_ROWS = re.compile(
    r"^(?:(?:and|so|please|und|bitte) )?(?:which|what|who|how many|(?:list|show|give|name|find)(?: me| us)?"
    r"|welche\w*|wer|wie viele|nenne?|zeige?)(?: of)?(?: all)?(?: (?:the|our|my))? "
    r"(?!(?:is|are|was|were|did|does|do|has|have)\b)",
    re.I,
)
CLITIC = re.compile(r"(?<=\w)(?:n['\u2019]t|['\u2019](?:s|re|ve|ll|d|m))\b")  # of "what's" and "don't"
MIN_CONTENT_WORDS = 2
MANY_CONTENT_WORDS = 3  # of a question that is understood although it has a word that may be an expletive
WHOLE_SENTENCE = 7  # words of a question that is understood although it has fewer content words
MAX_HISTORY_TOKENS = 128  # of earlier turns in front of a question; they are prefilled for every question
CITATION = re.compile(f" {CITATION_MARK.pattern}")


@dataclass(frozen=True, slots=True)
class ContextualQuestion:
    """A question after the history it needs, as text and as the ids of everything after the passages."""

    text: str
    ids: tuple[int, ...]
    notes: tuple[str, ...] = ()


def needs_context(question: str) -> bool:
    """Return whether a question cannot be understood without the turns before it."""
    if CONNECTIVE.match(question.strip().lower()):
        return True
    clauses = (question[: end.start()] for end in CLAUSE_END.finditer(question))
    if not NAMES_NOTHING.match(question.strip()) and any(_is_complete(_words(clause)) for clause in clauses):
        return False
    words = _words(question)
    clause = SUBORDINATE.search(question)
    if clause and _is_complete(named := _words(question[: clause.start()])):
        words = [*named, *_words(question[clause.end() :])]
    anaphors = list(filter(ANAPHOR.fullmatch, words))
    num_content_words = _num_content_words(words)
    refers = not all(map(EXPLETIVE.fullmatch, anaphors)) or anaphors[-1:] == words[-1:]
    if not refers and num_content_words >= MANY_CONTENT_WORDS:
        return False
    return bool(anaphors) or (num_content_words < MIN_CONTENT_WORDS and len(words) < WHOLE_SENTENCE)


def _is_complete(words: Sequence[str]) -> bool:
    """Return whether the words before a pronoun name what it means."""
    return _num_content_words(words) >= MIN_CONTENT_WORDS and not any(map(ANAPHOR.fullmatch, words))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", CLITIC.sub("", text.lower()))


def _num_content_words(words: Sequence[str]) -> int:
    return sum(not (STOP_WORD.fullmatch(word) or ANAPHOR.fullmatch(word)) for word in words)


def relative_year(question: str) -> str:
    """Return the year that a follow-up means by 'the year before', or after, the last one named; '' if none."""
    *_, year = ["", *YEAR.findall(question)]
    if year and (match := RELATIVE_YEAR.search(question)):
        return str(int(year) + (1 if match.lastgroup == "after" else -1))
    return ""


def relevant_turns(question: str, history: Sequence[ChatTurn]) -> tuple[ChatTurn, ...]:
    """Return the turns a question needs, oldest first: those since the last standalone question."""
    turns: list[ChatTurn] = []
    for turn in reversed(history):
        if not needs_context(turns[-1].question if turns else question):
            break
        turns.append(turn)
    return tuple(reversed(turns))


def naming_rows(question: str, history: Sequence[ChatTurn]) -> str:
    """Return a question with the words of the question before it in place of what refers to rows found by that.

    'How many of those are paid?' after 'Which invoices are over 500 euros?' is 'How many of the invoices are over 500
    euros are paid?': no sentence, but it has all conditions. '' if the question before it does not say which rows.
    """
    if not history or not needs_context(question) or not (match := REFERS_TO_ROWS.search(question)):
        return question
    earlier = naming_rows(history[-1].question.strip(" ?.!"), history[:-1])
    start = ASKS_FOR_ROWS.match(earlier)
    if start is None:
        return ""
    rows = f"{'of the ' if match['of'] else ''}{earlier[start.end() :]}"
    return f"{question[: match.start()]}{rows}{question[match.end() :]}"


def with_history(template: PromptTemplate, request: Request) -> ContextualQuestion:
    """Return the question after the turns it needs, the newest that fit; a turn may fit only without its answer."""

    def num_tokens(text: str) -> int:
        return len(template.tokenizer.encode(text).ids)

    question = request.question.strip()
    texts: list[str] = []
    free_tokens, is_cut = MAX_HISTORY_TOKENS, False
    for turn in reversed(relevant_turns(request.question, request.history)):
        full = _turn_text(turn)
        fitting = [text for text in (full, turn.question.strip()) if num_tokens(text) <= free_tokens]
        is_cut = is_cut or fitting[:1] != [full]
        if not fitting:
            break
        texts.append(fitting[0])
        free_tokens -= num_tokens(fitting[0])
    text = " ".join([*reversed(texts), question])
    used_tokens = MAX_HISTORY_TOKENS - free_tokens
    note = f"The earlier questions and answers were shortened to {used_tokens} tokens, newest first."
    return ContextualQuestion(text, template.suffix_ids(text), (note,) if is_cut else ())


def _turn_text(turn: ChatTurn) -> str:
    """Return question and answer on one line without citation marks; the fixed no-answer sentence is left out."""
    question, answer = turn.question.strip(), " ".join(CITATION.sub("", turn.answer).split())
    if answer == NO_ANSWER:
        return question
    sentence = answer if not answer or answer[-1] in ".!?" else f"{answer}."
    return f"{question} {sentence}".strip()
