"""Conditions of questions every word of which is understood: another word may be a condition that no rule knows.

Counts, sums and lists of rows need that: a wrong one looks as exact as a right one.
"""

import re
from collections.abc import Sequence, Set
from itertools import pairwise

from engine.prompt.followups import CLITIC
from engine.prompt.overlap import content_stems, content_words, stem
from engine.prompt.tables.columns import PERSON_HEADER, Cells, requested_header
from engine.prompt.tables.condition import Condition, without
from engine.prompt.tables.conditions import ALL_ROWS, conditions, rows_that_meet
from engine.prompt.tables.named_values import EXCLUDED
from engine.prompt.tables.wording import has_forms, in_table_words, is_form
from engine.text import split_words

NAME_HEADER = re.compile(rf"{PERSON_HEADER.pattern}|(?:\w+[ _])?(?:id|no|nr|nummer|number|code)\W*|#", re.I)
ROWS = {"lines", "rows", "entries", "zeilen", "eintr\u00e4ge"}  # of any table, unless it has something called so
PEOPLE = {"employees", "people", "persons", "staff", "team", "members", "colleagues", "workers"}
PEOPLE |= {"mitarbeiter", "personal", "personen", "leute", "mitglieder"}
PERSONAL = re.compile(  # about the user, or about what may be, which no table says
    r"\b(?:I|may|(?i:my|mine|me|your?|can|must|should|could|would|might|shall"
    r"|ich|mein\w*|mir|mich|kann|darf|muss|soll\w*))\b"
)
UMLAUTS = str.maketrans("\u00e4\u00f6\u00fc", "aou")
VERB_ENDING = re.compile(r"s|e?d|er|ing|en?|t")
ALL = re.compile(
    r"\b(?:according to the (?:\w+ )?(?:list|table|file|sheet|register)|there|in (?:total|all)|altogether|overall"
    r"|(?:listed )?in (?:the|this) (?:list|table|file)|insgesamt|stehen"
    r"|in der (?:liste|tabelle|datei))\b",
    re.I,
)
SUM = re.compile(
    r"\b(?:(?:in )?total|sum|adds? up|altogether|in all|overall|combined|insgesamt|gesamt\w*|summe|zusammen)\b",
    re.I,
)
MEAN = re.compile(r"\b(?:on average|average|the mean|durchschnitt\w*|im (?:schnitt|durchschnitt|mittel))\b", re.I)
SAYS_WHICH = re.compile(r"\b(?:old|big|long|far|often|year|day|date|time|place|part|kind|sort|more|per|lange)\b", re.I)
EMPTY_WORD = re.compile(
    r"\b(?:whats|whos|please|pls|bitte"
    r"|all|c[oa]me|ma[dk]e|g[eo]t|issued|dated?|received?|works?|working|here|placed?|book(?:ed)?|record(?:ed)?"
    r"|list(?:ed)?|mark(?:ed)?|tied|we hold|up|us|went|go|during|still|currently"
    r"|right now|now|at (?:the moment|present)|noch|gab|liegt|liegen|arbeiten|arbeitet"
    r"|alle[nrs]?|eintr\u00e4ge?|eintrag|gemacht|erfasst|gebucht|verbucht|eingegangen|w\u00e4hrend|hat|hatten?)\b",
    re.I,
)
EMPTY = (CLITIC, ALL, ALL_ROWS, SUM, EMPTY_WORD)  # what does not say which rows are meant
LIST_WORD = re.compile(  # likewise, of a question that asks for a list
    r"\b(?:list|show|find|give|name[ds]?|which|that|those|ones?|places?|things|yet|everyone|everybody"
    r"|there|from|due|assigned|owned|belong\w*|costs?|kosten|kostet|orte?|nenn\w*|zeig\w*|liste\w*|gibt|stehen|sind)\b",
    re.I,
)
OF_TITLE = re.compile(  # 'lines of the card statement'
    r"\b(?:of|in|on|from|according to|laut|auf) (?:the|this|my|our|der|dem|diesem) ((?:\w+ ){1,3}\w+)", re.I
)
SHOW_ME = re.compile(r"\b(?:show|give|tell|find|zeige?|nenne?) (?:me|us|mir|uns)\b", re.I)
MIN_VERB = 3  # letters of the verb of a header


def strict_conditions(
    question: str,
    rows: Sequence[Cells],
    about: str,
    header: str = "",
    empty: Sequence[re.Pattern[str]] = EMPTY,
) -> list[Condition] | None:
    """Return the question's conditions; None if one is unclear, or if it has another word, which may be one.

    about  the name of the document, and the headings above the table
    header  of the column whose values the question wants
    empty  what is no condition
    """
    found = conditions(question, rows)
    if found is None or PERSONAL.search(without(question, (each.words for each in found))):
        return None
    question = in_table_words(question, rows)
    names = row_names(rows, about)
    in_cells = content_stems(" ".join(value for row in rows for _, value in row))
    headers = content_words(" ".join(each.header for each in found))
    explained = set(map(stem, headers)) | set(map(stem, words_of(" ".join(each.words for each in found))))
    explained |= content_stems(f"{about} {header}") - in_cells
    titles = set(pairwise(split_words(about)))
    asked = {pair for match in OF_TITLE.finditer(question) for pair in pairwise(split_words(match[1]))}
    explained |= {stem(word) for pair in asked & titles for word in pair}  # though a cell has 'card', too
    explained |= set(map(stem, EXCLUDED.findall(question.lower())))  # which `conditions` has understood

    def is_explained(word: str) -> bool:
        return stem(word) in explained or is_named(word, names) or any(_is_verb_of(each, word) for each in headers)

    return found if all(map(is_explained, words_of(question, empty))) else None


def listed_by_conditions(question: str, rows: Sequence[Cells], about: str) -> list[int]:
    """Return the rows that a question asks to list by conditions; none instead of all, or if one may be unknown."""
    is_of_sums = SUM.search(question) or MEAN.search(question)  # 'Which customers paid over 900 in total?'
    question = SHOW_ME.sub(" ", question)
    named = requested_header(question, [header for header, _ in rows[0]]) if rows else None
    empty = (*EMPTY, LIST_WORD)
    found = None if is_of_sums else strict_conditions(question, rows, about, named or "", empty)
    met = rows_that_meet(found, rows) if found else []
    return met if len(met) < len(rows) else []


def row_names(rows: Sequence[Cells], about: str) -> set[str]:
    """Return what the rows are called: rows, the header of the first column, and if that is a name or number, more.

    These are those of the document and its headings, and words for people if there is one among them.
    """
    header = rows[0][0][0]
    texts = {text for row in rows for cell in row for text in cell}
    names = content_words(header) | {word for word in ROWS if not any(has_forms(text, word) for text in texts)}
    if NAME_HEADER.fullmatch(header):
        names |= content_words(about)
    if names & PEOPLE and PERSON_HEADER.fullmatch(header):
        names |= PEOPLE
    return names


def is_named(word: str, names: Set[str]) -> bool:
    """Return whether a word is a form of one of these: 'Belege' of 'Beleg', 'F\u00e4lle' of 'Fall'."""
    folded = word.translate(UMLAUTS)
    return any(is_form(folded, name.translate(UMLAUTS)) for name in names)


def _is_verb_of(header: str, word: str) -> bool:
    """Return whether a word is the verb of a header, or the reverse: 'started' of 'Start', 'own' of 'Owner'."""
    short, long = sorted((header, word), key=len)
    return len(short) >= MIN_VERB and long.startswith(short) and bool(VERB_ENDING.fullmatch(long[len(short) :]))


def words_of(text: str, empty: Sequence[re.Pattern[str]] = ()) -> set[str]:
    """Return the words of a text without those that do not say which rows are meant, but with 'old' and 'a day'."""
    for pattern in empty:
        text = pattern.sub(" ", text)
    return content_words(text) | set(SAYS_WHICH.findall(text.lower()))
