"""Lessons: seeded, within their bounds, and true: an answer stands in the passages, or it says that none does."""

import pytest

from engine.prompt.template import NO_ANSWER, Prompt
from tests.support import tiny
from training.data.corpus import Corpus, Paragraph
from training.data.examples import ANSWER, DataMix, TrainingExamples, held_out

PARAGRAPHS = tuple(
    Paragraph(
        f"Boat number {n} was built by the yard of Mr {name} in the year {1900 + n}. It carries {n * 7} cars.",
        ((f"When was boat {n} built?", f"{1900 + n}"), (f"Who built boat {n}?", f"Mr {name}")),
    )
    for n, name in enumerate(("Arden", "Bell", "Corso", "Dahl", "Eck", "Falk", "Gall", "Hald", "Ibsen", "Jans"), 11)
)
FILLERS = tuple(
    Paragraph(f"Nothing of use stands here, and {n} times nothing is still nothing at all.") for n in range(5)
)
MIX = DataMix(passages=4, tokens=400, questions=6)


@pytest.fixture(scope="module")
def prompt():
    return Prompt(tiny.tokenizer())


def lessons(prompt, seed=0, **mix):
    return TrainingExamples(prompt, [Corpus("boats", PARAGRAPHS)], FILLERS, DataMix(**{**vars(MIX), **mix}), seed)


def texts(prompt, lesson):
    decode = prompt.tokens.template.decode
    context = decode([token for passage in lesson.passages for token in passage])
    return context, [
        (decode(question), decode(answer, skip_special_tokens=True))
        for question, answer in lesson.questions
        if answer[-1:] == prompt.end
    ]


def test_a_lesson_is_the_same_whatever_was_drawn_before(prompt):
    one, other = lessons(prompt), lessons(prompt)
    assert [one[n] for n in range(6)] == [other[n] for n in reversed(range(6))][::-1]
    assert one[0] != lessons(prompt, seed=1)[0]


@pytest.mark.parametrize("records", [0.0, 1.0])
def test_every_answer_is_there_or_said_not_to_be(prompt, records):
    made, absent, present = lessons(prompt, records=records), 0, 0
    for number in range(60):
        context, asked = texts(prompt, made[number])
        for question, answer in asked:
            values = answer.removesuffix(".").rsplit(" is ", 1)[-1].rsplit(" are ", 1)[-1].split(", ")
            if answer == NO_ANSWER:
                absent += 1
                named = [p for p in PARAGRAPHS for q, _ in p.asked if q in question]
                assert all(paragraph.text not in context for paragraph in named)
            else:
                present += 1
                assert all(value in context for value in values)
    assert present > absent > 0


def test_bounds_are_kept_and_all_ways_of_reading_occur(prompt):
    made = [lessons(prompt)[number] for number in range(80)]
    assert all(1 <= len(lesson.passages) <= MIX.passages and lesson.questions for lesson in made)
    answers = [answer for lesson in made for _, answer in lesson.questions]
    assert all((answer[-1:] == prompt.end) == (len(answer) < ANSWER) for answer in answers if len(answer) != ANSWER)
    assert {(lesson.apart, bool(lesson.fresh)) for lesson in made} == {(False, False), (True, False), (True, True)}
    for lesson in made:
        assert list(lesson.fresh) == sorted(set(lesson.fresh))
        assert all(len(lesson.prefix) <= slot < len(lesson.context) for slot in lesson.fresh)


def test_windows_never_cross_a_passage_and_are_whole(prompt):
    lesson = next(x for x in (lessons(prompt)[n] for n in range(80)) if len(x.passages) > 1)
    everything = lessons(prompt).windows(lesson, 1.1)
    assert list(everything) == list(range(len(lesson.prefix), len(lesson.context)))
    some, starts, slot = set(lessons(prompt).windows(lesson, 0.5)), [], len(lesson.prefix)
    for passage in lesson.passages:
        starts += [(start, min(start + 8, slot + len(passage))) for start in range(slot, slot + len(passage), 8)]
        slot += len(passage)
    assert all(len(some & set(range(*window))) in (0, window[1] - window[0]) for window in starts)


def test_what_is_held_out_is_never_taught():
    kept, held = held_out([Corpus("boats", PARAGRAPHS)], 0.2)
    assert kept[0].paragraphs + held[0].paragraphs == PARAGRAPHS and len(held[0].paragraphs) == 2


def test_a_paragraph_longer_than_a_lesson_is_cut(prompt):
    long = Corpus("long", (Paragraph("word " * 3000, (("What?", "word"),)),))
    lesson = TrainingExamples(prompt, [long], (), MIX, 0)[0]
    assert 0 < len(lesson.context) < 3000
