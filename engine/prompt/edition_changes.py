"""What changed from one edition to the next: 'What is new in the 2025 policy?', 'Which rules were dropped?'.

No search finds what only one edition says. Comparisons of one topic are left to the search; each passage that it finds
is then read beside the same part of the other edition.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from engine.prompt.editions import EDITION, edition_of, editions_in
from engine.prompt.followups import relevant_turns
from engine.prompt.overlap import content_stems, content_words
from engine.prompt.question_kind import QuestionKind, question_kind
from engine.prompt.section_versions import edition_pairs, singulars_of, topic_of
from engine.prompt.versions import DocumentChanges, LocatedUnit, changes_between, located_units, may_compare, name_words
from engine.request import Request
from store.types import Document, Finder, Hit

REMOVED = re.compile(
    r"\b(?:removed|scrapped|dropped|abolished|withdrawn|discontinued|done away with|abgeschafft|gestrichen|weggefallen"
    r"|entfallen)\b"
    r"|\b(?:what|which)\b.{0,40}?\b(?:is|are|was|were) (?:no longer|(?:not|n['\u2019]t)\b.{0,60}\bany ?more)\b(?! than)"
    r"|\b(?:was|welche\w*)\b.{0,40}?\b(?:ist|sind|gilt|gelten)\b.{0,60}?\bnicht mehr\b(?! als)",
    re.I,
)
NEW = re.compile(  # also what has another value
    r"\bnew rules?\b|\bwhat(?:['\u2019]?s| is| was)(?: all)? new\b|\bwas ist(?: alles)? neu\b|\bneue regeln\b", re.I
)
ADDED = re.compile(r"\b(?:added|introduced|hinzugekommen|eingef\u00fchrt)\b", re.I)
NOT_A_CHANGE = re.compile(  # 'What must be added?', 'Who dropped it?'
    r"\b(?:must|may|can|should|to) be \w+\b|\b(?:if|when|who\w*|why|how|wenn|falls|wann|wer|warum|wie)\b", re.I
)
NEGATED = re.compile(r"\b(?:not?|never|nicht|kein\w*)\b|n['\u2019]t\b", re.I)
NO_LONGER = re.compile(r"\bno longer\b|\bnicht mehr\b|(?:\bnot|n['\u2019]t)\b(?=.*\bany ?more\b)", re.I)
ASKS_FOR_CHANGES = re.compile(r"\b(?:whats?|which|how|list|name|show|welche\w*|was|wie|nenne?\w*)\b", re.I)
MAIN = re.compile(r"\b(?:main|most important|key|biggest|major|wichtigste\w*) (?=\w+)", re.I)
NO_TOPIC = re.compile(  # words of a question about all changes, besides those of comparing
    r"rules?|polic(?:y|ies)|editions?|compared|since|under|allowed|permitted|possible|able|get|ones?|used?|things?"
    r"|regeln?|seit|erlaubt|m\u00f6glich"
)
OTHER_KINDS = r"conditions|catalogue|price ?list|tariff|\w+ordnung|Bedingungen|Preisliste"  # of documents with editions
BRACKETS = re.compile(r"\([^)]*\)")
MAX_CHUNKS = 300  # of an edition whose passages are compared with those of another
SHORT = {"examination": "exam", "examinations": "exam", "information": "info", "specification": "spec"}  # in names
MIN_SIMILARITY = 0.2  # of the words of two passages that are the same part of two editions


def compare_editions(finder: Finder, request: Request) -> DocumentChanges | None:
    """Return what only one of two editions says, if a question asks for that, or all changes if it names no topic.

    With a topic only what has a word of it. None if there is nothing, or if it is unclear which documents are meant:
    the question has to name them by a word of their names and one such as 'rules', or by the years of both.
    """
    question = BRACKETS.sub(" ", request.question)
    kind = question_kind(question)
    removed, is_new, added = (bool(pattern.search(question)) for pattern in (REMOVED, NEW, ADDED))
    is_one_sided = removed or is_new or added
    is_general = kind is QuestionKind.COMPARISON and may_compare(question)
    is_other = kind is QuestionKind.YES_NO or NEGATED.search(NO_LONGER.sub(" ", question))
    if request.whole_document or is_other or not (is_one_sided or is_general) or not ASKS_FOR_CHANGES.search(question):
        return None
    if (is_one_sided and NOT_A_CHANGE.search(question)) or relevant_turns(question, request.history):
        return None
    pairs = list(edition_pairs(finder, request))
    if len(pairs) != 1 or not _is_named(question, pairs[0]):
        return None
    old, new = pairs[0]
    change_words = REMOVED.sub(" ", NEW.sub(" ", ADDED.sub(" ", MAIN.sub(" ", question))))
    names = name_words(old) | name_words(new)
    topic = topic_of(change_words, f"{old.name} {new.name}")
    topic = {word for word in topic if not NO_TOPIC.fullmatch(word) and SHORT.get(word) not in names}
    if topic and not is_one_sided:
        return None
    before, after = (_units(finder, document) for document in (old, new))
    changes = changes_between(before, after) or []
    if is_one_sided:
        kept = {document.id for document, is_meant in ((old, removed), (new, is_new or added)) if is_meant}
        changes = [
            each
            for each in changes
            if (each[0].chunk.document_id in kept if len(each) == 1 else is_new) and _is_about(each, topic)
        ]
    if is_new:
        changes.sort(key=len)  # what is new before what has another value
    return DocumentChanges(old, new, changes) if changes else None


def with_counterparts(finder: Finder, request: Request, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits with those in two editions of a document first, each beside the same part of the other edition.

    A search finds a passage in one edition, and another one in the other: both say what the question compares.
    """
    pair = next(
        (pair for pair in edition_pairs(finder, request) if hits and hits[0].chunk.document_id in _ids(pair)), ()
    )
    are_editions = len({edition_of(document.name)[0] for document in pair}) == 1
    if not are_editions or max(document.num_chunks for document in pair) > MAX_CHUNKS:
        return list(hits)
    words = {
        document.id: [(each, content_words(each.text)) for each in finder.chunks(document.id)] for document in pair
    }
    by_id = {hit.chunk.id: hit for hit in hits}
    found = dict[str, Hit]()
    for hit in (hit for hit in hits if hit.chunk.document_id in words):
        own = content_words(hit.chunk.text)
        (others,) = (words[id_] for id_ in words if id_ != hit.chunk.document_id)
        chunk, other = max(others, key=lambda each: _similarity(own, each[1]), default=(hit.chunk, own))
        counterpart = chunk if _similarity(own, other) >= MIN_SIMILARITY else hit.chunk
        found |= {each.id: by_id.get(each.id) or replace(hit, chunk=each) for each in (hit.chunk, counterpart)}
    rest = {id_: hit for id_, hit in by_id.items() if id_ not in found}
    return list((found | rest).values())[: max(len(hits), request.passages + 1)]


def _is_named(question: str, pair: Sequence[Document]) -> bool:
    names = [set(filter(str.isalpha, name_words(document))) for document in pair]
    shared = singulars_of(set.intersection(*names)) & singulars_of(content_words(question))
    asked = editions_in(question)
    has_kind = asked or re.search(rf"\b(?:{EDITION}|{OTHER_KINDS})\b", question, re.I)
    editions = {edition_of(document.name)[1] for document in pair}
    return not asked - editions and (bool(shared and has_kind) or (() not in editions and editions <= asked))


def _units(finder: Finder, document: Document) -> list[LocatedUnit]:
    return [unit for unit in located_units(finder.chunks(document.id)) if not unit.is_heading]


def _is_about(change: Sequence[LocatedUnit], topic: set[str]) -> bool:
    stems = content_stems(" ".join(topic))
    return not topic or any(stems & content_stems(unit.text) for unit in change)


def _ids(pair: Sequence[Document]) -> set[str]:
    return {document.id for document in pair}


def _similarity(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(1, len(one | other))
