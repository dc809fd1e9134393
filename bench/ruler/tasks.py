"""RULER's tasks: needles in a haystack (niah), variable tracking, common words (cwe). See bench/ruler/__init__.py."""

import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from random import Random
from uuid import UUID

from bench.ruler import words
from bench.ruler.haystack import split_sentences

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
TEXT_DEPTHS = tuple(round(100 * step / 39) / 100 for step in range(40))  # RULER's
NEW_TOKENS = {"number": 32, "numbers": 128, "uuid": 64}  # some tokenizers use a token per digit; 128 as published
NUM_HOPS = 4  # of a chain of variables, as the paper reports
NAME_LETTERS = 5  # of a variable
NUM_COMMON = 10
WORDS_PER_LINE = 10  # a line end after them, so that splitting never separates a word from its number
SHORT_TOKENS = 4096  # below it, words occur less often


@dataclass(frozen=True)
class TaskSample:
    """One sample before its length is chosen."""

    context: Callable[[int], str]  # maps a number of haystack pieces to the text; the needles stay the same
    needles: tuple[str, ...]  # each must be complete in one passage
    question: str
    opening: str  # start of the answer that is given to the model
    answers: tuple[str, ...]
    max_new_tokens: int


Task = Callable[[Random, list[str], int], TaskSample]  # arguments: random state, words of the haystack, context tokens


@dataclass(frozen=True)
class NeedleTask:
    """Sentences that give a key a value, hidden in noise, in text, or among other needles."""

    haystack: str  # 'noise', 'text' or 'needles'
    key: str = "word"  # or 'uuid'
    value: str = "number"  # of seven digits, or 'uuid'
    keys: int = 1  # the queried ones included
    values: int = 1  # per key
    queried: int = 1  # keys in the question

    def __call__(self, rng: Random, text: list[str], max_tokens: int) -> TaskSample:
        names = distinct(partial(self._draw_key, rng), self.keys)
        owners = [name for name in names for _ in range(self.values)]
        pairs = list(zip(owners, _draw_values(rng, self.value, len(owners)), strict=True))
        needles = [self._needle(*pair) for pair in pairs]
        queried = rng.sample(names, self.queried)
        answers = tuple(value for name in queried for owner, value in pairs if owner == name)
        rng.shuffle(needles)
        what = f"{self.value}s" if len(answers) > 1 else self.value
        query = f"{', '.join(queried[:-1])}, and {queried[-1]}" if len(queried) > 1 else queried[0]
        subject = f"special magic {what} for {query} mentioned in the provided text"
        if len(answers) > 1:
            question = f"Some special magic {what} are hidden within the provided text.\nWhat are all the {subject}?"
        else:
            question = f"A special magic {what} is hidden within the provided text.\nWhat is the {subject}?"
        opening = f"The {subject} {'are' if len(answers) > 1 else 'is'}"
        context = self._context(rng, text, needles, names)
        return TaskSample(context, tuple(needles), question, opening, answers, NEW_TOKENS[what])

    def _context(self, rng: Random, text: list[str], needles: list[str], names: list[str]) -> Callable[[int], str]:
        if self.haystack == "text":
            text_depths = sorted(rng.sample(TEXT_DEPTHS, len(needles)))
            return lambda pieces: hide_in_text(text[:pieces], needles, text_depths)
        if self.haystack == "noise":
            return _hide_in_noise(rng, needles)
        depths = sorted(rng.random() for _ in needles)
        seed = rng.getrandbits(64)
        return lambda pieces: "\n".join(insert(self._others(pieces, seed, names), needles, depths))

    def _others(self, count: int, seed: int, names: list[str]) -> list[str]:
        """Return needles of other keys; the first ones do not depend on `count`."""
        rng, needles = Random(seed), list[str]()
        while len(needles) < count:
            name = self._draw_key(rng)
            (value,) = _draw_values(rng, self.value, 1)
            if name not in names:
                needles.append(self._needle(name, value))
        return needles

    def _needle(self, name: str, value: str) -> str:
        return f"One of the special magic {self.value}s for {name} is: {value}."

    def _draw_key(self, rng: Random) -> str:
        if self.key == "uuid":
            return _draw_uuid(rng)
        return f"{rng.choice(words.ADJECTIVES)}-{rng.choice(words.NOUNS)}"


def variable_tracking(rng: Random, text: list[str], max_tokens: int) -> TaskSample:
    """Return a chain of assignments in order, in noise; all its variables have the first one's value."""
    value = str(rng.randint(10_000, 99_999))
    names = distinct(lambda: "".join(rng.choices(string.ascii_uppercase, k=NAME_LETTERS)), NUM_HOPS + 1)
    chain = [f"VAR {names[0]} = {value}", *(f"VAR {name} = VAR {before}" for before, name in pairwise(names))]
    return TaskSample(
        context=_hide_in_noise(rng, chain),
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


def common_words(rng: Random, text: list[str], max_tokens: int) -> TaskSample:
    """Return a numbered list of words, ten of which occur far more often than the others.

    As in RULER, the ten occur 30 times and the others 3 times; below 4,096 tokens 6 times and once. The length depends
    on the number of other words; 60 words take about 350 tokens.
    """
    often, seldom = (30, 3) if max_tokens >= SHORT_TOKENS else (6, 1)
    single = [*words.ADJECTIVES, *words.NOUNS]
    rng.shuffle(single)
    pairs = [adjective + noun for adjective in words.ADJECTIVES for noun in words.NOUNS]  # for longer lists
    rng.shuffle(pairs)
    pool, seed = [*single, *pairs], rng.getrandbits(64)
    common = pool[:NUM_COMMON]

    def context(pieces: int) -> str:
        listed = common * often + pool[NUM_COMMON : NUM_COMMON + pieces] * seldom
        Random(seed).shuffle(listed)
        entries = [f"{number}. {word}" for number, word in enumerate(listed, 1)]
        starts = range(0, len(entries), WORDS_PER_LINE)
        return "\n".join(" ".join(entries[start : start + WORDS_PER_LINE]) for start in starts)

    return TaskSample(
        context=context,
        needles=tuple(common),
        question=(
            "Above is a numbered list of words. In these words, some appear more often than others. "
            "Find the ones that appear most often.\n"
            "Question: What are the 10 most common words in the above list?"
        ),
        opening="Answer: The top 10 words that appear most often in the list are:",
        answers=tuple(common),
        max_new_tokens=80,
    )


TASKS: dict[str, Task] = {  # numbers of keys and values are those of RULER's synthetic.yaml
    "niah_single_1": NeedleTask("noise"),
    "niah_single_2": NeedleTask("text"),
    "niah_single_3": NeedleTask("text", value="uuid"),
    "niah_multikey_1": NeedleTask("text", keys=4),
    "niah_multikey_2": NeedleTask("needles"),
    "niah_multikey_3": NeedleTask("needles", key="uuid", value="uuid"),
    "niah_multivalue": NeedleTask("text", values=4),
    "niah_multiquery": NeedleTask("text", keys=4, queried=4),
    "variable_tracking": variable_tracking,
    "common_words": common_words,
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


def _hide_in_noise(rng: Random, needles: list[str]) -> Callable[[int], str]:
    depths = sorted(rng.random() for _ in needles)
    return lambda pieces: "\n".join(insert([NOISE] * pieces, needles, depths))


def _draw_values(rng: Random, kind: str, count: int) -> list[str]:
    if kind == "uuid":
        return [_draw_uuid(rng) for _ in range(count)]
    return [str(number) for number in rng.sample(range(10**6, 10**7), count)]


def _draw_uuid(rng: Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


def distinct(draw: Callable[[], str], count: int) -> list[str]:
    """Return `count` different results of `draw`, in the order drawn."""
    drawn: dict[str, None] = {}
    while len(drawn) < count:
        drawn[draw()] = None
    return list(drawn)
