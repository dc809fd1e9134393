"""RULER's needles in a haystack: sentences that give a key a value, hidden in noise, in text, or among other needles.

The variants and their numbers of keys and values are those of RULER's synthetic.yaml. Depths in text are RULER's
forty, 0 to 100 %, at sentence ends; elsewhere they are uniform.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from uuid import UUID

from bench.ruler import words
from bench.ruler.haystack import split_sentences
from bench.ruler.sample import TaskInputs, TaskSample

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
TEXT_DEPTHS = tuple(round(100 * step / 39) / 100 for step in range(40))
NEW_TOKENS = {"number": 32, "numbers": 128, "uuid": 64}  # some tokenizers use a token per digit; 128 as published


@dataclass(frozen=True)
class NeedleTask:
    """One variant.

    haystack  'noise', 'text' or 'needles'
    key       'word' or 'uuid'
    value     'number' (seven digits) or 'uuid'
    keys      number of keys, the queried ones included
    values    per key
    queried   number of keys in the question
    """

    haystack: str
    key: str = "word"
    value: str = "number"
    keys: int = 1
    values: int = 1
    queried: int = 1

    def __call__(self, ground: TaskInputs) -> TaskSample:
        rng = ground.rng
        names = [_uuid(rng) for _ in range(self.keys)] if self.key == "uuid" else words.keys(rng, self.keys)
        values = _values(rng, self.value, self.keys * self.values)
        owners = [name for name in names for _ in range(self.values)]
        needles = [self._needle(name, value) for name, value in zip(owners, values, strict=True)]
        queried = rng.sample(names, self.queried)
        answers = [value for name in queried for owner, value in zip(owners, values, strict=True) if owner == name]
        rng.shuffle(needles)
        question, opening = self._question(queried)
        context = self._context(ground, needles, frozenset(names))
        kind = f"{self.value}s" if len(answers) > 1 and self.value == "number" else self.value
        return TaskSample(context, tuple(needles), question, opening, tuple(answers), NEW_TOKENS[kind])

    def _needle(self, name: str, value: str) -> str:
        return f"One of the special magic {self.value}s for {name} is: {value}."

    def _question(self, queried: list[str]) -> tuple[str, str]:
        query = f"{', '.join(queried[:-1])}, and {queried[-1]}" if len(queried) > 1 else queried[0]
        if self.queried * self.values == 1:
            hidden = f"A special magic {self.value} is hidden within the provided text."
            subject, verb, what = f"the special magic {self.value} for {query}", "is", "What is"
        else:
            hidden = f"Some special magic {self.value}s are hidden within the provided text."
            subject, verb, what = f"the special magic {self.value}s for {query}", "are", "What are all"
        question = f"{hidden}\n{what} {subject} mentioned in the provided text?"
        return question, f"{subject[0].upper()}{subject[1:]} mentioned in the provided text {verb}"

    def _context(self, ground: TaskInputs, needles: list[str], names: frozenset[str]) -> Callable[[int], str]:
        if self.haystack == "text":
            depths = sorted(ground.rng.sample(TEXT_DEPTHS, len(needles)))
            return lambda pieces: hide_in_text(ground.words[:pieces], needles, depths)
        depths = sorted(ground.rng.random() for _ in needles)
        if self.haystack == "noise":
            return lambda pieces: "\n".join(insert([NOISE] * pieces, needles, depths))
        seed = ground.rng.getrandbits(64)
        return lambda pieces: "\n".join(insert(self._others(pieces, seed, names), needles, depths))

    def _others(self, count: int, seed: int, names: frozenset[str]) -> list[str]:
        """Return needles of other keys; the first ones do not depend on `count`."""
        rng, needles = Random(seed), list[str]()
        while len(needles) < count:
            name = _uuid(rng) if self.key == "uuid" else words.key(rng)
            (value,) = _values(rng, self.value, 1)
            if name not in names:
                needles.append(self._needle(name, value))
        return needles


NEEDLE_TASKS = {
    "niah_single_1": NeedleTask("noise"),
    "niah_single_2": NeedleTask("text"),
    "niah_single_3": NeedleTask("text", value="uuid"),
    "niah_multikey_1": NeedleTask("text", keys=4),
    "niah_multikey_2": NeedleTask("needles"),
    "niah_multikey_3": NeedleTask("needles", key="uuid", value="uuid"),
    "niah_multivalue": NeedleTask("text", values=4),
    "niah_multiquery": NeedleTask("text", keys=4, queried=4),
}


def hide_in_text(haystack: list[str], needles: list[str], depths: list[float]) -> str:
    """Return the words as text with the needles at sentence ends; an incomplete last sentence stays last."""
    sentences = split_sentences(" ".join(haystack))
    incomplete = sentences[-1:] if sentences and not sentences[-1].endswith((".", "!", "?")) else []
    complete = sentences[: len(sentences) - len(incomplete)]
    return " ".join(insert(complete, needles, depths) + incomplete)


def insert(pieces: list[str], needles: list[str], depths: list[float]) -> list[str]:
    """Return the pieces with the needles inserted in order; depths are ascending fractions of the pieces."""
    result = list(pieces)
    for needle, depth in zip(reversed(needles), reversed(depths), strict=True):
        result.insert(int(depth * len(pieces)), needle)
    return result


def _values(rng: Random, kind: str, count: int) -> list[str]:
    if kind == "uuid":
        return [_uuid(rng) for _ in range(count)]
    return [str(number) for number in rng.sample(range(10**6, 10**7), count)]


def _uuid(rng: Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))
