"""Lessons for the reader: which passages stand together, what is asked of them, and how they are read.

Passages come as retrieval brings them: some of one document, some of others. Some questions belong to none of them, and
the right answer is that the passages do not say. Most lessons are read as reuse reads them, so that it costs less.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from engine.errors import UnsupportedModel
from engine.model.decoder import Decoder
from engine.prompt.template import NO_ANSWER, Prompt
from engine.strategies.windows import WINDOW
from training.data.cloze import with_questions
from training.data.corpus import BadCorpus, Corpus, Paragraph, described
from training.data.packed import PackedExample
from training.data.synthetic_facts import record

ELSEWHERE = (  # where no other question is at hand
    "Who is named here as the treasurer?",
    "What is the phone number of the office?",
    "When does the shop open?",
)
LEAST = 24  # questions, to learn anything and to judge it
BESIDE = 256  # tokens of prefix, question and answer, beside a lesson's passages
ANSWER = 96  # tokens of an answer with its end mark; the rest of a longer one is not learned
JUDGES = 0  # seed of what is judged, whatever seed is trained with: two runs are judged by the same questions


@dataclass(frozen=True)
class DataMix:
    """What lessons are made of.

    passages, tokens  most in one lesson
    questions         most in one lesson
    absent            share of questions that the passages do not answer
    records           share of lessons about made-up facts
    plain             share of lessons read in one, as full prefill does; of the others half have fresh windows
    fresh             least and most share of windows that are computed again
    """

    passages: int = 8
    tokens: int = 1300
    questions: int = 16
    absent: float = 0.12
    records: float = 0.1
    plain: float = 0.3
    fresh: tuple[float, float] = (0.1, 0.3)


class TrainingExamples:
    """An endless, seeded stream of lessons; lesson n is the same whatever was drawn before it.

    materials  with questions; each is drawn as often as its weight says
    fillers    paragraphs that belong to no question
    """

    def __init__(
        self, prompt: Prompt, materials: Sequence[Corpus], fillers: Sequence[Paragraph], mix: DataMix, seed: int
    ) -> None:
        self._prompt, self._mix, self.seed = prompt, mix, seed
        self._materials, self._fillers = list(materials), list(fillers)
        self._weights = [material.weight for material in materials]

    def told(self, number: int) -> tuple[list[str], list[tuple[str, str]]]:
        """Return lesson n's passages, and its questions with their answers, as text."""
        return self._told(Random(f"{self.seed} {number}"))

    def __getitem__(self, number: int) -> PackedExample:
        draw = Random(f"{self.seed} {number}")
        texts, asked = self._told(draw)
        passages = tuple(self._prompt.passage(text).ids for text in texts)
        apart = draw.random() >= self._mix.plain
        lesson = PackedExample(self._prompt.prefix, passages, self._encoded(asked), apart)
        if apart and draw.random() < 0.5:
            return replace(lesson, fresh=_windows(lesson, draw.uniform(*self._mix.fresh), draw))
        return lesson

    def _told(self, draw: Random) -> tuple[list[str], list[tuple[str, str]]]:
        return self._recorded(draw) if draw.random() < self._mix.records else self._read(draw)

    def _read(self, draw: Random) -> tuple[list[str], list[tuple[str, str]]]:
        material = draw.choices(self._materials, self._weights)[0]
        own = material.paragraphs
        wanted = max(draw.randint(1, self._mix.passages) for _ in range(3))
        start = draw.randrange(len(own))
        near = [own[at % len(own)] for at in range(start, start + max(1, draw.randint(0, wanted)))]
        far = [draw.choice(own) for _ in range(wanted - len(near))]
        if self._fillers and draw.random() < 0.3:
            far += [draw.choice(self._fillers) for _ in range(draw.randint(1, self._mix.passages))]
        chosen = self._fitting([*near, *far][: self._mix.passages])
        draw.shuffle(chosen)
        texts = [paragraph.text for paragraph in chosen]
        inside = [pair for paragraph in chosen for pair in draw.sample(paragraph.asked, min(5, len(paragraph.asked)))]
        beside = [pair for at in range(start - 3, start + 12) for pair in own[at % len(own)].asked[:2]]
        return texts, self._questions(texts, inside, beside, draw)

    def _recorded(self, draw: Random) -> tuple[list[str], list[tuple[str, str]]]:
        source = self._fillers or [paragraph for material in self._materials for paragraph in material.paragraphs]
        chosen = self._fitting([draw.choice(source) for _ in range(draw.randint(1, self._mix.passages))])
        texts = [paragraph.text for paragraph in chosen]
        facts = [record(draw) for _ in range(draw.randint(3, 8))]
        for sentences, _, _ in facts[:-1]:  # the last one is not told
            for sentence, at in zip(sentences, sorted(draw.choices(range(len(texts)), k=len(sentences))), strict=True):
                said = re.split(r"(?<=[.!?]) ", texts[at])
                said.insert(draw.randint(1, len(said)), sentence)
                texts[at] = " ".join(said)
        inside = [(question, answer) for _, question, answer in facts[:-1]]
        return texts, self._questions(texts, inside, [facts[-1][1:]], draw)

    def _fitting(self, paragraphs: Sequence[Paragraph]) -> list[Paragraph]:
        """Drop repeated paragraphs, and those that the lesson has no room for."""
        kept, left = [], self._mix.tokens
        for paragraph in dict.fromkeys(paragraphs):
            size = len(self._prompt.passage(paragraph.text).ids)
            if size <= left:
                kept.append(paragraph)
                left -= size
        return kept or [Paragraph(paragraphs[0].text[:2000], paragraphs[0].asked)]

    def _questions(
        self, texts: Sequence[str], inside: list[tuple[str, str]], beside: list[tuple[str, str]], draw: Random
    ) -> list[tuple[str, str]]:
        said = "\n".join(texts).casefold()
        absent = [(asked, NO_ANSWER) for asked, answer in beside if answer.casefold() not in said]
        draw.shuffle(inside)
        draw.shuffle(absent)
        inside = inside[: self._mix.questions]
        none = sum(draw.random() < self._mix.absent for _ in range(max(4, len(inside))))
        return (inside + absent[: max(none, not inside)]) or [(draw.choice(ELSEWHERE), NO_ANSWER)]

    def _encoded(self, pairs: Sequence[tuple[str, str]]) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        prompt = self._prompt
        return tuple(
            (prompt.question(question), (prompt.tokens.encode(answer).ids + prompt.end)[:ANSWER])
            for question, answer in pairs
        )

    def windows(self, lesson: PackedExample, share: float) -> tuple[int, ...]:
        """Return the slots of about a `share` of the lesson's windows, drawn by the seed."""
        return _windows(lesson, share, Random(f"{self.seed} {len(lesson.context)}"))


def _windows(lesson: PackedExample, share: float, draw: Random) -> tuple[int, ...]:
    slot, rows = len(lesson.prefix), list[int]()
    for passage in lesson.passages:
        for start in range(slot, slot + len(passage), WINDOW):
            if draw.random() < share:
                rows += range(start, min(start + WINDOW, slot + len(passage)))
        slot += len(passage)
    return tuple(rows)


def held_out(materials: Sequence[Corpus], share: float) -> tuple[list[Corpus], list[Corpus]]:
    """Split each file's paragraphs: the last `share` of them is for judging."""
    cut = [round(len(material.paragraphs) * (1 - share)) for material in materials]
    kept = [replace(m, paragraphs=m.paragraphs[:at]) for m, at in zip(materials, cut, strict=True)]
    held = [replace(m, paragraphs=m.paragraphs[at:]) for m, at in zip(materials, cut, strict=True)]
    return kept, held


def train_eval_split(
    prompt: Prompt, materials: Sequence[Corpus], mix: DataMix, seed: int, share: float
) -> tuple[TrainingExamples, TrainingExamples]:
    """Return lessons to learn from, and lessons of held-out paragraphs, without made-up facts, to judge by.

    Files without a question give fillers; if no file has one, all get questions of ours. Raises BadMaterial if there
    are too few.
    """
    fillers = [paragraph for m in materials if not m.questions for paragraph in m.paragraphs]
    asked = [m for m in materials if m.questions] or [with_questions(m, JUDGES) for m in materials]
    kept, held = held_out(asked, share)
    counts = [sum(m.questions for m in part) for part in (kept, held)]
    if min(counts) < LEAST:
        raise BadCorpus(
            f"There are too few questions: {counts[0]} to learn from and {counts[1]} to judge by; {LEAST} of each are "
            "needed. Give more files."
        )
    judging = [m for m in held if m.questions]
    return TrainingExamples(prompt, kept, fillers, mix, seed), TrainingExamples(
        prompt, judging, fillers, replace(mix, records=0.0), JUDGES
    )


def judged_by(materials: Sequence[Corpus], mix: DataMix, share: float, count: int) -> dict[str, Any]:
    """Return what decides which questions a result is judged by, as JSON holds it."""
    shape = {"passages": mix.passages, "tokens": mix.tokens, "questions": mix.questions, "absent": mix.absent}
    return {"materials": described(materials), "held": share, "lessons": count, **shape}


def fits(decoder: Decoder, mix: DataMix) -> None:
    """Raise UnsupportedModel where a lesson may be longer than what the model reads."""
    room, wanted = decoder.spec.max_positions, mix.tokens + BESIDE
    if wanted > room:
        raise UnsupportedModel(f"{decoder.name} reads {room} tokens, but a lesson may have {wanted}; lower --tokens.")
