"""Correct misspelled words of a question by the passages: 'nigth' to 'night'."""

import re
from collections.abc import Callable, Iterable

from engine.prompt.overlap import stem
from engine.text import WORD, split_words

MIN_LETTERS = 5
LETTERS = "abcdefghijklmnopqrstuvwxyz\u00e4\u00f6\u00fc\u00df"


def corrected(question: str, texts: Iterable[str], is_known: Callable[[str], bool]) -> str:
    """Return a question with each unknown word that no text has as the only word of the texts that is one edit away.

    An edit adds a letter, swaps two, or leaves out one of two equal ones, after the first letter, which is rarely
    wrong. Other letters in place of these make more right words wrong than wrong ones right: 'carton' and 'carbon'.
    `is_known` tells whether a word in lower case is no misspelling.
    """
    words = {word for text in texts for word in split_words(text)}
    stems = set(map(stem, words))

    def correct(match: re.Match[str]) -> str:
        word = match[0].lower()
        is_candidate = len(word) >= MIN_LETTERS and word.isalpha() and stem(word) not in stems
        if not is_candidate or is_known(word):
            return match[0]
        found = words & set(_edits(word))
        return found.pop() if len(found) == 1 else match[0]

    return WORD.sub(correct, question)


def _edits(word: str) -> Iterable[str]:
    """Yield what one edit makes of a word."""
    for i in range(1, len(word) + 1):
        yield from (word[:i] + letter + word[i:] for letter in LETTERS)
    for i in range(1, len(word) - 1):
        yield word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        if word[i] == word[i + 1]:
            yield word[:i] + word[i + 1 :]
