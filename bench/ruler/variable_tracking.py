"""RULER's variable tracking: a chain of assignments in noise; all its variables have the first one's value.

One chain of four hops, the setting that the paper reports: `VAR X1 = 12345`, then `VAR X2 = VAR X1` and so on.
"""

import string
from itertools import pairwise
from random import Random

from bench.ruler.niah import NOISE, insert
from bench.ruler.sample import TaskInputs, TaskSample

HOPS = 4
LETTERS = 5  # per variable name


def variable_tracking(inputs: TaskInputs) -> TaskSample:
    """Return one chain in order at random depths."""
    rng = inputs.rng
    value, names = str(rng.randint(10_000, 99_999)), _names(rng, HOPS + 1)
    chain = [f"VAR {names[0]} = {value}"]
    chain += [f"VAR {name} = VAR {before}" for before, name in pairwise(names)]
    depths = sorted(rng.random() for _ in chain)
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


def _names(rng: Random, count: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        names["".join(rng.choices(string.ascii_uppercase, k=LETTERS))] = None
    return list(names)
