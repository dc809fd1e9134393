"""Find the paragraphs that a document labels with what a question asks for: 'Decision 3: ...', 'Present: ...'."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from engine.generation.section import MAX_SECTION_UNITS, PARTIAL_CONFIDENCE, Section
from engine.prompt.overlap import content_words, stem
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind
from engine.prompt.units import Unit

LABEL = re.compile(r"\W*(?P<label>[^\W\d_]{3,})(?: [A-Z]?\d{1,3}[a-z]?)?[*_]*:[*_]*\s+(?P<text>\S+)")
MEETING = r"(?:[\w&'\u2019-]+ ){0,6}?(?:meeting|session|call|workshop|conference|assembly|committee|agm)\b"
PEOPLE = (  # questions about people, and the labels of these; the first that matches decides
    (
        re.compile(
            r"\bwho (?:was|were) (?:absent|missing|excused|not (?:there|present))\b"
            r"|\bwho sent (?:(?:his|her|their) )?apologies"
            r"|\bwer (?:fehlte|war (?:abwesend|entschuldigt))\b"
            r"|\bwer (?:war|hat)\b.*\bnicht\b.*\b(?:dabei|da|anwesend|teilgenommen)\b",
            re.I,
        ),
        re.compile(r"apologies|absent|excused|entschuldigt|abwesend", re.I),
    ),
    (
        re.compile(
            rf"\bwho (?:all )?(?:attended|took part in|participated in|(?:was|were) (?:at|in)) {MEETING}"
            r"|\bwho (?:all )?(?:was|were) (?:present|there)\b|\bwer war\b.*\b(?:dabei|anwesend)\b"
            r"|\bwer hat\b.*\bteilgenommen\b",
            re.I,
        ),
        re.compile(r"present|attend(?:ees|ance|ing)|participants|anwesend|teilnehmer(?:innen)?", re.I),
    ),
)
CLAUSE_END = re.compile(r"[,.;:!?]\s+")
NO_TOPIC = {"main", "key", "important", "major", "taken", "made", "agreed", "list", "show", "name", "give"}
NO_TOPIC |= {"wichtigsten", "getroffen", "gefasst", "nenne", "zeige"}
MIN_LABELLED = 2  # paragraphs with the same word and different numbers, or none


def find_labelled(prepared: PreparedPrompt, kind: QuestionKind, units: Sequence[Unit]) -> Section:
    """Return the paragraphs of the best document whose label is what a question asks for, and nothing more specific.

    The document may have more of them in other passages, or records of other meetings, so they are less certain.
    """
    hits, texts, question = prepared.hits, prepared.texts, prepared.original_question
    labels = [
        (unit, match)
        for unit in units
        if unit.block.kind == "paragraph"
        and (unit.start == unit.block.start or texts[unit.passage][unit.start - 1] == "\n")
        and (match := LABEL.match(unit.text(texts)))
    ]
    if hits:
        labels = [each for each in labels if hits[each[0].passage].chunk.document_id == hits[0].chunk.document_id]
        labels.sort(key=lambda each: (hits[each[0].passage].chunk.start, each[0].start))
    for asks, label in PEOPLE:
        if asks.search(question):
            found = [unit for unit, match in labels if label.fullmatch(match["label"]) and match["text"][0].isupper()]
            return Section(tuple(found) if len({unit.text(texts) for unit in found}) == 1 else (), PARTIAL_CONFIDENCE)
    paragraphs = defaultdict[str, dict[str, Unit]](dict)
    for unit, match in labels if kind is QuestionKind.LIST else ():
        same = (other for other, _ in labels if (other.passage, other.block) == (unit.passage, unit.block))
        whole = replace(unit, end=min([unit.block.end, *(other.start for other in same if other.start > unit.start)]))
        paragraphs[stem(match["label"].lower())].setdefault(whole.text(texts), whole)
    asked = next((name for name in paragraphs if _asks_only_for(name, question)), "")
    best = list(paragraphs[asked].values()) if asked else []
    return Section(tuple(best[:MAX_SECTION_UNITS]) if len(best) >= MIN_LABELLED else (), PARTIAL_CONFIDENCE)


def _asks_only_for(name: str, question: str) -> bool:
    """Return whether a clause of a question asks for what has this stem, in the plural, and for nothing else."""
    for clause in CLAUSE_END.split(question):
        words = content_words(clause) - NO_TOPIC
        if {stem(word) for word in words} == {name} and all(word.endswith(("s", "en")) for word in words):
            return True
    return False
