"""Say what changed between two versions of a sentence or of a table row, or of a document."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby

from engine.generation.quotes import format_quotes
from engine.prompt.answer_type import NUMBER_WORD
from engine.prompt.followups import STOP_WORD
from engine.prompt.tables.differences import difference, difference_of_rows
from engine.request import Quote
from store.markdown import parse_row

MIN_EQUAL = 0.5  # of the words of two sentences; with fewer, they are not versions of each other
MAX_CHANGES = 3
PUNCTUATION = ".,;:"
NUMBER = re.compile(rf"\d[\d.,:/]*|{NUMBER_WORD}", re.I)
UNIT_PREFIX = re.compile(r"square|cubic|full|working|business|calendar|school|volle[nrs]?|angefangene[nr]?", re.I)


def format_changes(changes: Sequence[Sequence[Quote]]) -> str:
    """Return the changes between two documents as an answer: quotes of both with what differs, or of the only one."""
    paragraphs = []
    for document, group in groupby(changes, lambda quotes: quotes[0].document if len(quotes) == 1 else ""):
        if document:
            paragraphs.append(f"Only in {document}:\n{format_quotes([quote for quotes in group for quote in quotes])}")
            continue
        for quotes in group:
            title = describe_change(*(quote.text for quote in quotes)) or "Changed:"
            paragraphs.append(f"{title}\n{format_quotes(quotes)}")
    return "\n\n".join(paragraphs)


def describe_change(old: str, new: str) -> str:
    """Return what differs, as '2 years → 5 years'; '' if nothing does, or the texts are not versions of each other."""
    old_row, new_row = parse_row(old), parse_row(new)
    if old_row and new_row:
        return _change_of_rows(old_row, new_row)
    before, after = ([word.rstrip(PUNCTUATION) for word in text.split()] for text in (old, new))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    changes = []
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "replace":
            num_more = _num_words_of_unit(before[end - 1], before[end : end + 2])
            old_part, new_part = before[start : end + num_more], after[new_start : new_end + num_more]
            changes.append(f"{' '.join(old_part)} → {' '.join(new_part)}")
    return "; ".join(changes) if matcher.ratio() >= MIN_EQUAL and len(changes) <= MAX_CHANGES else ""


def describe_comparison(question: str, quotes: Sequence[Quote]) -> str:
    """Return what an answer says before its quotes, on a line of its own: what changed between two documents, or ''.

    Of one row, the difference between the two columns that the question compares.
    """
    if len({quote.document for quote in quotes}) == len(quotes) == 2:
        change = describe_change(*(quote.text for quote in quotes))
        return f"{change}\n" if change else ""
    rows = [row for quote in quotes if (row := parse_row(quote.text))]
    found = difference_of_rows(question, *rows) if len(rows) == len(quotes) == 2 else ""
    found = difference(question, rows[0]) if len(rows) == len(quotes) == 1 else found
    return f"{found}:\n" if found else ""


def _num_words_of_unit(last: str, following: Sequence[str]) -> int:
    """Return how many of the words after a number are its unit: '2 years', '4 square metres'; 0 after another word."""
    if not following or not NUMBER.fullmatch(last) or STOP_WORD.fullmatch(following[0].lower()):
        return 0
    return min(len(following), 2) if UNIT_PREFIX.fullmatch(following[0]) else 1


def _change_of_rows(old: list[tuple[str, str]], new: list[tuple[str, str]]) -> str:
    """Return the values that differ below the same headers, if the first ones, which name the rows, are the same."""
    values = dict(new)
    if old[0] != new[0]:
        return ""
    changed = [(header, value, values[header]) for header, value in old if values.get(header, value) != value]
    return "; ".join(f"{header}: {before} → {after}" for header, before, after in changed[:MAX_CHANGES])
