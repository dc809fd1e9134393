"""Which passage backs which sentence of an answer, and where an answer begins to repeat itself.

A small model does not cite by itself. Each sentence is compared, word by word, with each passage; the passage that
holds the largest share of the sentence's telling words is cited, if that share is large enough and the passage holds
every number of the sentence. The rule is plain and the same for every method, so it favours none.

A sentence gets its mark once it has ended, and one that begins like an earlier one waits until it goes another way. So
an answer can be shown while it is written and only ever grows: nothing that was shown is taken back.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from engine.text import CITATION_MARK, LIST_NUMBER, split_sentences, split_words

ENOUGH = 0.5  # share of a sentence's telling words, by weight, that a cited passage holds
LISTING = re.compile(r"\s*\d{1,3}\.?$")  # may become such a number
# Of the model's own: like [2] and [3][4], but neither the index of 'row[2]' nor what begins a line of a list.
COPIED = re.compile(r"(?:[^\S\n]+|(?<=[^\w\])\s]))(?:\[\d{1,3}\])+")
UNSURE = re.compile(r"(?:[^\S\n]|\[\d{0,3}\]?)+$")  # may become copied marks
TELLING = 3  # words of a sentence that nobody says twice


class Citer:
    """Marks sentences with the rank, from 1, of the passage that backs them.

    question  its words tell nothing: every passage was found for them
    """

    def __init__(self, passages: Sequence[str], question: str = "") -> None:
        self._held = [set(split_words(passage)) for passage in passages]
        self._spread = Counter(word for words in self._held for word in words)
        self._asked = set(split_words(question))

    def rank(self, sentence: str) -> int | None:
        """Return the rank of the passage that holds enough of the sentence; None if none does."""
        words = set(_said(sentence) or split_words(sentence))
        numbers = {word for word in words if word[0].isdecimal()}
        passages = 1 + len(self._held)
        weights = {word: math.log(1 + passages / (1 + self._spread[word])) for word in (words - self._asked) or words}
        total = sum(weights.values()) or 1.0
        shares = [
            sum(weights[word] for word in weights if word in held) / total if numbers <= held else 0.0
            for held in self._held
        ]
        best = max(range(len(shares)), key=lambda rank: (shares[rank], -rank), default=None)
        return None if best is None or shares[best] < ENOUGH else best + 1


def cite(answer: str, passages: Sequence[str], question: str = "") -> tuple[str, set[int]]:
    """Return the answer with [n] behind each backed sentence, and the cited ranks, from 1."""
    citer, said = Citer(passages, question), split_sentences(answer)
    ranks = [citer.rank(sentence) for sentence in said]
    return "".join(map(_marked, said, ranks)), {rank for rank in ranks if rank is not None}


def unmarked(pieces: Iterable[str]) -> Iterator[str]:
    """Yield a text without marks like [2] of its own: they point into what it was copied from, not to our passages."""
    last, held = "", ""  # the character before what is held tells whether that is a mark
    for piece in pieces:
        held += piece
        unsure = UNSURE.search(held)
        sure = unsure.start() if unsure else len(held)
        yield COPIED.sub("", last + held[:sure])[len(last) :]
        last, held = held[:sure][-1:] or last, held[sure:]
    yield COPIED.sub("", last + held)[len(last) :]


class StableText:
    """What of an answer under way is certain: the beginning of what `cite` will make of it, however it goes on.

    `cited` has the ranks of the marks so far.
    """

    def __init__(self, passages: Sequence[str], question: str = "") -> None:
        self._citer, self._said = Citer(passages, question), Counter[tuple[str, ...]]()
        self.cited = set[int]()
        self._ended, self._read = "", 0  # the sentences that have ended, marked; their characters as written

    def of(self, written: str) -> str:
        """Return the certain part of the text so far; each call's text begins with that of the call before it."""
        *ended, growing = split_sentences(written.lstrip()[self._read :]) or [""]
        for sentence in ended:
            rank = self._citer.rank(sentence)
            self._ended += _marked(sentence, rank)
            if rank is not None:
                self.cited.add(rank)
            self._said[_said(sentence)] += 1
            self._read += len(sentence)
        return (self._ended + ("" if self._may_repeat(growing) else growing)).rstrip()

    def _may_repeat(self, sentence: str) -> bool:
        """Return whether the sentence may yet become one that was said too often, and be cut."""
        words = () if LISTING.fullmatch(sentence) else _said(sentence)
        return any(
            often >= _allowed(said) and len(words) <= len(said) and _begins(said, words)
            for said, often in self._said.items()
            if said
        )


def quoted(answer: str, passages: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return where the cited passages say what the answer says: (rank from 1, start, end) in characters.

    answer  as `cite` returned it, with its [n]

    For each [n] that is the sentence of passage n which shares most words with the sentence before the mark, words
    that few of the passage's sentences hold counting more. A mark of no passage, or without a shared word, has none.
    """
    found, parts = [], CITATION_MARK.split(answer)
    for said, mark in zip(parts[0::2], parts[1::2], strict=False):
        if not 1 <= (rank := int(mark)) <= len(passages) or not said.strip():
            continue
        sentences = split_sentences(passages[rank - 1])
        held = [set(split_words(sentence)) for sentence in sentences]
        spread = Counter(word for words in held for word in words)
        wanted = set(split_words(split_sentences(said.strip())[-1]))
        shares = [sum(1 / spread[word] for word in wanted & words) for words in held]
        best = max(range(len(shares)), key=lambda place: (shares[place], -place), default=None)
        if best is not None and shares[best]:
            start = sum(map(len, sentences[:best]))
            body = sentences[best].strip()
            start += sentences[best].index(body)
            found.append((rank, start, start + len(body)))
    return found


class RepetitionDetector:
    """Watches a growing text for a sentence that was said before, word for word; reads each sentence once.

    The last sentence is still growing and does not count. A short one (a list mark, 'Yes.') may be said twice.
    """

    def __init__(self) -> None:
        self._said, self._read = Counter[tuple[str, ...]](), 0

    def of(self, text: str) -> int | None:
        """Return where the first repeated sentence begins, if one is there; each call's text begins with the last."""
        for sentence in split_sentences(text[self._read :])[:-1]:
            words = _said(sentence)
            self._said[words] += bool(words)
            if self._said[words] > _allowed(words):
                return self._read
            self._read += len(sentence)
        return None


def _allowed(words: Sequence[str]) -> int:
    """Return how often a sentence of these words may be said."""
    return 1 if len(words) >= TELLING else 2


def _begins(said: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether `said` begins with the words, the last of which may be unfinished."""
    return not words or (tuple(said[: len(words) - 1]) == words[:-1] and said[len(words) - 1].startswith(words[-1]))


def _marked(sentence: str, rank: int | None) -> str:
    body = sentence.rstrip()
    return sentence if rank is None else f"{body} [{rank}]{sentence[len(body) :]}"


def _said(sentence: str) -> tuple[str, ...]:
    """Return a sentence's words without the number that it has in a list."""
    listed = LIST_NUMBER.match(sentence)
    return tuple(split_words(sentence[listed.end() :] if listed else sentence))
