"""A file's questions over shorter passages: every passage is cut, and all parts are shuffled."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from bench.data.dataset import make_items
from bench.data.item import Item, TokenCounter
from bench.multi_passage.source import TaskSource
from engine.text import split_sentences

MIN_TOKENS = 40
MAX_TOKENS = 100


def split_items(source: TaskSource, count_tokens: TokenCounter) -> Iterator[Item]:
    """Yield the file's questions in a seeded order; those whose answers were cut in two are left out.

    The parts depend on the tokenizer, too.
    """
    for item in make_items(source.group, source.questions, source.num_passages, source.seed):
        rng = Random(f"split {source.seed} {item.id}")
        parts = [part for passage in item.passages for part in cut(passage, count_tokens, rng)]
        rng.shuffle(parts)
        quoted = [answer for answer in item.answers if any(answer in passage for passage in item.passages)]
        if not quoted or any(answer in part for answer in quoted for part in parts):
            yield replace(item, passages=tuple(parts), group=f"{item.group} split")


def cut(text: str, count_tokens: TokenCounter, rng: Random) -> list[str]:
    """Return parts of at most 100 tokens, and of at least 40 where whole sentences allow it.

    Lengths are random. A sentence of more than 100 tokens is cut at spaces; Chinese without spaces anywhere.
    """
    sentences = [piece for sentence in split_sentences(text) for piece in _short(sentence, count_tokens)]
    parts: list[list[str]] = [[]]
    target = rng.randint(MIN_TOKENS, MAX_TOKENS)
    for sentence in sentences:
        limit = target if count_tokens("".join(parts[-1])) >= MIN_TOKENS else MAX_TOKENS
        if parts[-1] and count_tokens("".join([*parts[-1], sentence])) > limit:
            parts.append([])
            target = rng.randint(MIN_TOKENS, MAX_TOKENS)
        parts[-1].append(sentence)
    *earlier, last = ["".join(part) for part in parts]
    if earlier and count_tokens(last) < MIN_TOKENS:
        earlier[-1], last = _cut_evenly([*parts[-2], *parts[-1]], count_tokens)
    return [part.strip() for part in (*earlier, last) if part.strip()]


def _cut_evenly(sentences: list[str], count_tokens: TokenCounter) -> tuple[str, str]:
    """Return two parts, the shorter as long as possible, or '' and all sentences if they fit into one part."""
    pairs = [("".join(sentences[:number]), "".join(sentences[number:])) for number in range(len(sentences))]
    fitting = [pair for pair in pairs if max(map(count_tokens, pair)) <= MAX_TOKENS]
    return max(fitting, key=lambda pair: min(count_tokens(part) for part in pair if part))


def _short(sentence: str, count_tokens: TokenCounter) -> list[str]:
    """Return a sentence, halved until no part has more than 100 tokens."""
    if count_tokens(sentence) <= MAX_TOKENS or len(sentence) < 2:
        return [sentence]
    middle = sentence.rfind(" ", 1, len(sentence) // 2 + 1)
    middle = middle if middle > 0 else len(sentence) // 2
    return [*_short(sentence[:middle], count_tokens), *_short(sentence[middle:], count_tokens)]
