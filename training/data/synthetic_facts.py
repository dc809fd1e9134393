"""Synthetic facts with long numbers, to be inserted into passages: they teach a model to copy values completely.

Documents at work are full of codes, dates and serial numbers; public reading comprehension data sets are not.
"""

from random import Random

OBJECTS = (
    *("pump house", "north gate", "red ledger", "boat shed", "third archive", "blue kiln", "spare generator"),
    *("west lift", "old server", "wine cellar", "seed vault", "print room", "signal box", "water tower"),
    *("night desk", "glass oven", "harbour crane", "map cabinet", "cold store", "test bench"),
)
OWNERS = (
    *("Arden", "Bellamy", "Corso", "Dvorak", "Ekman", "Farkas", "Galli", "Haldane"),
    *("Ibsen", "Jansen", "Kovac", "Lindqvist", "Moreau", "Novak", "Okafor"),
)
ATTRIBUTES = (
    *("access code", "serial number", "account number", "locker code", "reference", "phone extension", "part number"),
)
STATEMENTS = (
    "The {attribute} of {object} is {value}.",
    "{value} is the {attribute} of {object}.",
    "Note that {object} has the {attribute} {value}.",
    "For {object}, use the {attribute} {value}.",
)
SINGLE_QUESTIONS = (
    "What is the {attribute} of {object}?",
    "Which {attribute} does {object} have?",
    "Give the {attribute} of {object}.",
)
LIST_QUESTIONS = (
    "What are all {attribute}s of {object}?",
    "Which {attribute}s does {object} have?",
    "List every {attribute} of {object}.",
)


def synthetic_facts(rng: Random, count: int) -> list[tuple[list[str], str, str]]:
    """Return facts, no two of them about the same attribute of an object.

    Each has sentences that state one or more values of an object, a question for all of them, and its answer.
    """
    facts = dict[tuple[str, str], tuple[list[str], str, str]]()
    while len(facts) < count:
        attribute, owned = rng.choice(ATTRIBUTES), f"{rng.choice(OWNERS)}'s {rng.choice(OBJECTS)}"
        facts.setdefault((attribute, owned), _synthetic_fact({"attribute": attribute, "object": owned}, rng))
    return list(facts.values())


def _synthetic_fact(names: dict[str, str], rng: Random) -> tuple[list[str], str, str]:
    values = [_value(rng) for _ in range(rng.choice((1, 1, 1, 2, 3, 4)))]
    sentences = [rng.choice(STATEMENTS).format(value=value, **names) for value in values]
    question = rng.choice(SINGLE_QUESTIONS if len(values) == 1 else LIST_QUESTIONS).format(**names)
    answer = ", ".join(values)
    if rng.random() < 0.5:
        verb = "{attribute} of {object} is" if len(values) == 1 else "{attribute}s of {object} are"
        answer = f"The {verb.format(**names)} {answer}."
    return sentences, question, answer


def _value(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return str(rng.randrange(10 ** rng.randrange(3, 8), 10**8))
    if kind < 0.8:
        return f"{''.join(rng.choices('ABCDEFGHKLMNPRSTUVWXYZ', k=2))}-{rng.randrange(100, 10000)}"
    return "-".join("".join(rng.choices("0123456789abcdef", k=4)) for _ in range(rng.randrange(2, 5)))
