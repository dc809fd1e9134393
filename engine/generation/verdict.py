"""Say yes or no to a question from the sentence that answers it: by its negation, its limits and its exceptions."""

import re

from engine.generation.overlap import content_stems
from engine.generation.table_questions import NEGATION, limits, numbers
from engine.prompt.followups import YEAR
from engine.prompt.question_kind import FILLER, GERMAN_AUXILIARY
from engine.text import split_sentences

LIMIT = re.compile(
    r"\b(?:no|not|nicht) (?:more|later|less|fewer|only|longer|mehr als|nur|sp\u00e4ter)\b", re.I
)  # no negation
ONLY = re.compile(r"\b(?:only|solely|exclusively|nur|ausschlie\u00dflich)\b(?! not)", re.I)
CONSENT = re.compile(
    r"\b(?:consent|permission|approval|authori[sz]ation|zustimmung|genehmigung|einwilligung|erlaubnis)\b", re.I
)
CLAUSE_END = re.compile(r";|,(?= (?:but|however|while|whereas|aber|jedoch|w\u00e4hrend)\b)", re.I)
MIN_SHARED = 2  # words of the question in the clause that decides
MAX_EXCEPTION_WORDS = 5  # after 'only', that say what is allowed
GERMAN_QUESTION = re.compile(rf"(?:[^,?]{{3,60}}, )?(?:{GERMAN_AUXILIARY})\b", re.I)


def verdict(question: str, answer: str) -> str:
    """Return 'Yes' or 'No', in the question's language, if `answer` answers it; '' if it depends on a consent.

    Of several sentences the one that shares most words with the question decides, and of its clauses, if only some
    are negative, the one that shares more than the others. A number or year of the question outside the limit means
    no, and so does 'only' before something that the question does not name.
    """
    stems = content_stems(question)
    clause = max(split_sentences(answer) or [""], key=lambda each: len(stems & content_stems(each)))
    parts = CLAUSE_END.split(clause)
    shared = [len(stems & content_stems(part)) for part in parts]
    most = max(shared)
    if len({bool(NEGATION.search(part)) for part in parts}) > 1 and most >= MIN_SHARED and shared.count(most) == 1:
        clause = parts[shared.index(most)]
    if CONSENT.search(clause) and not CONSENT.search(question):
        return ""
    if (is_allowed := _is_within_limit(question, clause)) is not None:
        is_no = not is_allowed
    elif (only := ONLY.search(clause)) and not ONLY.search(question):
        is_no = not content_stems(" ".join(clause[only.end() :].split()[:MAX_EXCEPTION_WORDS])) <= stems
    else:
        is_no = bool(NEGATION.search(LIMIT.sub("", clause))) != bool(NEGATION.search(question))
    words = ("Nein", "Ja") if GERMAN_QUESTION.match(FILLER.sub("", question.strip(), count=1)) else ("No", "Yes")
    return words[0] if is_no else words[1]


def _is_within_limit(question: str, clause: str) -> bool | None:
    """Return whether the question's number, or year, is within the clause's limit; None without both."""
    bounds = limits(clause)
    if bounds is None:
        return None
    is_year = any(1900 <= bound < 2100 for bound in bounds)
    found = [float(year) for year in YEAR.findall(question)] if is_year else numbers(question)
    return all(bounds[0] <= number <= bounds[1] for number in found) if found else None
