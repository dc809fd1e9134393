"""One section compared in two editions of a document: 'What changed in the section on rent between 2022 and 2025?'.

The sections are found by their headings, which may say the year or the edition too, so no search can mix them up with
others. Other comparisons are left to the search.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.prompt.editions import Edition, edition_of, editions_in, without_editions
from engine.prompt.followups import STOP_WORD, YEAR, relevant_turns
from engine.prompt.question_kind import QuestionKind, question_kind
from engine.prompt.titles import parse_title
from engine.prompt.versions import (
    GENERAL,
    MAX_UNITS,
    DocumentChanges,
    LocatedUnit,
    changes_between,
    in_order,
    located_units,
    may_compare,
    name_words,
    named_in,
    singulars,
)
from engine.request import Request
from engine.text import split_words
from store.types import Document, Finder

MAX_PAIRS = 12  # of editions whose headings are read
SECTION = re.compile(
    r"sections?|chapters?|clauses?|articles?|paragraphs?|parts?|abschnitte?n?|abschnitts|kapiteln?|artikeln?|absatz"
    r"|paragra(?:ph|f)en?|punkte?"
)
ADDED_OR_REMOVED = (
    r"(?:new|added|removed|dropped|deleted|gone|missing|neue?[mnrs]?|hinzugekommen|hinzugef\u00fcgt|weggefallen|entfallen"
    r"|gestrichen|entfernt)"
)
WHICH_SECTIONS = re.compile(  # 'Which section is new?', 'Are there new sections?', but not 'Which section says ...?'
    rf"\b(?:which|what|any|list|there|welche\w*|gibt es)\b(?:.{{0,60}}?\b{ADDED_OR_REMOVED} (?:{SECTION.pattern})\b"
    rf"|.{{0,40}}?\b(?:{SECTION.pattern})\b.{{0,60}}?\b(?:is|are|was|were|been|ist|sind|wurden?|worden)(?: \w+)?"
    rf" {ADDED_OR_REMOVED}\b(?! \w+ing\b))",
    re.I,
)
SINCE = re.compile(rf"\b(?:since|from|seit|than(?: in)?|compared (?:to|with)) {YEAR.pattern}", re.I)
WHAT_CHANGED = re.compile(  # not 'How did the fee change?'
    r"\b(?:what|which|list|any|was (?:hat|haben|ist|sind|wurde)|welche\w*)\b.{0,40}?"
    r"\b(?:changed?|changes|different|differences?|differs"
    r"|ge\u00e4ndert|\u00c4nderungen|anders|unterschiede?)\b",
    re.I,
)
EDITION = re.compile(r"editions?|versions?|fassung(?:en)?|ausgaben?|stand|bei|im|in")


def compare_sections(finder: Finder, request: Request) -> DocumentChanges | None:
    """Return how the section that a question names differs in two editions, or which sections are in one only.

    None for other questions, and if several pairs of documents have such a section, or if it is the same in both.
    """
    asks_for_headings = WHICH_SECTIONS.search(request.question) and not request.whole_document
    if asks_for_headings and (headings := _compare_headings(finder, request)):
        return headings
    is_comparison = may_compare(request.question) and question_kind(request.question) is QuestionKind.COMPARISON
    if request.whole_document or not is_comparison or relevant_turns(request.question, request.history):
        return None
    found = []
    for old, new in edition_pairs(finder, request):
        topic = topic_of(request.question, f"{old.name} {new.name}")
        units = [located_units(finder.chunks(each.id)) for each in (old, new)] if topic else []
        sections = [_section(each, topic) for each in units]
        if units and not any(sections) and WHAT_CHANGED.search(request.question):
            sections = [_section(each, topic, has_more_words=True) for each in units]
        if units and all(sections):
            found.append((old, new, sections))
    if len(found) != 1:
        return None
    old, new, (before, after) = found[0]
    changes = changes_between(before, after, min_shared=0.0)
    if changes and [len(change) for change in changes] == [1, 1]:
        (one,), (other,) = changes
        if one.chunk.document_id == old.id != other.chunk.document_id:  # few words in common, but the same place
            changes = [(one, other)]
    return DocumentChanges(old, new, changes) if changes else None


def _compare_headings(finder: Finder, request: Request) -> DocumentChanges | None:
    """Return the headings that are in one of two editions only; None if it is unclear which editions are meant."""
    found = []
    for old, new in edition_pairs(finder, request):
        titles = [_titles(located_units(finder.chunks(each.id))) for each in (old, new)]
        shared = titles[0].keys() & titles[1].keys()
        if 2 * len(shared) >= min(map(len, titles)) > 0:
            own = [unit for each in titles for words, unit in each.items() if words not in shared]
            found.append(DocumentChanges(old, new, [(unit,) for unit in own]))
    return found[0] if len(found) == 1 and found[0].changes else None


def _titles(units: Sequence[LocatedUnit]) -> dict[frozenset[str], LocatedUnit]:
    """Return the headings of a document but its title, by their words without numbers and editions."""
    titles: dict[frozenset[str], LocatedUnit] = {}
    for unit in [unit for unit in units if unit.is_heading][1:]:
        text = parse_title(unit.text).text
        words = frozenset(word for word in split_words(YEAR.sub("", text)) if not EDITION.fullmatch(word))
        titles.setdefault(words, replace(unit, text=text, start=unit.start + max(0, unit.text.find(text))))
    return titles


def edition_pairs(finder: Finder, request: Request) -> Iterator[tuple[Document, Document]]:
    """Yield the documents that may be meant: two that are named or chosen, or editions of one document.

    Of several editions they are those that the question names, or the one that it names and the one before it, else the
    two newest. If the words of some names are in the question, only these are meant.
    """
    scope = [document for document in finder.documents() if document.is_in(request.documents)]
    scope = [document for document in scope if document.num_chunks <= MAX_UNITS]
    words = set(split_words(request.question.replace("_", " ")))
    for chosen in (named_in(request.question, scope), scope):
        if len(chosen) == 2:
            yield in_order(chosen)
            return
    groups: dict[str, dict[Edition, Document]] = {}
    for document in scope:
        shared, edition = edition_of(document.name)
        if edition:
            groups.setdefault(shared, {})[edition] = document
    pairs = []
    for editions in groups.values():
        meant = _meant_editions(request.question, sorted(editions))
        if len(meant) == 2:
            pairs.append((editions[meant[0]], editions[meant[1]]))
    about = {old.id: len(singulars_of(words) & singulars_of(name_words(old))) for old, _ in pairs}
    yield from [pair for pair in pairs if about[pair[0].id] == max(about.values())][:MAX_PAIRS]


def _meant_editions(question: str, known: Sequence[Edition]) -> Sequence[Edition]:
    """Return the two editions that a question compares, of those known in order; fewer if it names others."""
    named = [edition for edition in known if edition in editions_in(question)]
    if len(named) != 1:
        return named if len(named) == 2 else known[-2:]
    place = known.index(named[0])
    if SINCE.search(question) and place < len(known) - 1:
        return [named[0], known[-1]]
    return known[max(0, place - 1) :][:2]


def topic_of(question: str, names: str) -> set[str]:
    """Return the words of a question that name a section: not those of comparing, nor of the documents' names."""
    words = set(split_words(without_editions(question.replace("_", " "))))
    known = singulars_of(set(split_words(names.replace("_", " "))))
    return {word for word in words if not _is_general(word) and not singulars(word) & known}


def _section(units: Sequence[LocatedUnit], topic: set[str], has_more_words: bool = False) -> list[LocatedUnit]:
    """Return the text of the first section whose heading has just the words of the topic, but for year and edition.

    It may have more words if it is the only one with these: 'Passwords and sign-in' for 'passwords'.
    """
    if has_more_words:
        titles = [set(split_words(unit.text)) for unit in units if unit.is_heading]
        if sum(_is_same(topic, title & singulars_of(topic)) for title in titles) != 1:
            return []
    level = 0
    found: list[LocatedUnit] = []
    for unit in units:
        title = parse_title(unit.text) if unit.is_heading else None
        if title and level and title.level <= level:
            break
        words = set(split_words(YEAR.sub("", title.text))) if title else set[str]()
        if title and not level and _is_same(topic, words & singulars_of(topic) if has_more_words else words):
            level = title.level
        elif level and not title:
            found.append(unit)
    return found


def _is_same(topic: set[str], title: set[str]) -> bool:
    """Return whether two sets of words name the same, in singular or plural."""
    title = {word for word in title if not _is_general(word)}
    return all(singulars(word) & singulars_of(title) for word in topic) and all(
        singulars(word) & singulars_of(topic) for word in title
    )


def _is_general(word: str) -> bool:
    return any(pattern.fullmatch(word) for pattern in (GENERAL, STOP_WORD, SECTION, EDITION))


def singulars_of(words: set[str]) -> set[str]:
    """Return what words may be the plurals of, and the words themselves."""
    return set().union(*map(singulars, words))
