"""Phrase questions as people ask them: with synonyms, politely, as keywords, in lower case, with typos."""

import re
from collections.abc import Sequence
from random import Random

from training.data.documents.vocabulary import Attribute
from training.data.documents.world import Entity, World

TYPO_FRACTION = 0.03
LOWER_CASE_FRACTION = 0.08
NO_MARK_FRACTION = 0.05  # of the questions end without '?'
SENTENCES = ("fault", "task")  # classes of things whose names are like sentences
NUM_FAULT_PARTS = 3  # cause, remedy and code; the parts after them are other words for the fault
REWORDED_FRACTION = 0.5  # of the faults are described in other words
WRAPPED_FRACTION = 0.08  # of the questions are put politely
COUNTED = re.compile(r"(?:many|much|viele|viel) \{e\}")  # the entity's name follows without an article
ARTICLE = re.compile(r"\ba (?=[aeio])")


def entity_in_question(entity: Entity, rng: Random, is_implicit: bool = False) -> str:
    """Return how a question names an entity: by its name, or 'the device' if the document is about it."""
    if is_implicit and entity.entity_class.pronouns:
        return rng.choice(entity.entity_class.pronouns)
    if len(entity.parts) > NUM_FAULT_PARTS and rng.random() < REWORDED_FRACTION:
        return rng.choice(entity.parts[NUM_FAULT_PARTS:])
    return rng.choice(entity.entity_class.prefixes) + entity.name


def ask_value(
    world: World, attribute: Attribute, entity: Entity, rng: Random, period: str = "", is_implicit: bool = False
) -> str:
    """Ask for an entity's value, of a period if one is given."""
    lists = world.words.lists
    name = entity_in_question(entity, rng, is_implicit)
    general = lists["ask_noun_subject" if is_implicit and rng.random() < 0.5 else "ask_noun"]
    is_own = bool(attribute.asks) and rng.random() < 0.6
    pattern = rng.choice(attribute.asks if is_own else general)
    if not is_own and entity.entity_class.name in SENTENCES:
        name = f'"{name}"'
    if COUNTED.search(pattern):
        name = entity.name
    noun = rng.choice(attribute.nouns)
    if "{k}" in pattern:  # a keyword
        noun = rng.choice((*attribute.labels, noun)).removeprefix("the ")
    question = world.fill(pattern, rng, e=name, l=noun, k=_without_article(world, noun), doc=world.noun)
    if period:
        question = add_qualifier(world, question, _period_phrase(world, period, rng), rng)
        if period.isdigit() and int(period) <= world.year:
            question = in_past_tense(world, question)
    return question


def ask_reverse(world: World, attribute: Attribute, entity: Entity, value: str, rng: Random) -> str:
    """Ask which entity has a value."""
    pattern = rng.choice(
        (*attribute.reverse, *attribute.reverse, *lists) if (lists := _list(world, "ask_reverse")) else ()
    )
    noun = rng.choice(entity.entity_class.nouns)
    name = rng.choice(attribute.nouns)
    return world.fill(pattern, rng, n=noun, v=value, l=name, k=_without_article(world, name))


def ask_extreme(world: World, attribute: Attribute, entity: Entity, is_highest: bool, rng: Random) -> str:
    """Ask which entity has the highest or the lowest value."""
    noun = rng.choice(entity.entity_class.nouns)
    is_size = attribute.value.startswith(("num", "money", "pct", "dur"))
    if len(attribute.superlatives) == 2 and (not is_size or rng.random() < 0.75):
        pattern = attribute.superlatives[0 if is_highest else 1]
    else:
        pattern = rng.choice(_list(world, "ask_highest" if is_highest else "ask_lowest"))
    name = rng.choice(attribute.nouns)
    return world.fill(pattern, rng, n=noun, l=name, k=_without_article(world, name))


def ask_several(world: World, attributes: Sequence[Attribute], entity: Entity, rng: Random, is_implicit: bool) -> str:
    """Ask for two values of an entity at once."""
    name = entity_in_question(entity, rng, is_implicit)
    nouns = [rng.choice(attribute.nouns) for attribute in attributes]
    return world.fill(rng.choice(_list(world, "ask_two")), rng, e=name, l=nouns[0], m=nouns[1])


def ask_column(
    world: World, attribute: Attribute, entity: Entity, dimension: str, form: str, value: str, rng: Random
) -> str:
    """Ask in which column ('Month') an entity has a value, the highest ('high') or lowest ('low') one, or 'none'."""
    where = _pairs(world, "which")[dimension]
    patterns = _list(world, f"none_{attribute.name.rstrip('*')}" if form == "none" else f"ask_column_{form}")
    name = entity_in_question(entity, rng, entity is world.subject and rng.random() < 0.6)
    noun = rng.choice(attribute.nouns)
    given = dict(
        w=where,
        d=dimension if world.is_german else dimension.lower(),
        e=name,
        l=noun,
        v=value,
        k=_without_article(world, noun),
    )
    question = world.fill(rng.choice(patterns), rng, **given)
    return in_past_tense(world, question) if dimension in _list(world, "year_header") else question


def add_qualifier(world: World, question: str, qualifier: str, rng: Random) -> str:
    """Put words like 'in 2021' at the end or at the start of a question."""
    first, _, rest = question.partition(" ")
    if first.lower() in _list(world, "question_word") and rng.random() < 0.25 and not world.is_german:
        return f"{qualifier[:1].upper()}{qualifier[1:]}, {first.lower()} {rest}"
    return f"{question[:-1]} {qualifier}{question[-1]}" if question[-1] in "?." else f"{question} {qualifier}"


def add_version(world: World, question: str, rng: Random) -> str:
    """Put the version of the document into a question."""
    phrases = _list(world, "in_version_number" if world.kind.version == "number" else "in_version_year")
    qualifier = world.fill(rng.choice(phrases), rng, v=world.version_label, doc=world.noun)
    return add_qualifier(world, question, qualifier, rng)


def in_past_tense(world: World, question: str) -> str:
    """Put the first auxiliary verb of a question into the past tense."""
    tenses = _pairs(world, "past_tense")
    words = question.split(" ")
    for index, word in enumerate(words):
        if word.lower() in tenses and words[index + 1 : index + 2] != ["you"]:
            past = tenses[word.lower()]
            words[index] = past.capitalize() if word[0].isupper() else past
            break
    return " ".join(words)


def in_dative(question: str) -> str:
    """Correct the article after German prepositions."""
    return re.sub(
        r"\b([Vv]on|[Bb]ei|[Zz]u|in|an) d(as|ie)\b", lambda m: f"{m[1]} d{'em' if m[2] == 'as' else 'er'}", question
    )


def finish(world: World, question: str, rng: Random, can_wrap: bool = True) -> str:
    """Return a question in the style of a person: polite, hasty, with a typo."""
    question = question[:1].upper() + question[1:]
    question = in_dative(question) if world.is_german else ARTICLE.sub("an ", question)
    first, _, rest = question.partition(" ")
    if first.lower() in _list(world, "question_word") and can_wrap and rng.random() < WRAPPED_FRACTION:
        question = world.fill(rng.choice(_list(world, "ask_politely")), rng, q=f"{first.lower()} {rest}", Q=question)
    if rng.random() < TYPO_FRACTION:
        question = _with_typo(question, rng)
    if rng.random() < NO_MARK_FRACTION:
        question = question.rstrip("?.")
    return question.lower() if rng.random() < LOWER_CASE_FRACTION else question


def _period_phrase(world: World, period: str, rng: Random) -> str:
    phrases = _list(world, "in_year") if period.isdigit() and len(period) == 4 else _list(world, "in_column")
    return rng.choice(phrases).replace("{p}", period)


def _without_article(world: World, noun: str) -> str:
    first, _, rest = noun.partition(" ")
    return rest if world.is_german and first in ("der", "die", "das") else noun


def _pairs(world: World, name: str) -> dict[str, str]:
    return dict(pair.split("/", 1) for pair in _list(world, name))


def _list(world: World, name: str) -> tuple[str, ...]:
    return world.words.lists[name]


def _with_typo(question: str, rng: Random) -> str:
    words = question.split(" ")
    candidates = [index for index, word in enumerate(words) if len(word) > 4 and word.isalpha() and word.islower()]
    if not candidates:
        return question
    at = rng.choice(candidates)
    word = words[at]
    letter = rng.randrange(1, len(word) - 2)
    swapped = word[:letter] + word[letter + 1] + word[letter] + word[letter + 2 :]
    words[at] = rng.choice((swapped, word[:letter] + word[letter + 1 :], word[:letter] + word[letter] + word[letter:]))
    return " ".join(words)
