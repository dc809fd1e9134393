"""Questions that the documents themselves contain, as in an FAQ or an e-mail, and the text after them: the answer."""

from collections.abc import Iterator, Mapping, Sequence

from engine.generation.section import Section
from engine.prompt.answer_type import expected_content
from engine.prompt.overlap import content_stems
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind, question_kind, split_parts
from engine.prompt.titles import parse_title
from engine.prompt.units import Unit

KINDS = (QuestionKind.FACT, QuestionKind.YES_NO)
MAX_ANSWER_UNITS = 4
MIN_SHARED = 2  # words of a document's question that are all in the question asked
MIN_SHARE = 0.6  # of the words of both questions, if the document's has others
CONFIDENCE = 0.9


def find_answered_question(prepared: PreparedPrompt, kind: QuestionKind, units: Sequence[Unit]) -> Section:
    """Return the text after the document's question that is most like the question asked; none if none is like it."""
    asked = prepared.original_question
    is_follow_up = asked != prepared.standalone_question  # more than its words
    if kind not in KINDS or is_follow_up or len(split_parts(asked)) > 1:
        return Section()
    answers = answers_to_questions(prepared, units)
    likeness = {unit: _likeness(asked, kind, unit.text(prepared.texts)) for unit in answers}
    best = max(likeness, key=likeness.__getitem__, default=None)
    if best is None or not likeness[best]:
        return Section()
    return Section(tuple(answers[best][:MAX_ANSWER_UNITS]), CONFIDENCE)


def answers_to_questions(prepared: PreparedPrompt, units: Sequence[Unit]) -> Mapping[Unit, Sequence[Unit]]:
    """Return what follows each question in the rest of its paragraph, or, if it ends that, in the next block.

    Questions without an answer are left out.
    """
    answers = {}
    for index, unit in enumerate(units):
        if is_question(unit, prepared.texts) and (answer := list(_units_after(index, prepared, units))):
            answers[unit] = answer
    return answers


def is_question(unit: Unit, texts: Sequence[str]) -> bool:
    """Return whether a heading or sentence is a question."""
    return unit.block.kind in ("heading", "paragraph") and ends_as_question(unit.text(texts))


def ends_as_question(text: str) -> bool:
    """Return whether a text ends with a question mark, apart from emphasis."""
    return text.rstrip("*_# ").endswith("?")


def _units_after(index: int, prepared: PreparedPrompt, units: Sequence[Unit]) -> Iterator[Unit]:
    question = units[index]
    block = None
    for following in range(index + 1, len(units)):
        unit = units[following]
        block = block or unit.block
        is_other = unit.passage != question.passage or unit.block != block or unit.block.kind == "heading"
        if is_other or is_question(unit, prepared.texts):
            return
        yield unit


def _likeness(asked: str, kind: QuestionKind, other: str) -> float:
    """Return the share of the words of two questions that they have in common; 0 if that is too little to be alike."""
    title = parse_title(other).text
    if question_kind(title) != kind or expected_content(title) is not expected_content(asked):
        return 0.0
    mine, others = content_stems(asked), content_stems(title)
    share = len(mine & others) / max(1, len(mine | others))
    return share if share >= MIN_SHARE or (len(others) >= MIN_SHARED and others <= mine) else 0.0
