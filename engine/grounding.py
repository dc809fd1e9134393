"""Hold an answer to what the passages say, and to the sentences that speak of what was asked.

A small reader finds the right passage and then quotes the wrong sentence of it, or misspells the name that it copies.
The words alone tell both. While an answer is written, each token that may come next is weighed by the sentence that the
answer would then be quoting: the more of the question's telling words stand there, and elsewhere in its passage, the
better. A word that no passage has is weighed like the worst sentence. Where no passage has a word of the question, all
sentences are worth the same and nothing changes.

An outside score added to the logits at each step is known as shallow fusion (arXiv:1503.03535). It is the same for
every method and comes after the prefill, so it favours none.
"""

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cite import sentences_of, words_of
from engine.conversation import SILENT
from engine.model.generate import Chooser
from engine.prompt import Prompt
from engine.request import Reading

WEIGHT = 0.3  # nats of a logit for each nat of a sentence's worth
NEARBY = 0.5  # what a word elsewhere in the passage is worth, against one in the sentence itself
STEM = 6  # letters by which two words are taken for forms of the same
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"  # written without spaces between words
UNSPACED = re.compile(f"[{_UNSPACED}]")
BEGIN = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")


@dataclass(frozen=True, slots=True)
class Quote:
    """An answer under way, and what of the passages it may be quoting.

    text   written so far
    ends   where the quoted text ends, in characters of all passages in a row; several places may say the same
    worth  of the best of the sentences around them, in nats below the best of all: 0 or less
    """

    text: str = ""
    ends: tuple[int, ...] = ()
    worth: float = 0.0


class Grounding:
    """What it is worth to write a text, by the sentences of one reading.

    passages  the texts that the model reads
    question  what was asked
    """

    def __init__(self, passages: Sequence[str], question: str) -> None:
        cut = [(sentence, number) for number, text in enumerate(passages) for sentence in sentences_of(text)]
        cut = [(plain, number) for sentence, number in cut if (plain := " ".join(sentence.split()))]
        said = [sentence for sentence, _ in cut]
        self._text, self._starts = " ".join(said), [0]
        for sentence in said[:-1]:
            self._starts.append(self._starts[-1] + len(sentence) + 1)
        self._begins: dict[str, list[int]] = defaultdict(list)
        for found in BEGIN.finditer(self._text):
            self._begins[found.group()[0]].append(found.start())
        self._asked = set(words_of(question))
        self._worths = _worths(said, [number for _, number in cut], self._asked)
        best = max(self._worths, default=0.0)
        self._worths = [worth - best for worth in self._worths]
        self.worst = -best

    def after(self, quote: Quote, piece: str) -> Quote:
        """Return what is quoted once `piece` is written behind it."""
        text = quote.text + piece
        going_on = tuple(end + len(piece) for end in quote.ends if self._text.startswith(piece, end))
        if going_on:
            return Quote(text, going_on, self._worth(going_on))
        word = piece.lstrip()
        if not word or not word[0].isalnum():
            return Quote(text, (), quote.worth)
        if _within_word(text, len(quote.text) + len(piece) - len(word)):  # goes on as no passage does
            return Quote(text, (), self.worst)
        begun = (start for start in self._begins.get(word[0], ()) if self._text.startswith(word, start))
        ends = tuple(start + len(word) for start in begun)
        return Quote(text, ends, self._worth(ends))

    def ended(self, quote: Quote) -> float:
        """Return what it is worth to end there: half a word, or only words of the question, are worth the least."""
        half = bool(quote.ends) and all(_within_word(self._text, end) for end in quote.ends)
        echo = bool(said := set(words_of(quote.text))) and said <= self._asked
        return self.worst if half or echo else quote.worth

    def _worth(self, ends: Sequence[int]) -> float:
        return max((self._worths[bisect_right(self._starts, end - 1) - 1] for end in ends), default=self.worst)


def _worths(said: Sequence[str], passages: Sequence[int], asked: Collection[str]) -> list[float]:
    """Return for each sentence what the question's telling words in it are worth, in nats; rare ones count more."""
    held = [{word[:STEM] for word in words_of(sentence)} for sentence in said]
    nearby: dict[int, set[str]] = defaultdict(set)
    for number, found in zip(passages, held, strict=True):
        nearby[number] |= found
    spread = Counter(word for found in held for word in found)
    telling = {word[:STEM] for word in asked if not SILENT.fullmatch(word)}
    weights = {word: math.log(1 + len(said) / (1 + spread[word])) for word in telling if spread[word]}

    def worth(found: set[str]) -> float:
        return sum(weight for word, weight in weights.items() if word in found)

    around = {number: worth(found) for number, found in nearby.items()}
    return [worth(found) + NEARBY * around[number] for number, found in zip(passages, held, strict=True)]


def _within_word(text: str, at: int) -> bool:
    """Return whether the characters before and at a place belong to one word."""
    before, behind = text[at - 1 : at], text[at : at + 1]
    return before.isalnum() and behind.isalnum() and not UNSPACED.match(before) and not UNSPACED.match(behind)


def grounded(chooser: Chooser, reading: Reading, prompt: Prompt) -> "GroundedChooser":
    """Return what chooses the tokens of one reading's answer."""
    return GroundedChooser(chooser, Grounding(reading.texts, reading.asked), prompt.tokens.decode, prompt.stop_ids)


class GroundedChooser:
    """Chooses the tokens of one answer, one after the other, with a grounding's help.

    chooser   chooses among the weighed logits
    text_of   the text of token ids
    stop_ids  end the answer
    """

    def __init__(
        self, chooser: Chooser, grounding: Grounding, text_of: Callable[[Sequence[int]], str], stop_ids: frozenset[int]
    ) -> None:
        self._chooser, self._grounding, self._text_of, self._stop_ids = chooser, grounding, text_of, stop_ids
        self._quote, self._last, self._part = Quote(), list[int](), list[int]()

    def choose(self, logits: Tensor) -> int:
        """Return a token id for logits [V].

        What lies so far below the likeliest token that no worth could raise it above counts as worth the least.
        """
        reach = -WEIGHT * self._grounding.worst
        within = (logits >= logits.max() - reach).nonzero()[:, 0]
        lowered = [WEIGHT * self._worth(token) for token in within.tolist()]
        weighed = logits - reach
        weighed[within] = logits[within] + torch.tensor(lowered, device=logits.device)
        token = self._chooser.choose(weighed)
        self._write(token)
        return token

    def _worth(self, token: int) -> float:
        if token in self._stop_ids:
            return self._grounding.ended(self._quote)
        piece = self._piece(token)
        return self._quote.worth if piece is None else self._grounding.after(self._quote, piece).worth

    def _write(self, token: int) -> None:
        if (piece := self._piece(token)) is None:
            self._part.append(token)
        else:
            self._quote, self._last, self._part = self._grounding.after(self._quote, piece), [token], []

    def _piece(self, token: int) -> str | None:
        """Return the text that a token adds; None while it ends inside a character.

        It is decoded behind the token before it: some tokenizers give the first token of a text no space.
        """
        before, after = self._text_of(self._last), self._text_of([*self._last, *self._part, token])
        return None if after.endswith("\ufffd") else after[len(before) :]
