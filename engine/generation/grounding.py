"""Hold an answer to what the passages say, and to the sentences that speak of what was asked.

A small reader finds the right passage and then quotes the wrong sentence of it, or misspells the name that it copies.
The words alone tell both. While an answer is written, each token that may come next is weighed by the sentence that the
answer would then be quoting: the more of the question's telling words stand there, and elsewhere in its passage, the
better. A word that no passage has is weighed like the worst sentence, and so is an answer that only repeats the
question; to say that the passages do not say loses nothing behind its first word. Where no passage has a word of the
question, all sentences are worth the same.

Within a sentence words alone do not tell one number from the next. Where there is a trained pointer (engine.generation.span_scorer),
what it says of each word is added to the worth of its sentence.

An outside score added to the logits at each step is known as shallow fusion (arXiv:1503.03535). It is the same for
every method and comes after the prefill, so it favours none.
"""

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from engine.generation.span_scorer import SpanScores, char_log_probs
from engine.prompt.followups import CLIPPED, SILENT
from engine.prompt.template import NO_ANSWER
from engine.text import UNSPACED_SCRIPTS, split_sentences, split_words

WEIGHT = 0.3  # nats of a logit for each nat of a sentence's worth
MOST = 33.0  # nats between the best and the worst sentence; 99 of 100 held-out questions have less
NEARBY = 0.5  # what a word elsewhere in the passage is worth, against one in the sentence itself
POINTED = 0.5  # nats of a logit for each nat by which the pointer holds another word likelier
FARTHEST = 6.0  # nats; what it holds less likely than that is all the same
STEM = 6  # letters by which two words are taken for forms of the same
WRAPPED = re.compile(r"\n(?=[a-z])")  # a line that goes on with the sentence of the one before
_LETTER = rf"[^\W{UNSPACED_SCRIPTS}]"
WORD = re.compile(rf"[{UNSPACED_SCRIPTS}]|{_LETTER}+(?:(?<=\d)[.,](?=\d){_LETTER}+)*")  # 1,684,000 is one, and 14th
WITHIN = re.compile(rf"(?<={_LETTER})(?={_LETTER})|(?<=\d)(?=[.,]\d)|(?<=\d[.,])(?=\d)")  # between its characters


@dataclass(frozen=True, slots=True)
class QuoteState:
    """An answer under way, and what of the passages it may be quoting.

    text   written so far
    ends   where the quoted text ends, in characters of all passages in a row; several places may say the same
    worth  of the best of the sentences around them, or words there where a pointer tells, in nats below the best of
           all: 0 or less. Signs behind a quote leave it as it was.
    """

    text: str = ""
    ends: tuple[int, ...] = ()
    worth: float = 0.0


class SentenceScores:
    """What it is worth to write a text, by the sentences of one reading.

    passages  the texts that the model reads
    asked     the question, with earlier questions and answers that it leans on: what a sentence should speak of
    question  the question alone: what an answer should not merely repeat; None where it leans on nothing
    pointed   what a pointer says of each passage; None without one
    """

    def __init__(
        self,
        passages: Sequence[str],
        asked: str,
        question: str | None = None,
        pointed: Sequence[SpanScores] | None = None,
    ) -> None:
        cut = [
            (part, number) for number, text in enumerate(passages) for part in split_sentences(WRAPPED.sub(" ", text))
        ]
        cut = [(plain, number) for sentence, number in cut if (plain := " ".join(sentence.split()))]
        said = [sentence for sentence, _ in cut]
        self._text, self._starts = " ".join(said), [0]
        for sentence in said[:-1]:
            self._starts.append(self._starts[-1] + len(sentence) + 1)
        self._begins: dict[str, list[int]] = defaultdict(list)
        for found in WORD.finditer(self._text):
            self._begins[found.group()[0]].append(found.start())
        self._echo = set(split_words(asked if question is None else question))
        if "or" in self._echo:  # a choice between things that the question names
            self._echo.clear()
        worths = _worths(said, [number for _, number in cut], asked)
        best = max(worths, default=0.0)
        scale = min(1.0, MOST / best) if best else 1.0
        self._worths = [scale * (worth - best) for worth in worths]
        self.worst = -scale * best
        self._opens = self._follow(QuoteState(), NO_ANSWER.split()[0])[1]  # may begin a refusal, or any answer
        if pointed is not None:
            self._point(char_log_probs(self._text, passages, pointed))

    def after(self, quote: QuoteState, piece: str) -> QuoteState:
        """Return what is quoted once `piece` is written behind it."""
        text = quote.text + piece
        ends, worth = self._follow(quote, piece)
        said = text.strip()
        if said and NO_ANSWER.startswith(said):
            worth = 0.0 if " " in said else max(worth, self._opens)
        return QuoteState(text, ends, worth)

    def ended(self, quote: QuoteState) -> float:
        """Return what it is worth to end there: nothing, half a word or only words of the question are worth least."""
        repeated = set(split_words(quote.text)) <= self._echo
        return self.worst if repeated or self._half(quote) else quote.worth

    def _point(self, nats: Sequence[float]) -> None:
        """Add what is pointed at: from here on each word has a worth of its own. nats: of each character."""
        most = POINTED / WEIGHT
        starts, worths = [0], [self.worst - most * FARTHEST]
        for word in WORD.finditer(self._text):
            pointed = max(-FARTHEST, *nats[word.start() : word.end()])
            starts.append(word.start())
            worths.append(self._worth((word.end(),)) + most * pointed)
        best = max(worths)
        self._starts, self._worths = starts, [worth - best for worth in worths]
        self.worst -= most * FARTHEST + best
        self._opens -= most * FARTHEST / 2  # nobody points at a refusal: it loses half of what a word can

    def _follow(self, quote: QuoteState, piece: str) -> tuple[tuple[int, ...], float]:
        """Return where the quoted text ends behind `piece`, and its worth."""
        going_on = tuple(end + len(piece) for end in quote.ends if self._text.startswith(piece, end))
        if going_on:
            return going_on, self._worth(going_on)
        text, word = quote.text + piece, WORD.search(piece)
        if word is None:
            return (), self.worst if self._half(quote) else quote.worth
        begun = piece[word.start() :]
        if WITHIN.match(text, len(text) - len(begun)):  # a word goes on as no passage has it
            return (), self.worst
        places = self._begins.get(begun[0], ())
        ends = tuple(start + len(begun) for start in places if self._text.startswith(begun, start))
        return ends, self.worst if self._half(quote) else self._worth(ends)

    def _half(self, quote: QuoteState) -> bool:
        """Return whether the quoted text ends within a word, wherever it may stand."""
        return bool(quote.ends) and all(WITHIN.match(self._text, end) for end in quote.ends)

    def _worth(self, ends: Sequence[int]) -> float:
        return max((self._worths[bisect_right(self._starts, end - 1) - 1] for end in ends), default=self.worst)


def _worths(said: Sequence[str], passages: Sequence[int], asked: str) -> list[float]:
    """Return for each sentence what the question's telling words in it are worth, in nats; rare ones count more."""
    held = [set(map(_stem, split_words(sentence))) for sentence in said]
    nearby: dict[int, set[str]] = defaultdict(set)
    for number, found in zip(passages, held, strict=True):
        nearby[number] |= found
    spread = Counter(word for found in held for word in found)
    telling = {_stem(word) for word in split_words(CLIPPED.sub("", asked.lower())) if not SILENT.fullmatch(word)}
    weights = {word: math.log(1 + len(said) / (1 + spread[word])) for word in telling}

    def worth(found: set[str]) -> float:
        return sum(weight for word, weight in weights.items() if word in found)

    around = {number: worth(found) for number, found in nearby.items()}
    return [worth(found) + NEARBY * around[number] for number, found in zip(passages, held, strict=True)]


def _stem(word: str) -> str:
    """Return the beginning of a word, or a number as it is."""
    return word if word[0].isdecimal() else word[:STEM]
