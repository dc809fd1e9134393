"""Two editions of a document compared: 'What changed in the section on rent?', 'Which rules were scrapped in 2025?'.

Sections are found by their headings, which may say the year or the edition too, so no search can mix them up with
others. Other comparisons are left to the search.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.prompt.editions import edition_of
from engine.prompt.followups import STOP_WORD, YEAR, relevant_turns
from engine.prompt.overlap import content_words
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
from store.types import Document, Finder, Hit

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
REMOVED = re.compile(
    r"\b(?:removed|scrapped|dropped|abolished|deleted|withdrawn|discontinued|no longer|any ?more|done away with"
    r"|abgeschafft|gestrichen|weggefallen|entfallen|nicht mehr)\b",
    re.I,
)
ADDED = re.compile(
    r"\b(?:added|introduced|new (?:rules?|in|since|with|under)|what(?:['\u2019]?s| is| was)(?: all)? new"
    r"|was ist(?: alles)? neu|neue regeln|hinzugekommen|eingef\u00fchrt)\b",
    re.I,
)
ASKS_FOR_CHANGES = re.compile(r"\b(?:whats?|which|list|name|show|welche\w*|was|nenne?\w*)\b", re.I)
NO_TOPIC = re.compile(  # words of a question about all changes, besides those of comparing
    r"main|most|important|key|biggest|major|rules?|polic(?:y|ies)|compared|since|under|wichtigste[nr]?|regeln?|seit"
)
EDITION = re.compile(r"editions?|versions?|fassung(?:en)?|ausgaben?|stand|bei|im|in")


def compare_sections(finder: Finder, request: Request) -> DocumentChanges | None:
    """Return how the section that a question names differs in two editions, or which sections are in one only.

    None for other questions, and if several pairs of documents have such a section, or if it is the same in both.
    """
    asks_for_headings = WHICH_SECTIONS.search(request.question) and not request.whole_document
    if asks_for_headings and (headings := _compare_headings(finder, request)):
        return headings
    if not request.whole_document and (compared := _compare_editions(finder, request)):
        return compared
    is_comparison = may_compare(request.question) and question_kind(request.question) is QuestionKind.COMPARISON
    if request.whole_document or not is_comparison or relevant_turns(request.question, request.history):
        return None
    found = []
    for old, new in _pairs(finder, request):
        topic = _topic(request.question, f"{old.name} {new.name}")
        sections = [_section(located_units(finder.chunks(each.id)), topic) for each in (old, new)] if topic else [[]]
        if all(sections):
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
    for old, new in _pairs(finder, request):
        titles = [_titles(located_units(finder.chunks(each.id))) for each in (old, new)]
        shared = titles[0].keys() & titles[1].keys()
        if 2 * len(shared) >= min(map(len, titles)) > 0:
            own = [unit for each in titles for words, unit in each.items() if words not in shared]
            found.append(DocumentChanges(old, new, [(unit,) for unit in own]))
    return found[0] if len(found) == 1 and found[0].changes else None


def _compare_editions(finder: Finder, request: Request) -> DocumentChanges | None:
    """Return what only one of two editions says, if a question asks for that, or all changes if it asks for no less.

    None if it is unclear which documents are meant: it has words of their names or the years of both.
    """
    question, kind = request.question, question_kind(request.question)
    removed, added = REMOVED.search(question), ADDED.search(question)
    if kind is QuestionKind.YES_NO or not ASKS_FOR_CHANGES.search(question):
        return None
    if not (removed or added or kind is QuestionKind.COMPARISON) or relevant_turns(question, request.history):
        return None
    pairs = list(_pairs(finder, request))
    if len(pairs) != 1:
        return None
    old, new = pairs[0]
    names = [set(filter(str.isalpha, name_words(document))) for document in (old, new)]
    shared = _singulars(set.intersection(*names)) & _singulars(content_words(question))
    if not shared and not set(YEAR.findall(f"{old.name} {new.name}".replace("_", " "))) <= set(YEAR.findall(question)):
        return None
    if not (removed or added) and not all(map(NO_TOPIC.fullmatch, _topic(question, f"{old.name} {new.name}"))):
        return None
    before, after = (
        [unit for unit in located_units(finder.chunks(each.id)) if not unit.is_heading] for each in (old, new)
    )
    changes = changes_between(before, after) or []
    if removed or added:
        kept = {document.id for document, is_meant in ((old, removed), (new, added)) if is_meant}
        changes = [change for change in changes if len(change) == 1 and change[0].chunk.document_id in kept]
    return DocumentChanges(old, new, changes) if changes else None


def _titles(units: Sequence[LocatedUnit]) -> dict[frozenset[str], LocatedUnit]:
    """Return the headings of a document but its title, by their words without numbers and editions."""
    titles: dict[frozenset[str], LocatedUnit] = {}
    for unit in [unit for unit in units if unit.is_heading][1:]:
        text = parse_title(unit.text).text
        words = frozenset(word for word in split_words(YEAR.sub("", text)) if not EDITION.fullmatch(word))
        titles.setdefault(words, replace(unit, text=text, start=unit.start + max(0, unit.text.find(text))))
    return titles


def _pairs(finder: Finder, request: Request) -> Iterator[tuple[Document, Document]]:
    """Yield the documents that may be meant: two that are named or chosen, or editions of one document.

    Of several editions they are those of the years that the question names, else the two newest. If the words of
    some names are in the question, only these are meant.
    """
    scope = [document for document in finder.documents() if document.is_in(request.documents)]
    scope = [document for document in scope if document.num_chunks <= MAX_UNITS]
    words = set(split_words(request.question.replace("_", " ")))
    for chosen in (named_in(request.question, scope), scope):
        if len(chosen) == 2:
            yield in_order(chosen)
            return
    editions: dict[str, dict[str, Document]] = {}
    for document in scope:
        shared, year = edition_of(document.name)
        if year:
            editions.setdefault(shared, {})[year] = document
    years = set(YEAR.findall(request.question))
    pairs = []
    for by_year in editions.values():
        meant = sorted(years & by_year.keys() if len(years) == 2 else by_year)[-2:]
        if len(meant) == 2:
            pairs.append((by_year[meant[0]], by_year[meant[1]]))
    about = {old.id: len(_singulars(words) & _singulars(name_words(old))) for old, _ in pairs}
    yield from [pair for pair in pairs if about[pair[0].id] == max(about.values())][:MAX_PAIRS]


def with_counterparts(finder: Finder, request: Request, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits with those in two editions of a document first, each beside the same part of the other edition.

    A search finds a passage in one edition, and another one in the other: both say what the question compares.
    """
    pair = next((pair for pair in _pairs(finder, request) if hits and hits[0].chunk.document_id in _ids(pair)), None)
    if pair is None:
        return list(hits)
    by_id = {hit.chunk.id: hit for hit in hits}
    found = dict[str, Hit]()
    for hit in (hit for hit in hits if hit.chunk.document_id in _ids(pair)):
        other = next(document for document in pair if document.id != hit.chunk.document_id)
        words, chunks = content_words(hit.chunk.text), finder.chunks(other.id)
        chunk = max(chunks, key=lambda each: _similarity(words, content_words(each.text)), default=hit.chunk)
        found |= {each.id: by_id.get(each.id) or replace(hit, chunk=each) for each in (hit.chunk, chunk)}
    others = {id_: hit for id_, hit in by_id.items() if id_ not in found}
    return list((found | others).values())[: max(len(hits), request.passages + 1)]


def _ids(pair: Sequence[Document]) -> set[str]:
    return {document.id for document in pair}


def _similarity(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(1, len(one | other))


def _topic(question: str, names: str) -> set[str]:
    """Return the words of a question that name a section: not those of comparing, nor of the documents' names."""
    words = set(split_words(YEAR.sub("", question.replace("_", " "))))
    known = _singulars(set(split_words(names.replace("_", " "))))
    return {word for word in words if not _is_general(word) and not singulars(word) & known}


def _section(units: Sequence[LocatedUnit], topic: set[str]) -> list[LocatedUnit]:
    """Return the text of the first section whose heading has just the words of the topic, but for year and edition."""
    level = 0
    found: list[LocatedUnit] = []
    for unit in units:
        title = parse_title(unit.text) if unit.is_heading else None
        if title and level and title.level <= level:
            break
        if title and not level and _is_same(topic, set(split_words(YEAR.sub("", title.text)))):
            level = title.level
        elif level and not title:
            found.append(unit)
    return found


def _is_same(topic: set[str], title: set[str]) -> bool:
    """Return whether two sets of words name the same, in singular or plural."""
    title = {word for word in title if not _is_general(word)}
    return all(singulars(word) & _singulars(title) for word in topic) and all(
        singulars(word) & _singulars(topic) for word in title
    )


def _is_general(word: str) -> bool:
    return any(pattern.fullmatch(word) for pattern in (GENERAL, STOP_WORD, SECTION, EDITION))


def _singulars(words: set[str]) -> set[str]:
    return set().union(*map(singulars, words))
