"""Say yes or no to a question from the sentence that answers it: by its negation, its limits and its exceptions."""

import re
from collections.abc import Sequence

from engine.prompt.followups import YEAR
from engine.prompt.overlap import content_stems, stem
from engine.prompt.question_kind import FILLER, GERMAN_AUXILIARY, VERB_FIRST
from engine.prompt.tables.amounts import codes, numbers
from engine.prompt.tables.columns import Cells
from engine.prompt.tables.limits import limits
from engine.prompt.tables.yes_no import NEGATION, YES_OR_NO, says_yes
from engine.text import split_sentences, split_words
from store.markdown import parse_row

LIMIT = re.compile(
    r"\b(?:no|not|nicht) (?:more|later|less|fewer|only|longer|mehr als|nur|sp\u00e4ter)\b", re.I
)  # no negation
FORBIDDEN = re.compile(  # but not 'must not exceed'
    r"\b(?:must|may) not\b(?! (?:exceed|be (?:more|longer|larger|higher|over)))"
    r"|\bnot (?:be )?(?:allowed|permitted|given)\b"
    r"|\b(?:prohibited|forbidden|verboten)\b|\bd(?:arf|\u00fcrfen) nicht\b(?! (?:mehr|l\u00e4nger|\u00fcber))"
    r"|\bnicht (?:erlaubt|gestattet)\b",
    re.I,
)
PERMISSION = re.compile(r"\b(?:may|allowed|permitted|d(?:arf|\u00fcrfen)|erlaubt)\b", re.I)
ONLY = re.compile(r"\b(?:only|solely|exclusively|nur|ausschlie\u00dflich)\b(?! not)", re.I)
CONSENT = re.compile(
    r"\b(?:consent|permission|approval|authori[sz]ation|zustimmung|genehmigung|einwilligung|erlaubnis"
    r"|by appointment|nach (?:vereinbarung|absprache))\b",
    re.I,
)
CONDITION = re.compile(  # which a question may not meet
    r"\b(?:once (?:I|you|they|he|she|it|we|all|the|your|their)|(?<!(?:is|re|be) )provided (?:that|you|they|the|it|your)"
    r"|as soon as|sobald|sofern|erst (?:nach|ab|wenn))\b",
    re.I,
)
VERDICT = re.compile(r"(?:Yes|No|Ja|Nein): ")  # in front of the quote of an answer
SAID = re.compile(r"(?:yes|no|ja|nein)(?:\s?[,.;:!\u2013-]|$)", re.I)
YES_WORD = re.compile(r"\b(?:yes|ja)\b", re.I)
CLAUSE_END = re.compile(r";|,(?= (?:but|however|while|whereas|aber|jedoch|w\u00e4hrend)\b)", re.I)
COUNTED_UNIT = re.compile(r"\d+-[^\W\d_]+")  # '3-day', which is no code
MAX_CONDITION_WORDS = 8
MIN_SHARED = 2  # words of the question in the clause that decides
MAX_EXCEPTION_WORDS = 5  # after 'only', that say what is allowed
GERMAN_QUESTION = re.compile(rf"(?:[^,?]{{3,60}}, )?(?:{GERMAN_AUXILIARY}|{VERB_FIRST})\b", re.I)


def verdict(question: str, quotes: Sequence[str]) -> str:
    """Return 'Yes' or 'No', in the question's language, if quotes answer it; '' if they do not decide or say it first.

    A table row decides if it says yes or no in the column that the question names.
    """
    row = parse_row(quotes[0]) if len(quotes) == 1 else None
    if any(map(parse_row, quotes)):
        is_no = None if row is None else _row_says_no(question, row)
    else:
        is_no = None if any(map(SAID.match, quotes[:1])) else _text_says_no(question, " ".join(quotes))
    words = ("Nein", "Ja") if GERMAN_QUESTION.match(FILLER.sub("", question.strip(), count=1)) else ("No", "Yes")
    return "" if is_no is None else words[not is_no]


def _row_says_no(question: str, row: Cells) -> bool | None:
    """Return whether a row means no; None if it is not clear which column the question means, or if that says neither.

    The row is named by its first cell or by its columns: '| Rain cover | A10: yes | B20: no |'.
    """
    stems = content_stems(question)
    named = bool(stems & content_stems(row[0][1]))
    shared = {header: len(stems & content_stems(header)) for header, _ in row[1:]}
    best = [header for header in shared if re.search(rf"(?<!\w){re.escape(header or '?')}(?!\w)", question, re.I)]
    best = best or [header for header, count in shared.items() if count and count == max(shared.values())]
    value = dict(row[1:]).get(best[0], "") if len(best) == 1 and named else ""
    if not value or not YES_OR_NO.fullmatch(value):
        return None
    return says_yes(value) == bool(NEGATION.search(question))


def _text_says_no(question: str, answer: str) -> bool | None:
    """Return whether a text means no; None if it depends on a consent or condition.

    Of several sentences the one that shares most words with the question decides, or of equal ones that with the last
    word of the question, which mostly is its point; and of its clauses, if only some are negative, the one that
    shares more than the others, unless either kind has words of the question that the other has not. A number or year
    of the question outside the limit means no, and so does 'only' before something that the question does not name.
    """
    stems = content_stems(question)
    places = {stem(word): place for place, word in enumerate(split_words(question))}

    def relevance(sentence: str) -> tuple[int, int]:
        shared = stems & content_stems(sentence)
        return len(shared), max((places[each] for each in shared), default=0)

    clause = max(split_sentences(answer) or [""], key=relevance)
    has_both = bool(YES_WORD.search(clause) and NEGATION.search(clause))  # 'one kind yes, another is not allowed'
    parts = CLAUSE_END.split(clause)
    asked = {code for code in codes(question) if not COUNTED_UNIT.fullmatch(code)}
    others = [part for part in parts if asked and codes(part) and not asked & codes(part)]  # 'A1 is loud; B2 is quiet'
    if others and any(asked & codes(part) for part in parts):
        parts = [part for part in parts if part not in others]
        clause = ";".join(parts)
        if not (stems & content_stems(clause)) - content_stems(" ".join(asked)):
            return None
    within = [part for part in parts if _is_within_limit(question, part)]
    has_limits = sum(_is_within_limit(question, part) is not None for part in parts) > 1
    if has_limits and len(within) == 1 and PERMISSION.search(clause):  # 'under 16 not allowed; from 16 to 18 only ...'
        is_no = bool(NEGATION.search(within[0])) != bool(NEGATION.search(question))
        return None if ONLY.search(within[0]) and not ONLY.search(question) else is_no
    shared = [len(stems & content_stems(part)) for part in parts]
    most = max(shared)
    negative = stems & content_stems(" ".join(filter(NEGATION.search, parts)))
    positive = stems & content_stems(" ".join(part for part in parts if not NEGATION.search(part)))
    if negative - positive and positive - negative:  # 'dogs may come to A; B has no room'
        return None
    if has_both:
        parts = [part for part in clause.split(",") if _begins_with_any(part, stems)]
        if len(parts) != 1:
            return None
        clause = parts[0]
    elif len({bool(NEGATION.search(part)) for part in parts}) > 1 and most >= MIN_SHARED and shared.count(most) == 1:
        clause = parts[shared.index(most)]
    if CONSENT.search(clause) and not CONSENT.search(question):
        return None
    if (condition := CONDITION.search(clause)) and not CONDITION.search(question):
        named = content_stems(" ".join(clause[condition.end() :].split()[:MAX_CONDITION_WORDS]))
        if not named & stems and not NEGATION.search(clause):
            return None
    if (is_within := _is_within_limit(question, clause)) is not None:
        is_forbidden = bool(FORBIDDEN.search(clause))
        if is_forbidden and not is_within:  # 'under 6 not allowed': of a child of 7 it says nothing
            return None
        is_no = is_forbidden or not is_within
    elif (only := ONLY.search(clause)) and not ONLY.search(question):
        is_no = not content_stems(" ".join(clause[only.end() :].split()[:MAX_EXCEPTION_WORDS])) <= stems
    else:
        is_no = bool(NEGATION.search(LIMIT.sub("", clause))) != bool(NEGATION.search(question))
    return is_no


def _begins_with_any(clause: str, stems: set[str]) -> bool:
    """Return whether the first word that says what a clause is about is one of these."""
    words = [word for word in split_words(clause) if content_stems(word)]
    return bool(words) and stem(words[0]) in stems


def _is_within_limit(question: str, clause: str) -> bool | None:
    """Return whether the question's number, or year, is within the clause's limit; None without both."""
    bounds = limits(clause)
    if bounds is None:
        return None
    is_year = any(1900 <= bound < 2100 for bound in bounds)
    found = [float(year) for year in YEAR.findall(question)] if is_year else numbers(question)
    return all(bounds[0] <= number <= bounds[1] for number in found) if found else None
