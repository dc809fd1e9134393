"""Make cloze questions from plain text: a number or name is left out of a sentence, to be found in the passage.

Cloze questions are known to help if few human ones exist (arXiv:1906.04980).
"""

import re
from dataclasses import replace
from random import Random

from training.data.corpus import Corpus, Paragraph

BLANK = "____"
MAX_QUESTIONS = 3  # per paragraph
MIN_CLAUSE_WORDS = 6  # of a clause that makes a question by itself
_SENTENCE = re.compile(r"[^.!?\n]{30,300}[.!?](?=\s|$)")
_NUMBER = r"\d[\d,.]*\d|\d+"
_NAME = r"(?<=[a-z,] )[A-Z][\w'-]+(?: (?:of |the )?[A-Z][\w'-]+)*"  # not at the start of a sentence
_ANSWER = re.compile(f"{_NAME}|{_NUMBER}")


def add_cloze_questions(corpus: Corpus, seed: int) -> Corpus:
    """Return the corpus with cloze questions for the paragraphs that have no questions."""
    paragraphs = []
    for index, paragraph in enumerate(corpus.paragraphs):
        questions = paragraph.questions or _cloze_questions(paragraph, Random(f"{seed} {index}"))
        paragraphs.append(replace(paragraph, questions=questions))
    return replace(corpus, paragraphs=tuple(paragraphs))


def _cloze_questions(paragraph: Paragraph, rng: Random) -> tuple[tuple[str, str], ...]:
    pairs = []
    for sentence in _SENTENCE.findall(paragraph.text):
        answers = [match.group() for match in _ANSWER.finditer(sentence) if sentence.count(match.group()) == 1]
        if answers:
            answer = rng.choice(answers)
            pairs.append((_cloze_question(sentence.strip(), answer, rng), answer.rstrip(".,")))
    return tuple(rng.sample(pairs, min(MAX_QUESTIONS, len(pairs))))


def _cloze_question(sentence: str, answer: str, rng: Random) -> str:
    """Replace the answer by a blank, or by a question word; in the latter case often keep only its clause."""
    before, after = sentence.split(answer)
    if rng.random() < 0.4:
        return f"What stands in the place of {BLANK}: {before}{BLANK}{after}"
    if rng.random() < 0.6:
        clause = before[before.rfind(", ") + 1 :].lstrip(), after.partition(", ")[0]
        if len(" ".join(clause).split()) >= MIN_CLAUSE_WORDS:
            before, after = clause
    return f"{before.removesuffix('the ')}{_question_word(answer)}{after.rstrip('.!?')}?"


def _question_word(answer: str) -> str:
    if not answer[0].isdigit():
        return "what"
    return "which year" if re.fullmatch(r"(1[5-9]|20)\d\d", answer) else "how many"
