"""Questions made of several questions of a document, and questions that it does not answer."""

import re
from collections.abc import Collection, Sequence
from functools import partial
from random import Random
from typing import Any

from training.data.documents import phrasing
from training.data.documents.vocabulary import Attribute
from training.data.documents.world import Entity, Question, World
from training.data.documents.writer import Document, Passage

NUM_ABSENT = 30  # candidates for unanswerable questions of a document
NUM_UNRELATED = 1


def multi_questions(world: World, passage: Passage, rng: Random) -> list[Question]:
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


def absent_questions(document: Document, others: Sequence[Document], rng: Random) -> list[tuple[Passage, Question]]:
    """Return questions for what neither the document nor its other versions hold.

    They ask for another attribute of an entity, for another entity, often one with a similar name, for another year, or
    for something that the document is not about.
    """
    world, passages = document.world, document.passages
    text = "\n".join(each.text for each in (document, *others))
    values = [
        (passage, question)
        for passage in passages
        for question in passage.questions
        if question.subject and question.type in ("table", "fact")
    ]
    stated: dict[str, set[Attribute]] = {}
    for question in (
        question for each in (document, *others) for passage in each.passages for question in passage.questions
    ):
        if question.subject:
            stated.setdefault(question.subject[0].name, set()).add(question.subject[1])
    found = list[tuple[Passage, Question]]()
    for number in range(NUM_ABSENT if values else 0):
        passage, near = rng.choice(values)
        assert near.subject
        entity, attribute = near.subject
        period = near.key[2]
        roll = rng.random()
        if roll < 0.4:
            attribute = rng.choice(entity.entity_class.attributes)
            period = str(world.year) if attribute.name.endswith("*") else ""
            if _is_stated(attribute, text) or not _is_other_kind(attribute, stated.get(entity.name, ())):
                continue
            absent = attribute.labels[0]
        elif roll < 0.65 and (name := _similar_name(world, entity, rng)):
            entity, absent = Entity(name, entity.entity_class), name
        elif roll < 0.85:
            like_it = world.entities(entity.entity_class.name, 1, f"absent {number}")
            if not like_it:
                continue
            entity, absent = like_it[0], like_it[0].name
        elif period.isdigit() and len(period) == 4:
            period = absent = str(int(period) + rng.choice((-12, -9, -8, -7, 7, 8, 9)))
        else:
            continue
        if absent.casefold() not in text:
            ask = partial(phrasing.ask_value, world, attribute, entity, period=period)
            key = (entity.name, attribute.name, period)
            found.append((passage, Question("unanswerable", key, "", ask, (entity, attribute), absent)))
    for item in rng.sample(world.words.lists["unrelated"], NUM_UNRELATED):
        unrelated, absent = item.rsplit("/", 1)
        if absent.casefold() not in text:
            asked = Question("unanswerable", ("unrelated", unrelated), "", partial(_same, unrelated), absent=absent)
            found.append((rng.choice(passages), asked))
    return found


def _same(question: str, rng: Random) -> str:
    return question


def _is_stated(attribute: Attribute, text: str) -> bool:
    """Return whether a text has any of an attribute's names."""
    names = {word.casefold() for word in (*attribute.labels, *attribute.nouns)}
    return any(re.search(rf"\b{re.escape(_without_article(name))}\b", text) for name in names)


def _is_other_kind(attribute: Attribute, stated: Collection[Attribute]) -> bool:
    """Return whether no value that is stated could be meant instead: none is also a price, a date, a person ..."""
    kind = attribute.value.partition(":")[0]
    return all(other.value.partition(":")[0] != kind for other in stated)


def _similar_name(world: World, entity: Entity, rng: Random) -> str:
    """Return a name with another digit or another first name: 'X300' for 'X200'; '' if it has neither."""
    name = entity.name
    if entity.entity_class.name == "person":
        return f"{rng.choice(world.words.lists['first_name'])} {name.split(' ')[-1]}"
    digits = [at for at, letter in enumerate(name) if letter.isdigit()]
    if not digits:
        return ""
    at = rng.choice(digits)
    return name[:at] + rng.choice([digit for digit in "123456789" if digit != name[at]]) + name[at + 1 :]


def _without_article(noun: str) -> str:
    return re.sub("^(the|der|die|das) ", "", noun)
