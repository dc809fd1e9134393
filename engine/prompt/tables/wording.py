"""The words of a question as a table has them: other forms of a word, and denied ones."""

import re
from collections import defaultdict
from collections.abc import Sequence

from engine.prompt.overlap import stem
from engine.prompt.tables.columns import Cells
from engine.prompt.tables.yes_no import done_word
from engine.text import WORD, split_words
from store.german import is_german

HOW_MUCH = re.compile(
    r"\b(?:wie (?:hoch|gut|lang\w*|gro\u00df|viel\w*)|how (?:high|long|good|low|big))\b", re.I
)  # of what is measured, no value
INFLECTED = re.compile(r"(\w{3,}?)e[mnrs]?")  # German adjectives: 'offene', 'hoher'
BACK = re.compile(r"\b(?:come|came|brought|given|handed|sent) back\b", re.I)  # of a column such as 'Returned on'
NUM_CHOICES = 2  # values of a column of which a word with 'un' denies one
ENDING = re.compile(r"(?:e?s|e[nmr]?|n|ed?|d|y|ies)?")  # of the forms of a word


def in_table_words(question: str, rows: Sequence[Cells]) -> str:
    """Return a question with forms of a table's words as it has them: 'offene' as 'offen', 'unpaid' as 'not paid'."""
    columns = defaultdict[str, set[str]](set)
    for row in rows:
        for header, value in row:
            columns[header].add(value.strip().lower())
    words = {word for values in columns.values() for value in values for word in split_words(value)}
    known = words | {word for header in columns for word in split_words(header)}
    is_in_german = is_german(question)
    two = [
        text for header, values in columns.items() if len(values) == NUM_CHOICES for text in (header.lower(), *values)
    ]
    done = list(filter(None, (done_word(header, rows) for header in columns)))
    two += done
    question = BACK.sub("returned", question) if "returned" in done else question

    def as_in_table(match: re.Match[str]) -> str:
        word = match[0]
        if not word.islower() or word in known:
            return word
        form = INFLECTED.fullmatch(word) if is_in_german else None
        if form and (base := form[1].replace("hoh", "hoch")) in words:
            return base
        rest = word.removeprefix("un")
        denied = next((text for text in two if rest != word and is_form(text, rest)), "")
        return f"{'nicht' if is_in_german else 'not'} {denied}" if denied else word

    return WORD.sub(as_in_table, question)


def has_words(text: str, value: str) -> bool:
    """Return whether a text has the words of a value, one after the other."""
    return f" {' '.join(split_words(value))} " in f" {' '.join(split_words(text))} "


def has_forms(text: str, value: str) -> bool:
    """Return whether a text has a form of each word of a value: 'deliveries' of 'delivery', but not 'deliverer'."""
    words = split_words(text)
    return all(any(stem(one) == stem(other) and is_form(one, other) for other in words) for one in split_words(value))


def is_form(one: str, other: str) -> bool:
    """Return whether two words differ in their endings only."""
    shared = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return all(ENDING.fullmatch(word[shared:]) for word in (one, other))
