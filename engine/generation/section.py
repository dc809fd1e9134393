"""Find the section that a question names by its heading: 'What does the lease say about termination and notice?'."""

import re
from collections.abc import Sequence
from itertools import takewhile

from engine.prompt.pack import PreparedPrompt
from engine.prompt.units import Unit
from engine.text import split_words

TOPIC = re.compile(r"\bsays? about (?:the |our |my )?(.+)", re.I)
MAX_SECTION_UNITS = 6
MAX_NUMBER_WORDS = 3  # before a title: '2.1', 'Table 3:', '4. About the'


def section_units(prepared: PreparedPrompt, units: Sequence[Unit]) -> list[Unit]:
    """Return the first sentences, list items or rows of the section, or of the table; none if no heading is the topic.

    A document that the question names comes first.
    """
    question = prepared.original_question
    match = TOPIC.search(question)
    topic = split_words(match[1]) if match else []
    if not topic:
        return []
    found = []
    for i, unit in enumerate(units):
        following = units[i + 1 : i + 1 + MAX_SECTION_UNITS]
        is_caption = unit.block.kind == "paragraph" and bool(following) and following[0].block.kind == "table"
        if unit.block.kind == "heading" or is_caption:
            title = split_words(prepared.texts[unit.passage][unit.start : unit.end])
            if title[-len(topic) :] == topic and len(title) <= len(topic) + MAX_NUMBER_WORDS:
                found.append(_up_to_heading(following, unit.passage))
    sections = [section for section in found if section]
    names = [hit.chunk.document_name.casefold() for hit in prepared.hits]
    named = [section for section in sections if names and names[section[0].passage] in question.casefold()]
    return next(iter([*named, *sections]), [])


def _up_to_heading(units: Sequence[Unit], passage: int) -> list[Unit]:
    return list(takewhile(lambda unit: unit.passage == passage and unit.block.kind != "heading", units))
