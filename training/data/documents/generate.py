"""Compose documents, split them into passages, and draw questions so that the types have their shares."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from store.markdown import contexts_at
from training.data.documents import phrasing
from training.data.documents.prose import ProseWriter
from training.data.documents.tables import TableWriter
from training.data.documents.vocabulary import Attribute, read_vocabulary
from training.data.documents.world import Entity, Question, World
from training.data.documents.writer import Piece

SHARES = {  # of the questions, in percent
    **{"table": 28, "reverse": 4, "superlative": 3, "fact": 25, "list": 8, "steps": 6, "yes/no": 6, "reason": 6},
    **{"dated": 4, "multi": 3, "unanswerable": 10},
}
GERMAN_FRACTION = 0.15
FAMILY_FRACTION = 0.45  # of the kinds that have versions are written in two
QUESTIONS_PER_PASSAGE = 4.5
MIN_WORDS, MAX_WORDS = 60, 440  # of a passage
MIN_PASSAGES, MAX_PASSAGES = 3, 12
REPEATED = ("list", "steps", "yes/no", "reason", "dated")  # types whose questions occur twice, rephrased
MAX_USES = 2
NAMED_DOCUMENT_FRACTION = 0.15  # of the questions about no entity, besides those that cannot be answered
NUM_COMPARED = 8  # candidates, of which the one whose passage has the fewest questions is chosen
NUM_ABSENT = 24  # candidates for unanswerable questions of a document


@dataclass
class Passage:
    """A passage and the questions that it answers."""

    context: str
    questions: list[Question]
    phrased: list[tuple[str, Question]] = field(default_factory=list)  # drawn questions with their text

    def to_row(self) -> dict[str, Any]:
        """Return the row of a corpus."""
        qas = [
            {
                "question": text,
                "answers": [question.answer] if question.type != "unanswerable" else [],
                "type": question.type,
            }
            for text, question in self.phrased
        ]
        return {"context": self.context, "qas": qas}


def write_documents(count: int, seed: int, out: Path) -> Counter[str]:
    """Write the passages of `count` documents as JSON lines; return the number of questions by type."""
    types = Counter[str]()
    with out.open("w", encoding="utf-8") as file:
        for passages in generate_documents(count, seed):
            for passage in passages:
                file.write(json.dumps(passage.to_row(), ensure_ascii=False) + "\n")
                types.update(question.type for _, question in passage.phrased)
    return types


def generate_documents(count: int, seed: int) -> Iterator[list[Passage]]:
    """Yield the passages of each document; two versions of a document follow each other."""
    counts = Counter[str]()
    recent: list[str] = []
    done = number = 0
    while done < count:
        rng = Random(f"{seed} {number}")
        language = "german" if rng.random() < GERMAN_FRACTION else "english"
        kinds = [kind for kind in read_vocabulary(language).kinds if kind.name not in recent]
        kind = rng.choice(kinds)
        recent = [*recent, kind.name][-5:]
        is_family = kind.version != "none" and rng.random() < FAMILY_FRACTION and count - done > 1
        worlds = [World(f"{seed} {number}", language, kind, version, is_family) for version in range(1 + is_family)]
        writers = [_write_document(world) for world in worlds]
        family = [_split(world, writer.pieces) for world, writer in zip(worlds, writers, strict=True)]
        unused = [{question.key: question for question in writer.unused_questions()} for writer in writers]
        missing = [question for key, question in unused[0].items() if all(key in other for other in unused)]
        for index, (world, passages) in enumerate(zip(worlds, family, strict=True)):
            others = family[:index] + family[index + 1 :]
            _ask(world, passages, others, missing, counts, Random(f"{seed} {number} questions {index}"))
            yield passages
        done += len(family)
        number += 1


class DocumentWriter(ProseWriter, TableWriter):
    """Writes every kind of content."""


def _write_document(world: World) -> DocumentWriter:
    rng = world.rng("layout")
    writer = DocumentWriter(world)
    goal = rng.choice((300, 450, 600, 800, 1000, 1300))
    has_headings = rng.random() < 0.9
    if has_headings:
        writer.heading(world.title, 1)
    sections = [section for section in world.kind.sections if rng.random() < 0.85] or list(world.kind.sections)
    level = rng.choice((2, 2, 2, 3))
    for headings, contents in sections * 3:
        if sum(_num_words(piece.text) for piece in writer.pieces) >= goal:
            break
        if has_headings:
            writer.heading(world.fill(rng.choice(headings), rng), level)
        before = len(writer.pieces)
        for content in contents:
            options = content.split("/")
            writer.write(rng.choice(options))
        if len(writer.pieces) == before and has_headings:
            writer.pieces.pop()
    return writer


def _split(world: World, pieces: Sequence[Piece]) -> list[Passage]:
    """Split a document into passages at ends of pieces; each starts with the document's name and headings."""
    rng = world.rng("split")
    text, offsets = "", []
    for piece in pieces:
        if text:
            text += "\n" if piece.is_row else "\n\n"
        offsets.append(len(text))
        text += piece.text
    contexts = contexts_at(text, offsets)
    total = _num_words(text)
    words_at_least = max(MIN_WORDS + 10, total // (MAX_PASSAGES - 1))
    words_at_most = max(words_at_least + 1, min(260, total // MIN_PASSAGES))
    groups: list[list[int]] = [[]]
    goal = rng.randint(words_at_least, words_at_most)
    words = 0
    for index, piece in enumerate(pieces):
        is_after_heading = index > 0 and pieces[index - 1].is_heading
        more = _num_words(piece.text)
        if groups[-1] and not is_after_heading and (words >= goal or words + more > MAX_WORDS):
            groups.append([])
            goal, words = rng.randint(words_at_least, words_at_most), 0
        groups[-1].append(index)
        words += more
    if len(groups) > 1 and words < MIN_WORDS:
        last = groups.pop()
        groups[-1] += last
    passages = []
    for group in groups:
        start, end = offsets[group[0]], offsets[group[-1]] + len(pieces[group[-1]].text)
        header = " > ".join([world.stem, *contexts[group[0]]])
        questions = [question for index in group for question in pieces[index].questions]
        passages.append(Passage(f"{header}\n\n{text[start:end]}", questions))
    return passages


def _ask(
    world: World,
    passages: Sequence[Passage],
    others: Sequence[Sequence[Passage]],
    missing: Sequence[Question],
    counts: Counter[str],
    rng: Random,
) -> None:
    """Draw questions for the passages of a document: the next type is the one that `counts` lacks most."""
    by_type: dict[str, list[tuple[Passage, Question]]] = {type: [] for type in SHARES}
    stated: dict[tuple[str, tuple[str, ...]], set[str]] = {}  # the answers of a question: different ones are dropped
    for question in (question for passage in passages for question in passage.questions):
        stated.setdefault((question.type, question.key), set()).add(question.answer.casefold())
    for passage in passages:
        for question in [*passage.questions, *_multi_questions(world, passage, rng)]:
            if len(stated.get((question.type, question.key), ())) > 1:
                continue
            assert question.type in ("yes/no", "multi") or question.answer in passage.context, question
            by_type[question.type].append((passage, question))
    by_type["unanswerable"] = _absent_questions(world, passages, others, rng)
    text = "\n".join(passage.context for passages in (passages, *others) for passage in passages).casefold()
    absent = [question for question in missing if question.absent.casefold() not in text]
    by_type["unanswerable"] += [
        (rng.choice(passages), question) for question in rng.sample(absent, min(4, len(absent)))
    ]
    for candidates in by_type.values():
        rng.shuffle(candidates)
    siblings = {
        question.key: question.answer for other in others for passage in other for question in passage.questions
    }
    answers: dict[str, str] = {}
    uses = Counter[tuple[str, tuple[str, ...]]]()
    for _ in range(round(QUESTIONS_PER_PASSAGE * len(passages))):
        available = [type for type, candidates in by_type.items() if candidates]
        if not available:
            break
        total = sum(counts.values()) + 1
        chosen = max(available, key=lambda type: SHARES[type] * total / sum(SHARES.values()) - counts[type])
        candidates = by_type[chosen]
        nearest = min(range(min(NUM_COMPARED, len(candidates))), key=lambda at: len(candidates[at][0].phrased))
        passage, question = candidates.pop(nearest)
        uses[chosen, question.key] += 1
        if chosen in REPEATED and uses[chosen, question.key] < MAX_USES:
            by_type[chosen].append((passage, question))
        text = question.ask(rng)
        if world.is_family and world.version_label not in text and not _has_year(question):
            is_changed = question.key in siblings and siblings[question.key] != question.answer
            if rng.random() < (1.0 if is_changed or chosen == "superlative" else 0.2):
                phrases = world.words.lists[
                    "in_version_number" if world.kind.version == "number" else "in_version_year"
                ]
                qualifier = world.fill(rng.choice(phrases), rng, v=world.version_label, doc=world.noun)
                text = phrasing.add_qualifier(world, text, qualifier, rng)
        elif not question.subject and rng.random() < (0.9 if chosen == "unanswerable" else NAMED_DOCUMENT_FRACTION):
            qualifier = rng.choice(world.words.lists["in_document"]).replace("{T}", world.title)
            text = phrasing.add_qualifier(world, text, qualifier, rng)
        text = phrasing.finish(world, text, rng)
        if answers.setdefault(text, question.answer) == question.answer and (text, question) not in passage.phrased:
            passage.phrased.append((text, question))
            counts[chosen] += 1


def _multi_questions(world: World, passage: Passage, rng: Random) -> list[Question]:
    """Return questions for two values of an entity that a passage holds."""
    by_entity: dict[str, dict[Any, Question]] = {}
    for question in passage.questions:
        if question.subject and not question.key[2] and question.type in ("table", "fact"):
            by_entity.setdefault(question.key[0], {})[question.key] = question
    found = []
    for name, questions in by_entity.items():
        if len(questions) >= 2:
            first, second = rng.sample(list(questions.values()), 2)
            answer = f"{first.answer} {world.words.lists['and'][0]} {second.answer}"
            pairs = [question.subject for question in (first, second) if question.subject]
            ask = partial(_ask_several, world, pairs)
            found.append(Question("multi", (name, first.key[1], second.key[1]), answer, ask))
    return found


def _ask_several(world: World, pairs: Sequence[tuple[Entity, Attribute]], rng: Random) -> str:
    entity = pairs[0][0]
    is_implicit = entity is world.subject and rng.random() < 0.35
    return phrasing.ask_several(world, [attribute for _, attribute in pairs], entity, rng, is_implicit)


def _absent_questions(
    world: World, passages: Sequence[Passage], others: Sequence[Sequence[Passage]], rng: Random
) -> list[tuple[Passage, Question]]:
    """Return questions for what neither the document nor its other version holds: attributes, entities, years."""
    all_passages = [*passages, *(passage for other in others for passage in other)]
    text = "\n".join(passage.context for passage in all_passages).casefold()
    subjects = [q.subject for passage in passages for q in passage.questions if q.subject]
    stated = {question.key[:2] for passage in all_passages for question in passage.questions}
    found = []
    for number in range(NUM_ABSENT if subjects else 0):
        entity, _ = rng.choice(subjects)
        attribute = rng.choice(entity.entity_class.attributes)
        period = str(world.year) if attribute.name.endswith("*") else ""
        names = {word.casefold() for word in (*attribute.labels, *attribute.nouns)}
        is_stated = any(re.search(rf"\b{re.escape(_without_article(name))}\b", text) for name in names)
        roll = rng.random()
        if roll < 0.5 and not is_stated and (entity.name, attribute.name) not in stated:
            absent = attribute.labels[0]
        elif 0.5 <= roll < 0.8 and (like_it := world.entities(entity.entity_class.name, 1, f"absent {number}")):
            entity, absent = like_it[0], like_it[0].name
        elif roll >= 0.8 and period and entity is world.subject:
            period = absent = str(world.first_year + rng.choice((-9, -8, -7, 5, 6)))
        else:
            continue
        if absent.casefold() not in text:
            ask = partial(phrasing.ask_value, world, attribute, entity, period=period)
            key = (entity.name, attribute.name, period)
            found.append((rng.choice(passages), Question("unanswerable", key, "", ask, (entity, attribute), absent)))
    return found


def _has_year(question: Question) -> bool:
    return bool(question.subject) and question.key[2].isdigit()


def _without_article(noun: str) -> str:
    return re.sub("^(the|der|die|das) ", "", noun)


def _num_words(text: str) -> int:
    return len(text.split())
