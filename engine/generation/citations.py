"""Attribute the sentences of an answer to passages, and detect where an answer starts repeating itself.

A small model does not cite by itself, so citations are added after the fact, by lexical overlap. The rule is the same
for every method, so it favours none. Answers are cited while they stream: a sentence gets its citation when it is
complete, and one that starts like an earlier one is withheld until it differs, so that displayed text only grows.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from engine.text import CITATION_MARK, LIST_NUMBER, split_sentences, split_words

MIN_OVERLAP = 0.5  # weighted share of a sentence's words that the cited passage must contain
MIN_UNIQUE_WORDS = 3  # a sentence of so many words may occur once, a shorter one twice
WORD_LOOP = re.compile(r"(?<!\S)(\S+(?: \S+){0,5}?)(?:,? \1){3}(?!\S)")  # up to six words, four times in a row
MAX_LOOP_CHARS = 300
PARTIAL_LIST_NUMBER = re.compile(r"\s*\d{1,3}\.?$")
# Marks that the model copied, like [2] and [3][4], but neither the index of 'row[2]' nor the start of a list line.
COPIED_MARKS = re.compile(r"(?:[^\S\n]+|(?<=[^\w\])\s]))(?:\[\d{1,3}\])+")
PARTIAL_MARKS = re.compile(r"(?:[^\S\n]|\[\d{0,3}\]?)+$")  # the next characters may turn this into copied marks


class Citer:
    """Finds the passage that supports a sentence; the question's words carry no weight, as every passage has them."""

    def __init__(self, passages: Sequence[str], question: str = "") -> None:
        self._passage_words = [set(split_words(passage)) for passage in passages]
        self._document_frequency = Counter(word for words in self._passage_words for word in words)
        self._question_words = set(split_words(question))

    def best_rank(self, sentence: str) -> int | None:
        """Return the rank, from 1, of the passage with the largest idf-weighted share of a sentence's words.

        None if that share is below MIN_OVERLAP. A passage without every number of the sentence has no share.
        """
        words = set(_content_words(sentence) or split_words(sentence))
        numbers = {word for word in words if word[0].isdecimal()}
        count = 1 + len(self._passage_words)
        weights = {
            word: math.log(1 + count / (1 + self._document_frequency[word]))
            for word in (words - self._question_words) or words
        }
        total = sum(weights.values()) or 1.0
        overlaps = [
            sum(weight for word, weight in weights.items() if word in passage) / total if numbers <= passage else 0.0
            for passage in self._passage_words
        ]
        best = max(range(len(overlaps)), key=overlaps.__getitem__, default=None)
        return None if best is None or overlaps[best] < MIN_OVERLAP else best + 1


def cite(answer: str, passages: Sequence[str], question: str = "") -> tuple[str, set[int]]:
    """Return the answer with [n] after each supported sentence, and the cited ranks, from 1."""
    citer = Citer(passages, question)
    sentences = split_sentences(answer)
    ranks = [citer.best_rank(sentence) for sentence in sentences]
    return "".join(map(_with_mark, sentences, ranks)), {rank for rank in ranks if rank is not None}


def strip_citation_marks(pieces: Iterable[str]) -> Iterator[str]:
    """Yield a streamed text without marks like [2] that the model copied: they do not refer to our passages."""
    previous = ""  # the character before `pending` decides whether it starts with a mark
    pending = ""
    for piece in pieces:
        pending += piece
        partial = PARTIAL_MARKS.search(pending)
        end = partial.start() if partial else len(pending)
        yield COPIED_MARKS.sub("", previous + pending[:end])[len(previous) :]
        previous, pending = pending[:end][-1:] or previous, pending[end:]
    yield COPIED_MARKS.sub("", previous + pending)[len(previous) :]


class StableText:
    """The stable part of a streamed answer: a prefix of the final, cited text, however generation continues."""

    def __init__(self, passages: Sequence[str], question: str = "") -> None:
        self.cited_ranks = set[int]()
        self._citer = Citer(passages, question)
        self._occurrences = Counter[tuple[str, ...]]()
        self._cited_text = ""  # the complete sentences with their citations
        self._consumed = 0  # their characters as generated

    def update(self, text: str) -> str:
        """Return the stable part of the text so far; each call's text and result extend those of the call before."""
        *complete, growing = split_sentences(text.lstrip()[self._consumed :]) or [""]
        for sentence in complete:
            rank = self._citer.best_rank(sentence)
            self._cited_text += _with_mark(sentence, rank)
            if rank is not None:
                self.cited_ranks.add(rank)
            self._occurrences[_content_words(sentence)] += 1
            self._consumed += len(sentence)
        return (self._cited_text + ("" if self._may_repeat(growing) else growing)).rstrip()

    def _may_repeat(self, partial: str) -> bool:
        """Return whether the growing sentence may become a repetition, which would be cut."""
        words = () if PARTIAL_LIST_NUMBER.fullmatch(partial) else _content_words(partial)
        *complete, last = words or ("",)  # the last word may be incomplete
        num_complete = len(complete)
        return any(
            sentence[:num_complete] == tuple(complete) and sentence[num_complete].startswith(last)
            for sentence, count in self._occurrences.items()
            if count >= _max_occurrences(sentence) and len(sentence) > num_complete
        )


class RepetitionDetector:
    """Finds the first verbatim repetition in a streamed text: of a sentence, or several times of a few words.

    The last sentence, still growing, is ignored.
    """

    def __init__(self) -> None:
        self._occurrences = Counter[tuple[str, ...]]()
        self._consumed = 0

    def update(self, text: str) -> int | None:
        """Return the offset of the first repeated sentence, if any; each call's text extends that of the last call."""
        for sentence in split_sentences(text[self._consumed :])[:-1]:
            words = _content_words(sentence)
            self._occurrences[words] += bool(words)
            if self._occurrences[words] > _max_occurrences(words):
                return self._consumed
            self._consumed += len(sentence)
        loop = WORD_LOOP.search(text, max(self._consumed, len(text) - MAX_LOOP_CHARS))
        return loop.end(1) if loop else None


def quoted_spans(answer: str, passages: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return the passage sentences that support each [n] of an answer from `cite`: (rank, start, end), in characters.

    One has the largest word overlap with the sentence before the mark; words that few of the passage's sentences have
    count more. The sentences before that one count too, as far as they are quoted word for word. Marks without a
    passage or overlap are left out.
    """
    spans = []
    parts = CITATION_MARK.split(answer)
    for text, mark in zip(parts[0::2], parts[1::2], strict=False):
        rank = int(mark)
        if not 1 <= rank <= len(passages) or not text.strip():
            continue
        *earlier, last = map(str.strip, split_sentences(text.strip()))
        offset = 0
        sentences = dict[tuple[int, int], str]()
        for sentence in split_sentences(passages[rank - 1]):
            if body := sentence.strip():
                start = offset + sentence.index(body)
                sentences[start, start + len(body)] = body
            offset += len(sentence)
        words = {span: set(split_words(body)) for span, body in sentences.items()}
        frequency = Counter(word for each in words.values() for word in each)
        cited_words = set(split_words(last))
        overlaps = {span: sum(1 / frequency[word] for word in cited_words & each) for span, each in words.items()}
        best = max(overlaps, key=overlaps.__getitem__, default=None)
        if best is not None and overlaps[best]:
            spans.append((rank, *best))
            before = list(sentences)[: list(sentences).index(best)]
            while before and earlier and sentences[before[-1]] == earlier.pop():
                spans.append((rank, *before.pop()))
    return spans


def _max_occurrences(words: Sequence[str]) -> int:
    return 1 if len(words) >= MIN_UNIQUE_WORDS else 2


def _with_mark(sentence: str, rank: int | None) -> str:
    body = sentence.rstrip()
    return sentence if rank is None else f"{body} [{rank}]{sentence[len(body) :]}"


def _content_words(sentence: str) -> tuple[str, ...]:
    """Return the words of a sentence without its list number."""
    number = LIST_NUMBER.match(sentence)
    return tuple(split_words(sentence[number.end() :] if number else sentence))
