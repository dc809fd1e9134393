"""RULER's variable tracking: a chain of assignments in noise; every name on it has the first one's value.

One chain of four hops, the setting that the paper reports: `VAR X1 = 12345`, then `VAR X2 = VAR X1` and so on.
"""

import string
from itertools import pairwise
from random import Random

from bench.ruler.niah import NOISE, insert
from bench.ruler.sample import TaskInputs, TaskSample

HOPS = 4
LETTERS = 5  # of a name


def variable_tracking(ground: TaskInputs) -> TaskSample:
    """Return one chain in order at random depths."""
    draw = ground.rng
    value, names = str(draw.randint(10_000, 99_999)), _names(draw, HOPS + 1)
    chain = [f"VAR {names[0]} = {value}"]
    chain += [f"VAR {name} = VAR {before}" for before, name in pairwise(names)]
    depths = sorted(draw.random() for _ in chain)
    return TaskSample(
        context=lambda pieces: "\n".join(insert([NOISE] * pieces, chain, depths)),
        needles=tuple(chain),
        question=(
            "Track the chain(s) of variable assignment hidden in the provided text.\n"
            f"Question: Find all variables that are assigned the value {value} in the text above."
        ),
        opening=(
            "Answer: According to the chain(s) of variable assignment in the text above, "
            f"{len(names)} variables are assigned the value {value}, they are:"
        ),
        answers=tuple(names),
        max_new_tokens=64,
    )


def _names(draw: Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(draw.choices(string.ascii_uppercase, k=LETTERS))] = None
    return list(found)
