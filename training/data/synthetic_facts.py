"""Made-up facts with long numbers, put into passages: they teach to copy a value whole, and all values of a thing.

Documents at work are full of codes, dates and serial numbers, and no public reading data set is.
"""

from random import Random

THINGS = (
    *("pump house", "north gate", "red ledger", "boat shed", "third archive", "blue kiln", "spare generator"),
    *("west lift", "old server", "wine cellar", "seed vault", "print room", "signal box", "water tower"),
    *("night desk", "glass oven", "harbour crane", "map cabinet", "cold store", "test bench"),
)
OWNERS = (
    *("Arden", "Bellamy", "Corso", "Dvorak", "Ekman", "Farkas", "Galli", "Haldane"),
    *("Ibsen", "Jansen", "Kovac", "Lindqvist", "Moreau", "Novak", "Okafor"),
)
KINDS = ("access code", "serial number", "account number", "locker code", "reference", "phone extension", "part number")
SAID = (
    "The {kind} of {thing} is {value}.",
    "{value} is the {kind} of {thing}.",
    "Note that {thing} has the {kind} {value}.",
    "For {thing}, use the {kind} {value}.",
)
ONE = ("What is the {kind} of {thing}?", "Which {kind} does {thing} have?", "Give the {kind} of {thing}.")
ALL = ("What are all {kind}s of {thing}?", "Which {kind}s does {thing} have?", "List every {kind} of {thing}.")


def record(draw: Random) -> tuple[list[str], str, str]:
    """Return sentences that state one or more values of a thing, a question for all of them, and its answer."""
    kind, thing = draw.choice(KINDS), f"{draw.choice(OWNERS)}'s {draw.choice(THINGS)}"
    values = [_value(draw) for _ in range(draw.choice((1, 1, 1, 2, 3, 4)))]
    said = [draw.choice(SAID).format(kind=kind, thing=thing, value=value) for value in values]
    question = draw.choice(ONE if len(values) == 1 else ALL).format(kind=kind, thing=thing)
    listed = ", ".join(values)
    if draw.random() < 0.5:
        verb = f"{kind} of {thing} is" if len(values) == 1 else f"{kind}s of {thing} are"
        listed = f"The {verb} {listed}."
    return said, question, listed


def _value(draw: Random) -> str:
    form = draw.random()
    if form < 0.6:
        return str(draw.randrange(10 ** draw.randrange(3, 8), 10**8))
    if form < 0.8:
        return f"{''.join(draw.choices('ABCDEFGHKLMNPRSTUVWXYZ', k=2))}-{draw.randrange(100, 10000)}"
    return "-".join("".join(draw.choices("0123456789abcdef", k=4)) for _ in range(draw.randrange(2, 5)))
