"""The values of a table that a question names, and the conditions on its rows that follow: 'paid', 'not office'."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import chain

from engine.prompt.overlap import content_stems, content_words, stem
from engine.prompt.tables.columns import Cells
from engine.prompt.tables.condition import Condition, without
from engine.prompt.tables.wording import has_forms, has_words, is_form
from engine.text import split_words

EXCLUDED = re.compile(r"(?:\b(?:not|never|nicht)|n['\u2019]t) (?:(?:the|those|yet|been|die|noch) )*(\w+)", re.I)
NOT = "not "  # before the values that a condition excludes
FREE_OF_CHARGE = re.compile(
    r"\b(?:free|(?:no|without|at no) (?:charge|cost|fee)|costs? nothing|kostenlos\w*|gratis|umsonst|kostenfrei\w*)\b"
    r"|n['\u2019]t cost\b|\bnot cost\b|\bkoste\w* nichts\b",
    re.I,
)
FREE = re.compile(
    r"free(?: of charge)?|no charge|kostenlos|kostenfrei|gratis|[\u20ac\u00a3$] ?0(?:[.,]00)?|0(?:[.,]00)? \u20ac", re.I
)
NEGATIVE_VALUE = re.compile(r"\b(?:not|no|never|none|nicht|nie|kein\w*|without|ohne)\b", re.I)
MAX_VALUE_WORDS = 4  # after 'not'
NAME_VALUE = re.compile(r"[A-Z\u00c4\u00d6\u00dc\d]\S*(?: [A-Z\u00c4\u00d6\u00dc\d&]\S*){1,3}")  # of several words
PART_OF_NAME = re.compile(
    r"(?<=\w )[A-Z\u00c4\u00d6\u00dc]\w+|\b(?:by|of|from|at|von|bei) (?:the |der |dem )?((?:\w+ ?){1,2})"
)
AT = re.compile(r"\b(?:at|bei) (?:the |der |dem )?(\w+)", re.I)  # a place: each with this word in its name is meant
GENERIC_PART = re.compile(  # of the names of companies and places
    r"bank|group|company|limited|ltd|services?|foods?|energ\w+|hotels?|school|centre|street|road|lane|house|north|south|east"
    r"|west|new|old|total|cash|card|post|office|home|work|night|airport|station|shop|first|last|least|most"
)
MIN_SHARED = 2  # rows with a name that a part of it names


def named_values(question: str, rows: Sequence[Cells]) -> list[Condition] | None:
    """Return the conditions of the values that a question names: one of them, in each column; None if that is unclear.

    A value that follows 'not' is excluded; one such as 'not paid' has to be in the question as it is. A question about
    what is free names the values that say so.
    """
    cells = dict.fromkeys(chain.from_iterable(rows))
    negative = [cell for cell in cells if NEGATIVE_VALUE.search(cell[1])]
    positive = [cell for cell in cells if cell not in set(negative)]
    wanted = _named([cell for cell in negative if has_words(question, cell[1])], question, question, set())
    rest = without(question.lower(), (value.lower() for values in (wanted or {}).values() for value in values))
    names = {" ".join(words) for _, value in positive if len(words := split_words(value)) > 1}
    for match in EXCLUDED.finditer(rest):
        words = split_words(rest[match.start(1) :])
        if any(" ".join(words[:count]) in names for count in range(2, MAX_VALUE_WORDS + 1)):
            return None
    row_names = content_words(rows[0][0][0]) if rows else set()
    found = _named(positive, EXCLUDED.sub(" ", rest), question, row_names)
    excluded = _named(positive, " ".join(EXCLUDED.findall(rest)), question, row_names)
    if wanted is None or found is None or excluded is None:
        return None
    free = [cell for cell in cells if FREE.fullmatch(cell[1])] if FREE_OF_CHARGE.search(question) else []
    for header, value in (*free, *(cell for cell in negative if cell[1] in wanted.get(cell[0], ()))):
        found.setdefault(header, set()).add(value)
    return [
        Condition(
            header,
            f"{negation}{', '.join(sorted(values))}",
            test(frozenset(values)),
            " ".join(sorted(values)),
            is_denied=bool(negation),
        )
        for named, negation, test in ((found, "", _is_in), (excluded, NOT, _is_not_in))
        for header, values in named.items()
    ]


def _named(
    cells: Iterable[tuple[str, str]], text: str, question: str, row_names: Set[str]
) -> dict[str, set[str]] | None:
    """Return the values that a text names, by header; None if it is unclear which value or column is meant.

    Longer values come first: 'office supplies' does not name 'office' too. A number needs its header. What the rows are
    called names no value: 'deliveries' not 'delivered'.
    """
    groups = defaultdict[frozenset[str], list[tuple[str, str]]](list)
    for header, value in cells:
        groups[frozenset(content_stems(value))].append((header, value))
    found, seen = dict[str, set[str]](), set[str]()
    stems, asked = content_stems(text), content_stems(question)
    for words, group in sorted(groups.items(), key=lambda each: len(each[0]), reverse=True):
        if not words or not words <= stems:
            continue
        clear = [cell for cell in group if any(map(str.isalpha, cell[1])) or content_stems(cell[0]) & asked]
        exact = [cell for cell in clear if has_words(text, cell[1])]
        others = [word for word in split_words(text) if not any(is_form(word, name) for name in row_names)]
        named = exact or [cell for cell in clear if has_forms(" ".join(others), cell[1])]
        headers = {header for header, _ in named}
        if len(headers) > 1:
            headers = {header for header in headers if (content_stems(header) - words) & asked}
        if named and (len(headers) != 1 or words & seen or (not exact and len({value for _, value in named}) > 1)):
            return None
        for header, value in named:
            if header in headers:
                found.setdefault(header, set()).add(value)
            text = f" {' '.join(split_words(text))} ".replace(f" {' '.join(split_words(value))} ", " ")
        seen |= words if named and not exact else set()
        stems = content_stems(text)
    return found


def parts_of_names(question: str, rows: Sequence[Cells], understood: Set[str]) -> list[Condition]:
    """Return the conditions of words that are part of one name, which several rows have: 'osei' of 'Ann Osei'.

    Such a word follows 'by' or 'of' or has a capital: others, such as 'open', may say something else. After 'at' it may
    begin several names in one column: 'Lidl Cork' and 'Lidl Douglas'.
    """
    known = understood | content_stems(" ".join({header for row in rows for header, _ in row}))
    asked = (word for match in PART_OF_NAME.finditer(question) for word in split_words(match[1] or match[0]))
    words = {stem(word): word for word in asked if content_stems(word) and not GENERIC_PART.fullmatch(word)}
    if not words:  # in most questions: no cell is looked at
        return []
    counts = Counter(cell for row in rows for cell in row)
    holders = defaultdict[str, list[tuple[str, str]]](list)
    for header, value in counts:
        for each in content_stems(value) & words.keys() - known:
            holders[each].append((header, value))
    places = set(map(stem, AT.findall(question)))
    parts = defaultdict[tuple[str, frozenset[str]], list[str]](list)
    for each, cells in holders.items():
        are_names = all(NAME_VALUE.fullmatch(value) and not NEGATIVE_VALUE.search(value) for _, value in cells)
        begin_so = len({header for header, _ in cells}) == 1 and all(
            content_stems(split_words(value)[0]) == {each} for _, value in cells
        )
        is_one = len(cells) == 1 or (each in places and begin_so)
        if are_names and is_one and sum(counts[cell] for cell in cells) >= MIN_SHARED:
            parts[cells[0][0], frozenset(value for _, value in cells)].append(words[each])
    return [
        Condition(header, ", ".join(sorted(values)), _is_in(values), " ".join(named))
        for (header, values), named in parts.items()
    ]


def _is_in(values: frozenset[str]) -> Callable[[str], bool]:
    return lambda value: value in values


def _is_not_in(values: frozenset[str]) -> Callable[[str], bool]:
    return lambda value: value not in values
