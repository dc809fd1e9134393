"""RULER's common words (cwe): a numbered list of words, ten of which occur far more often than the others.

As in RULER, the ten occur 30 times and the others 3 times; below 4,096 tokens 6 times and once. A list that does not
fit is rejected: 60 words take about 350 tokens. Ours has a line end after every tenth word, so that splitting into
passages never separates a word from its number.
"""

from random import Random

from bench.ruler.sample import TaskInputs, TaskSample
from bench.ruler.words import ADJECTIVES, NOUNS

NUM_COMMON = 10
WORDS_PER_LINE = 10  # words
SHORT_TOKENS = 4096  # below it the lower frequencies apply


def frequencies(tokens: int) -> tuple[int, int]:
    """Return how often a common word and any other word occur in a list of `tokens` tokens."""
    return (30, 3) if tokens >= SHORT_TOKENS else (6, 1)


def common_words(inputs: TaskInputs) -> TaskSample:
    """Return a list; its length depends on the number of other words."""
    rng, (often, seldom) = inputs.rng, frequencies(inputs.max_tokens)
    single = [*ADJECTIVES, *NOUNS]
    rng.shuffle(single)
    pairs = [adjective + noun for adjective in ADJECTIVES for noun in NOUNS]  # for lists longer than our word lists
    rng.shuffle(pairs)
    pool, seed = [*single, *pairs], rng.getrandbits(64)
    common = pool[:NUM_COMMON]

    def context(pieces: int) -> str:
        listed = common * often + pool[NUM_COMMON : NUM_COMMON + pieces] * seldom
        Random(seed).shuffle(listed)
        entries = [f"{number}. {word}" for number, word in enumerate(listed, 1)]
        return "\n".join(
            " ".join(entries[start : start + WORDS_PER_LINE]) for start in range(0, len(entries), WORDS_PER_LINE)
        )

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
