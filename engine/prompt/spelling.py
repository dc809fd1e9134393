"""Correct misspelled words of a question by the passages: 'nigth' to 'night'."""

import re
from collections.abc import Callable, Iterable
from string import ascii_lowercase

from engine.prompt.overlap import stem
from engine.text import WORD, split_words
from store.german import is_german

MIN_LETTERS = 5
QUESTION_WORDS = {"wich": "which", "whitch": "which", "whch": "which", "waht": "what", "whta": "what", "wat": "what"}
QUESTION_WORDS |= {"hwo": "how", "whne": "when", "wehn": "when", "wher": "where", "whre": "where"}
QUESTION_WORD = re.compile(rf"^(?:{'|'.join(QUESTION_WORDS)})\b")


def corrected(question: str, texts: Iterable[str], is_known: Callable[[str], bool]) -> str:
    """Return a question with each unknown word that no text has as the only word of the texts that is one edit away.

    An edit adds a letter, swaps two, or leaves out one of two equal ones: after the first letter, which is rarely
    wrong, and not at the end, where words are inflected. Other letters in place of these make more right words wrong
    than wrong ones right: 'carton' and 'carbon'. Names, which have capitals, stay, and so do German questions: the
    tokenizers whose tokens are the known words are English. Some misspelled question words are known.

    is_known  tells whether a word is no misspelling
    """
    if is_german(question):
        return question
    question = QUESTION_WORD.sub(lambda match: QUESTION_WORDS[match[0]], question)
    words = {word for text in texts for word in split_words(text)}
    stems = set(map(stem, words))

    def correct(match: re.Match[str]) -> str:
        word = match[0]
        is_candidate = len(word) >= MIN_LETTERS and word.isascii() and word.isalpha() and word.islower()
        if not is_candidate or stem(word) in stems or is_known(word):
            return word
        found = words & set(_edits(word))
        return found.pop() if len(found) == 1 else word

    return WORD.sub(correct, question)


def _edits(word: str) -> Iterable[str]:
    """Yield what one edit makes of a word."""
    for i in range(1, len(word)):
        yield from (word[:i] + letter + word[i:] for letter in ascii_lowercase)
    for i in range(1, len(word) - 1):
        yield word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        if word[i] == word[i + 1]:
            yield word[:i] + word[i + 1 :]
