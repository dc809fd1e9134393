"""Split text into sentences and words. Free of torch, so that the UI can use it."""

import itertools
import re

# A run of dots is looked at once, not from each of its dots.
SENTENCE_END = re.compile(r"(?<![.!?])[.!?]+(?=\s)|[。！？]+|\n+")  # noqa: RUF001
ABBREVIATION = re.compile(r"\b(?:Mrs?|Ms|Dr|Prof|St|vs|e\.g|i\.e|[A-Z])\.")
LIST_NUMBER = re.compile(r"\s*\d{1,3}\.(?=\s|$)")  # of '1. Take the ferry'
CITATION_MARK = re.compile(r"(?<= )\[(\d{1,3})\]")  # ours: a space stands before it
NUMBERED = re.compile(r"\bNo\.(?=\s+(?:\d|$))")  # 'No. 5', but not 'No. It is not.'
UNSPACED_SCRIPTS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # Chinese and Japanese: no spaces between words
WORD = re.compile(rf"\d+(?:[.,]\d+)*|[{UNSPACED_SCRIPTS}]|[^\W{UNSPACED_SCRIPTS}]+")


def split_sentences(text: str) -> list[str]:
    """Cut behind sentence ends that are followed by white space, and at line ends; joined they are the text.

    The dot of 'Ms. Vale' or 'J. S. Bach' ends none, nor does a list's number.
    """
    within = {found.end() for short in (ABBREVIATION, NUMBERED) for found in short.finditer(text)}
    bounds = [0]
    for found in SENTENCE_END.finditer(text):
        if found.end() not in within and not LIST_NUMBER.fullmatch(text, bounds[-1], found.end()):
            bounds.append(found.end())
    return [text[a:b] for a, b in itertools.pairwise([*bounds, len(text)]) if b > a]


def split_words(text: str) -> list[str]:
    """Words in lower case; 1,684,000 is one word, Chinese and Japanese characters count one by one."""
    return WORD.findall(text.lower())
