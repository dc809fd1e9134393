"""Score sentences by the words that they share with the question, rare words counting more."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from engine.prompt.followups import CLITIC, STOP_WORD, YEAR
from engine.text import split_words
from store.german import is_german

PASSAGE_WEIGHT = 0.5  # weight of a question word elsewhere in the passage, relative to one in the sentence
NAME = re.compile(r"(?<=[\w,] )[a-z]?[A-Z][a-z]\w*")
DATE_WORD = re.compile(r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec")
NUMBER = re.compile(r"(?<!\w)\d+(?:[.,]\d+)*")
LIST_NUMBER = re.compile(r"^\s*\d+[.)] ", re.M)
ABBREVIATION = re.compile(r"\b[A-Z]{2,5}\b")
MIN_WRITTEN_OUT = 3  # letters of an abbreviation in a passage whose words a question writes out
MIN_PART = 4  # letters of a part of a German compound
STEM_LENGTH = 6  # words that share so many first letters count as forms of the same word
CHOICE_WORDS = {"or", "oder"}  # between things that the question names: one of them is the answer


def sentence_scores(sentences_of: Sequence[Sequence[str]], question: str) -> list[float]:
    """Return each sentence's idf-weighted question words, in nats, plus its passage's times PASSAGE_WEIGHT."""
    words_of = [[split_words(sentence) for sentence in sentences] for sentences in sentences_of]
    stems_of = [[set(map(stem, words)) for words in of_passage] for of_passage in words_of]
    question_words = [word for word in split_words(CLITIC.sub("", question.lower())) if not STOP_WORD.fullmatch(word)]
    question_stems = set(map(stem, question_words))
    for sentence, stems in zip(chain(*sentences_of), chain(*stems_of), strict=True):
        stems |= _abbreviated(sentence, question)
    if is_german(question):
        known = set().union(*(stems for of_passage in stems_of for stems in of_passage))
        for of_passage, all_stems in zip(words_of, stems_of, strict=True):
            for words, stems in zip(of_passage, all_stems, strict=True):
                stems |= question_stems & _compound_parts(words)
        question_stems |= known & _compound_parts(question_words)
    sentence_stems = [stems for of_passage in stems_of for stems in of_passage]
    frequency = Counter(chain.from_iterable(sentence_stems))
    weights = {each: math.log(1 + len(sentence_stems) / (1 + frequency[each])) for each in question_stems}

    def overlap(stems: set[str]) -> float:
        return sum(weight for each, weight in weights.items() if each in stems)

    scores = []
    for all_stems in stems_of:
        passage_score = PASSAGE_WEIGHT * overlap(set().union(*all_stems))
        scores += [overlap(stems) + passage_score for stems in all_stems]
    return scores


def _abbreviated(sentence: str, question: str) -> set[str]:
    """Return the stems of what a question abbreviates and a sentence writes out, or the reverse: 'CFO'."""
    found = set[str]()
    for abbreviation in ABBREVIATION.findall(question):
        if re.search(r"\b" + r" (?:of |and |for |the )?".join(rf"{letter}[a-z]+" for letter in abbreviation), sentence):
            found.add(stem(abbreviation.lower()))
    words = split_words(question)
    initials = "".join(word[0] for word in words)
    for abbreviation in ABBREVIATION.findall(sentence):
        start = initials.find(abbreviation.lower())
        if len(abbreviation) >= MIN_WRITTEN_OUT and start >= 0:
            found |= set(map(stem, words[start : start + len(abbreviation)]))
    return found


def content_words(text: str) -> set[str]:
    """Return the words that say what a text is about."""
    return {word for word in split_words(text.replace("_", " ")) if not STOP_WORD.fullmatch(word)}


def content_stems(text: str) -> set[str]:
    """Return the stems of a text's content words."""
    return set(map(stem, content_words(text)))


def stem(word: str) -> str:
    """Return the first letters of a word without a plural s, or a number unchanged."""
    return word if word[0].isdecimal() else word[:STEM_LENGTH].removesuffix("s")


def _compound_parts(words: Iterable[str]) -> set[str]:
    """Return the stems of what words start and end with: a German compound is about its parts."""
    return {
        stem(part)
        for word in words
        for cut in range(1, len(word))
        for part in (word[:cut], word[cut:])
        if len(part) >= MIN_PART
    }


def missing_names(question: str, texts: Sequence[str]) -> list[str]:
    """Return the names and years of an English or German question that none of the texts contains.

    A name is a word inside a sentence that starts with a capital; in German every noun does, so only years count there.
    """
    stems = {stem(word) for text in texts for word in split_words(text.replace("_", " "))}
    found = YEAR.findall(question)
    if not is_german(question):
        found += [word for word in NAME.findall(question) if not DATE_WORD.match(word)]
    return [word for word in found if stem(word.lower()) not in stems]


def unsupported_words(answer: str, texts: Sequence[str]) -> list[str]:
    """Return the numbers and names of an answer that none of the texts contains, each once.

    Separators inside a number do not count: 1,684 is 1684. The numbers of list items are not checked.
    """
    known = {_digits(number) for text in texts for number in NUMBER.findall(text)}
    numbers = [number for number in NUMBER.findall(LIST_NUMBER.sub("", answer)) if _digits(number) not in known]
    return list(dict.fromkeys([*numbers, *missing_names(answer, texts)]))


def _digits(number: str) -> str:
    return number.replace(",", "").replace(".", "")
