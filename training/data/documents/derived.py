"""Questions made of several questions of a document, and questions that it does not answer."""

import re
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from training.data.documents import phrasing
from training.data.documents.vocabulary import Attribute
from training.data.documents.world import Entity, Question, World
from training.data.documents.writer import Document, Passage

NUM_ABSENT = 24  # candidates for unanswerable questions of a document


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
    """Return questions for what neither the document nor its other version holds: attributes, entities, years."""
    world, passages = document.world, document.passages
    all_passages = [*passages, *(passage for other in others for passage in other.passages)]
    text = "\n".join(each.text for each in (document, *others))
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


def _without_article(noun: str) -> str:
    return re.sub("^(the|der|die|das) ", "", noun)
