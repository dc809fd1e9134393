"""Find the section that a question names by its heading: 'What does the lease say about termination and notice?'.

It is quoted only if it is clear which documents are meant; other questions are left to the search for an answer.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.prompt.editions import other_editions
from engine.prompt.named_documents import FILE, SEVERAL, named_documents, several_documents, split_topic
from engine.prompt.overlap import content_stems
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import AUXILIARY, QUESTION_WORD, QuestionKind, split_parts
from engine.prompt.titles import CAPTION_LEVEL, is_title_of, parse_title
from engine.prompt.units import Unit
from store.markdown import HEADING

KINDS = (QuestionKind.FACT, QuestionKind.LIST)
MAX_SECTION_UNITS = 6
PARTIAL_CONFIDENCE = 0.9  # of a section that may go on, or that is one of several with this heading
MAX_TITLE_WORDS = 6  # of a question that names a section
VERB = re.compile(rf"\b(?:{QUESTION_WORD}|{AUXILIARY})\b", re.I)  # of a question that does more than that
SENTENCE_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"'\u201c\u201d\u2019\u00bb)\]*_]*$")


@dataclass(frozen=True, slots=True)
class Section:
    """The first sentences, list items, rows and headings below a heading or caption; none if none is the topic."""

    units: tuple[Unit, ...] = ()
    confidence: float = 1.0


def find_section(prepared: PreparedPrompt, kind: QuestionKind, units: Sequence[Unit]) -> Section:
    """Return the section of the document that the question names, or of the only document that has one.

    Of several documents, all must be named, and each must have one: they are returned in the order of their names.
    """
    subject, topic = split_topic(prepared.original_question)
    if not topic or len(split_parts(prepared.original_question)) > 1:
        return Section()
    reader = _Reader(prepared, units)
    several = several_documents(prepared.original_question, reader.names)
    named, others = named_documents(subject, reader.names)
    if not several and (kind not in KINDS or len(named) > 1 or SEVERAL.search(others) or FILE.search(others)):
        return Section()
    found: dict[str, dict[int, Section]] = {}
    for i, unit in enumerate(units):
        document = reader.documents[unit.passage]
        if (not named or document in named) and reader.is_title(i) and is_title_of(reader.text(unit), topic):
            section = reader.section_below(i)
            if section.units:
                found.setdefault(document, {}).setdefault(reader.offset(unit), section)
    if several:
        is_clear = found.keys() == several
    else:
        is_clear = len(found) == 1 and _numbers(others) <= _numbers(reader.names[next(iter(found))])
    if not is_clear:
        return Section()
    sections = [_first(found[document]) for document in sorted(found, key=reader.names.__getitem__)]
    confidence = min(section.confidence for section in sections)
    return Section(tuple(unit for section in sections for unit in section.units), confidence)


def find_titled_section(prepared: PreparedPrompt, kind: QuestionKind, units: Sequence[Unit]) -> Section:
    """Return the section that a question without a verb names: 'Opening hours office'.

    All its words are in the section's heading, those above it and the document's name; at least one, and if there is
    only one nothing else, is in the heading itself. Of the headings with most of its words, all must be in one document
    or the others in older editions of that.
    """
    asked = content_stems(prepared.original_question)
    is_phrase = kind in KINDS and not VERB.search(prepared.original_question) and len(asked) <= MAX_TITLE_WORDS
    if not asked or not is_phrase or prepared.original_question != prepared.standalone_question:
        return Section()
    reader = _Reader(prepared, units)
    older = other_editions(prepared.original_question, [hit.chunk.document_name for hit in prepared.hits])
    found: dict[tuple[int, int], list[int]] = {}
    for i, (unit, above) in enumerate(zip(units, reader.titles_above(), strict=True)):
        title = content_stems(parse_title(reader.text(unit)).text)
        is_named = bool(title & asked) and asked <= title | content_stems(above) and (len(asked) > 1 or title == asked)
        is_other = unit.passage in older.older | older.excluded
        if unit.block.kind == "heading" and is_named and not is_other:
            found.setdefault((len(title & asked), -len(title - asked)), []).append(i)
    best = [i for i in found.get(max(found), []) if reader.section_below(i).units] if found else []
    if len({reader.documents[units[i].passage] for i in best}) != 1:
        return Section()
    return _first({i: reader.section_below(i) for i in best})


def _first(sections: dict[int, Section]) -> Section:
    """Return the first of a document's sections with the same heading; it is less certain if there are others."""
    section = next(iter(sections.values()))
    return section if len(sections) == 1 else replace(section, confidence=PARTIAL_CONFIDENCE)


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+", text))


class _Reader:
    """Reads the sections of a prompt's passages, from one passage into the next of its document."""

    def __init__(self, prepared: PreparedPrompt, units: Sequence[Unit]) -> None:
        self._texts, self._units = prepared.texts, units
        self._chunks = [hit.chunk for hit in prepared.hits]
        self.documents = [chunk.document_id for chunk in self._chunks] or list(map(str, range(len(self._texts))))
        self.names = dict.fromkeys(self.documents, "")
        self.names |= {chunk.document_id: chunk.document_name for chunk in self._chunks}

    def text(self, unit: Unit) -> str:
        return unit.text(self._texts)

    def offset(self, unit: Unit) -> int:
        """Return the unit's first character in the text of its document."""
        if not self._chunks:
            return unit.start
        chunk = self._chunks[unit.passage]
        return chunk.start + unit.start - (len(self._texts[unit.passage]) - len(chunk.text.rstrip()))

    def is_title(self, index: int) -> bool:
        """Return whether a unit is a heading, or the line above a table."""
        unit, *following = self._units[index : index + 2]
        kinds = [each.block.kind for each in (unit, *following) if each.passage == unit.passage]
        return kinds[0] == "heading" or kinds == ["paragraph", "table"]

    def titles_above(self) -> Iterator[str]:
        """Yield for each unit the headings above its section, and the name of its document."""
        path: list[tuple[int, str]] = []
        passage = -1
        for unit in self._units:
            if unit.passage != passage:
                passage, path = unit.passage, []
            context = self._chunks[passage].context if self._chunks else ""
            if unit.block.kind == "heading":
                path = [(level, title) for level, title in path if level < self._level(unit)]
            yield " ".join([context, *(title for _, title in path)])
            if unit.block.kind == "heading":
                path.append((self._level(unit), self.text(unit)))

    def section_below(self, index: int) -> Section:
        """Return the units up to the next heading that is not below this one; of a caption, the rows of its table."""
        level = self._level(self._units[index])
        taken: list[Unit] = []
        passage: int | None = self._units[index].passage
        rest = [unit for unit in self._units[index + 1 :] if unit.passage == passage]
        while passage is not None:
            for unit in rest:
                if (unit.block.kind != "table") if level == CAPTION_LEVEL else (self._level(unit) <= level):
                    return Section(tuple(map(self._without_mark, taken)))
                if len(taken) == MAX_SECTION_UNITS:
                    return self._partial(taken, unit)
                taken.append(unit)
            passage = self._next_passage(passage)
            if passage is not None:  # it may repeat the end of the previous one
                start = self._chunks[passage].start
                taken = [unit for unit in taken if self.offset(unit) < start]
                end = max((self.offset(unit) + unit.end - unit.start for unit in taken), default=0)
                rest = [unit for unit in self._units if unit.passage == passage]
                rest = [unit for unit in rest if self.offset(unit) + unit.end - unit.start > end]
        return self._partial(taken, None)

    def _partial(self, taken: list[Unit], following: Unit | None) -> Section:
        """Return a section that goes on with a unit, or may go on, without a heading or part of a sentence at its end.

        A line of a paragraph may be part of a sentence.
        """
        while taken:
            last = taken[-1]
            goes_on = following is None or (following.passage, following.block) == (last.passage, last.block)
            is_cut = last.block.kind == "paragraph" and goes_on and not SENTENCE_END.search(self.text(last))
            if last.block.kind != "heading" and not is_cut:
                break
            following = taken.pop()
        return Section(tuple(map(self._without_mark, taken)), PARTIAL_CONFIDENCE)

    def _next_passage(self, passage: int) -> int | None:
        """Return the passage that follows in the document, if it is in the prompt."""
        if not self._chunks:
            return None
        following = (self._chunks[passage].document_id, self._chunks[passage].index + 1)
        keys = [(chunk.document_id, chunk.index) for chunk in self._chunks]
        return keys.index(following) if following in keys else None

    def _level(self, unit: Unit) -> int:
        """Return the level of a heading; of other units, that of a caption, which ends no section."""
        heading = HEADING.match(self.text(unit)) if unit.block.kind == "heading" else None
        return len(heading[1]) if heading else CAPTION_LEVEL

    def _without_mark(self, unit: Unit) -> Unit:
        heading = HEADING.match(self.text(unit)) if unit.block.kind == "heading" else None
        return replace(unit, start=unit.start + heading.start(2)) if heading else unit
