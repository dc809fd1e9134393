"""Find the paragraphs that a document labels with what a question asks for: 'Decision 3: ...', 'Present: ...'."""

import re
from collections import defaultdict
from collections.abc import Sequence

from engine.generation.section import MAX_SECTION_UNITS, Section
from engine.prompt.overlap import content_words, stem
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind
from engine.prompt.units import Unit

LABEL = re.compile(r"\W*(?P<label>[^\W\d_]{3,})(?P<number> [A-Z]?\d{1,3}[a-z]?)?[*_]*:[*_]*\s")
PEOPLE = {  # labels of those for whom a question asks
    re.compile(
        r"\bwho (?:all )?(?:attended|took part|participated|(?:was|were) (?:at|in|present|there))\b"
        r"|\bwer (?:war|nahm|hat)\b.*\b(?:dabei|anwesend|teil\w*)\b",
        re.I,
    ): re.compile(r"present|attend(?:ees|ance|ing)|participants|anwesend|teilnehmer(?:innen)?", re.I),
    re.compile(
        r"\bwho (?:was|were) (?:absent|missing|excused|not (?:there|present))\b|\bwho sent (?:his|her|their )?apologies"
        r"|\bwer (?:fehlte|war (?:nicht (?:da|dabei|anwesend)|abwesend|entschuldigt))\b",
        re.I,
    ): re.compile(r"apologies|absent|excused|entschuldigt|abwesend", re.I),
}
MIN_LABELLED = 2  # paragraphs with the same word and different numbers, or none


def find_labelled(prepared: PreparedPrompt, kind: QuestionKind, units: Sequence[Unit]) -> Section:
    """Return the first sentences of the paragraphs of the best document whose label is what a question asks for."""
    hits, question = prepared.hits, prepared.original_question
    labels = [(unit, match) for unit in units if (match := LABEL.match(unit.text(prepared.texts)))]
    if hits:
        labels = [each for each in labels if hits[each[0].passage].chunk.document_id == hits[0].chunk.document_id]
        labels.sort(key=lambda each: (hits[each[0].passage].chunk.start, each[0].start))
    for asks, label in PEOPLE.items():
        if asks.search(question):
            return Section(tuple(unit for unit, match in labels if label.fullmatch(match["label"]))[:1])
    found = defaultdict[str, dict[str, Unit]](dict)
    if kind is QuestionKind.LIST:
        asked = {stem(word) for word in content_words(question) if word.endswith(("s", "en"))}
        for unit, match in labels:
            if stem(match["label"].lower()) in asked and unit.block.kind == "paragraph":
                found[match["label"]].setdefault(unit.text(prepared.texts), unit)
    best = max(found.values(), key=len, default={})
    return Section(tuple(best.values())[:MAX_SECTION_UNITS] if len(best) >= MIN_LABELLED else ())
