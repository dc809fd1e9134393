"""Follow-up questions, asked on one line after the earlier question and its answer, as the application sends them."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from random import Random

from training.data.documents import phrasing
from training.data.documents.vocabulary import Attribute
from training.data.documents.world import Entity, Question, World
from training.data.documents.writer import Document, Passage

NUM_TRIED = 5  # questions of a passage for which an earlier question is looked for
LONGER_FRACTION = 0.15  # of the follow-ups come after two earlier questions
NO_ANSWER_FRACTION = 0.08  # of the earlier questions had no answer
SENTENCE_FRACTION = 0.2  # of the earlier answers are sentences
STATED_FRACTION = 0.25  # of the follow-ups for another attribute come after a statement instead of a question
ELLIPTIC_FRACTION = 0.4  # of the follow-ups for another attribute name it only
SHORT_CASE_FRACTION, NO_MARK_FRACTION = 0.2, 0.15  # of the follow-ups are all in lower case, end without '?'
SUBJECT_VERB = re.compile(r"\b(do|does|did|is|are|was|were|has|have|can|may|must|will) $", re.I)
PLACES = ("site", "town", "room", "stop", "event", "destination")  # classes of things that one is 'at' or 'in': 'there'
WITHOUT_PRONOUN = re.compile(r"(many|much|most) \{e\}|\{e\} and ")


def follow_ups(
    document: Document,
    others: Sequence[Document],
    firsts: Sequence[tuple[Passage, Question]],
    seconds: Sequence[tuple[Passage, Question]],
    rng: Random,
) -> list[tuple[Passage, Question]]:
    """Return follow-up questions made of the `seconds`, after one or two of the `firsts` or of another version."""
    world = document.world
    by_class: dict[str, list[Question]] = {}
    for _, question in firsts:
        by_class.setdefault(_group(world, question), []).append(question)
    by_passage: dict[int, list[tuple[Passage, Question]]] = {}
    for passage, question in seconds:
        if question.type in ("table", "fact", "dated", "unanswerable") and _group(world, question):
            by_passage.setdefault(id(passage), []).append((passage, question))
    found = []
    for candidates in by_passage.values():
        for passage, second in rng.sample(candidates, min(NUM_TRIED, len(candidates))):
            if (first := _draw_earlier(second, by_class.get(_group(world, second), ()), rng)) is None:
                continue
            chain = [first, second]
            if rng.random() < LONGER_FRACTION:
                zeroth = _draw_earlier(first, by_class[_group(world, first)], rng)
                is_repeated = zeroth and (
                    zeroth.key == second.key or (zeroth.subject and zeroth.subject == second.subject)
                )
                chain = [zeroth, *chain] if zeroth and not is_repeated else chain
            found.append((passage, _follow_up(world, chain, others)))
    for other in others:
        found += _version_follow_ups(document, other, seconds, rng)
    return found


def _group(world: World, question: Question) -> str:
    """Return what related questions share: the class of their entities; '' for those that are not about a value."""
    if question.type in ("table", "fact", "reverse", "unanswerable") and question.subject:
        return question.subject[0].entity_class.name
    if question.type == "superlative":
        return question.key[1]
    return f"dated {question.key[:2]}" if question.type == "dated" and question.key[0] == world.subject.name else ""


def _draw_earlier(second: Question, firsts: Sequence[Question], rng: Random) -> Question | None:
    """Return a question that `second` can follow; each relation is equally likely."""
    by_relation: dict[str, list[Question]] = {}
    for first in firsts:
        if relation := _relation(first, second):
            by_relation.setdefault(relation, []).append(first)
    return rng.choice(by_relation[rng.choice(sorted(by_relation))]) if by_relation else None


def _relation(first: Question, second: Question) -> str:
    """Return in what two questions differ: the 'entity', the 'period', the 'attribute', the 'date'; '' if in more."""
    if first.answer == second.answer or first.key == second.key:
        return ""
    if first.type == second.type == "dated":
        return "date"
    if not second.subject:
        return ""
    entity, attribute = second.subject
    is_about_it = first.answer == entity.name  # the earlier answer is the entity
    if is_about_it and second.key[2:] != ("",):
        return ""
    if first.type in ("reverse", "superlative"):
        is_other = not first.subject or first.subject[1] is not attribute
        return "attribute of the answer" if is_about_it and is_other else ""
    if not first.subject or first.type not in ("table", "fact"):
        return ""
    is_same_entity, is_same_attribute = first.subject[0] == entity, first.subject[1] is attribute
    is_same_period = first.key[2] == second.key[2]
    if is_same_entity and is_same_attribute and first.key[2] and second.key[2]:
        return "period"
    if is_same_attribute and is_same_period:
        return "entity"
    return "attribute" if is_same_entity and (is_same_period or not second.key[2]) else ""


def _follow_up(world: World, chain: Sequence[Question], others: Sequence[Document]) -> Question:
    second = chain[-1]
    siblings = {
        question.key: question.answer
        for other in others
        for passage in other.passages
        for question in passage.questions
    }
    needs_version = world.is_family and any(siblings.get(q.key, q.answer) != q.answer for q in chain)
    ask = partial(_ask_in_turn, world, chain, needs_version)
    type = "unanswerable" if second.type == "unanswerable" else "followup"
    key = ("followup", *chain[-2].key, *second.key)
    return Question(type, key, second.answer, ask, absent=second.absent, is_finished=True)


def _ask_in_turn(world: World, chain: Sequence[Question], needs_version: bool, rng: Random) -> str:
    if len(chain) == 2 and _relation(*chain) == "attribute" and not chain[0].key[2] and rng.random() < STATED_FRACTION:
        return _ask_after_statement(world, chain[0], chain[1], needs_version, rng)
    text = chain[0].ask(rng)
    if needs_version and world.version_label not in text and not chain[0].key[2].isdigit():
        text = phrasing.add_version(world, text, rng)
    text = phrasing.finish(world, text, rng)
    for first, second in pairwise(chain):
        text = _join(
            text, _earlier_answer(world, first, rng), _finish(world, _ask_next(world, first, second, rng), rng)
        )
    return text


def _ask_after_statement(world: World, first: Question, second: Question, needs_version: bool, rng: Random) -> str:
    """Ask after a statement instead of a question: 'I read that the X200 weighs 3 kg. How long is its warranty?'."""
    assert first.subject and second.subject
    entity, attribute = first.subject
    name = rng.choice(entity.entity_class.prefixes) + entity.name
    says = [say for say in attribute.says if say.startswith(("{E}", "{V}", "The ", "Für {E}", "Die "))]
    says = says or [world.words.lists["say_noun"][0]]
    noun = rng.choice(attribute.nouns)
    statement = world.fill(rng.choice(says), rng, E=name, V=first.answer, l=noun, L=noun[:1].upper() + noun[1:])
    if statement.split(" ")[0] in world.words.lists["lower_word"]:
        statement = statement[:1].lower() + statement[1:]
    question = _ask_attribute(world, second.subject[1], entity, rng)
    question = phrasing.in_dative(question) if world.is_german else question
    if needs_version:
        question = phrasing.add_version(world, question, rng)
    question = question[:1].upper() + question[1:]
    return world.fill(rng.choice(world.words.lists["ask_after"]), rng, e=name, s=statement, Q=question)


def _join(question: str, answer: str, follow_up: str) -> str:
    """Return the line that the application makes of an earlier question, its answer and the question now."""
    answer = " ".join(answer.split())
    return " ".join(filter(None, (question, answer if not answer or answer[-1] in ".!?" else f"{answer}.", follow_up)))


def _earlier_answer(world: World, question: Question, rng: Random) -> str:
    roll = rng.random()
    if question.type in ("table", "fact") and roll < NO_ANSWER_FRACTION:
        return ""
    if question.subject and question.type in ("table", "fact") and roll < NO_ANSWER_FRACTION + SENTENCE_FRACTION:
        entity, attribute = question.subject
        own = attribute.says if not question.key[2] else ()
        noun = rng.choice(attribute.nouns)
        given = dict(E=rng.choice(entity.entity_class.prefixes) + entity.name, V=question.answer, l=noun)
        return world.sentence(rng.choice((*own, *world.words.lists["follow_answer"])), rng, L=noun, **given)
    return question.answer


def _ask_next(world: World, first: Question, second: Question, rng: Random) -> str:
    lists = world.words.lists
    relation = _relation(first, second)
    if relation == "date" or not second.subject:
        return rng.choice(lists[f"follow_{second.key[2]}"])
    entity, attribute = second.subject
    if relation == "entity":
        own = lists.get(f"follow_entity_{entity.entity_class.name}", ())
        name = phrasing.entity_in_question(entity, rng)
        name = f'"{name}"' if entity.entity_class.name in phrasing.SENTENCES else name
        return world.fill(rng.choice((*lists["follow_entity"], *own, *own)), rng, e=name, n=entity.name)
    if relation == "period":
        before, after = first.key[2], second.key[2]
        is_year = before.isdigit() and after.isdigit()
        distance = int(after) - int(before) if is_year else 0
        name = {-1: "follow_before", 1: "follow_after"}.get(distance if rng.random() < 0.6 else 0, "follow_year")
        return world.fill(rng.choice(lists[name if is_year else "follow_column"]), rng, p=after)
    return _ask_attribute(world, attribute, entity, rng)


def _ask_attribute(world: World, attribute: Attribute, entity: Entity, rng: Random) -> str:
    """Ask for another attribute of the entity that was talked about: 'And how heavy is it?', 'Who runs it?'."""
    asks = [ask for ask in attribute.asks if not WITHOUT_PRONOUN.search(ask)]
    is_person = entity.entity_class.name == "person"
    pronouns = [name for name in entity.entity_class.pronouns if not name.startswith("der ")]  # its cases differ
    if not asks or (world.is_german and not pronouns) or rng.random() < ELLIPTIC_FRACTION:
        noun = rng.choice(attribute.nouns)
        short = noun.partition(" ")[2] if world.is_german else noun
        pattern = rng.choice(world.words.lists["follow_person" if is_person else "follow_attribute"])
        return world.fill(pattern, rng, l=noun, k=short)
    question = rng.choice(asks)
    if world.is_german:
        question = question.replace("{e}", rng.choice(pronouns))
    else:
        question = with_pronoun(question, is_person, entity.entity_class.name in PLACES)
    if rng.random() < 0.5:
        question = f"{world.words.lists['and'][0]} {question[:1].lower()}{question[1:]}"
    return world.fill(question, rng, doc=world.noun)


def with_pronoun(pattern: str, is_person: bool, is_place: bool) -> str:
    """Put pronouns for the entity into an English question; an entity beside it ('{e}. What helps?') is left out."""
    pattern = re.sub(r': "?\{e\}"?(?=[?.])|^"?\{e\}"?(?: -|\.) ', "", pattern).replace('"{e}"', "{e}")
    pattern = pattern.replace("{e}'s", "his" if is_person else "its")
    if not is_person:
        pattern = re.sub(r"\b(?:at|in) \{e\}" if is_place else r"\bat \{e\}", "there", pattern)
    while "{e}" in pattern:
        before, after = pattern.split("{e}", 1)
        is_subject = not before or SUBJECT_VERB.search(before)
        pronoun = ("he" if is_subject else "him") if is_person else "it"
        pattern = f"{before}{pronoun if before else pronoun.capitalize()}{after}"
    return pattern


def _finish(world: World, question: str, rng: Random) -> str:
    if world.is_german:
        question = phrasing.in_dative(question)
    if rng.random() < NO_MARK_FRACTION:
        question = question.rstrip("?.")
    is_kept = rng.random() >= SHORT_CASE_FRACTION
    return phrasing.finish(world, question, rng, can_wrap=False) if is_kept else question.lower()


def _version_follow_ups(
    document: Document, other: Document, seconds: Sequence[tuple[Passage, Question]], rng: Random
) -> list[tuple[Passage, Question]]:
    """Return follow-ups for what this version says, after a question about another version."""
    earlier = {
        (question.type, question.key): question
        for passage in other.passages
        for question in passage.questions
        if question.subject and question.type in ("table", "fact") and not question.key[2].isdigit()
    }
    pairs = [
        (passage, question)
        for passage, question in seconds
        if question.type and (question.type, question.key) in earlier
    ]
    found = []
    for passage, second in rng.sample(pairs, min(2 * NUM_TRIED, len(pairs))):
        first = earlier[second.type, second.key]
        if first.answer != second.answer or rng.random() < 0.2:
            ask = partial(_ask_version, document.world, other.world, first)
            key = ("followup", "version", *second.key)
            found.append((passage, Question("followup", key, second.answer, ask, is_finished=True)))
    return found


def _ask_version(world: World, earlier: World, first: Question, rng: Random) -> str:
    question = phrasing.finish(earlier, phrasing.add_version(earlier, first.ask(rng), rng), rng)
    name = "follow_version_number" if world.kind.version == "number" else "follow_version_year"
    follow_up = world.fill(rng.choice(world.words.lists[name]), rng, v=world.version_label, doc=world.noun)
    return _join(question, _earlier_answer(earlier, first, rng), _finish(world, follow_up, rng))
