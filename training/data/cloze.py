"""Questions out of plain text: a sentence with its most telling words left out, to be found in the passage.

Numbers and names are what people look for in their documents, so those are left out. No model writes these questions,
so none is invented; they are plainer than a person's. That many such questions help where few were asked by people is
shown in arXiv:1906.04980.
"""

import re
from dataclasses import replace
from random import Random

from training.data.corpus import Corpus, Paragraph

BLANK = "____"
PER_PARAGRAPH = 3
CLAUSE = 6  # words that a clause has at least, to be asked about by itself
_SENTENCE = re.compile(r"[^.!?\n]{30,300}[.!?](?=\s|$)")
_NUMBER = r"\d[\d,.]*\d|\d+"
_NAME = r"(?<=[a-z,] )[A-Z][\w'-]+(?: (?:of |the )?[A-Z][\w'-]+)*"  # not where a sentence begins
_TELLING = re.compile(f"{_NAME}|{_NUMBER}")


def with_questions(material: Corpus, seed: int) -> Corpus:
    """Return the material, paragraphs without a question having some of ours; which ones is drawn by the seed."""
    return replace(
        material,
        paragraphs=tuple(
            paragraph if paragraph.asked else replace(paragraph, asked=_asked(paragraph, Random(f"{seed} {number}")))
            for number, paragraph in enumerate(material.paragraphs)
        ),
    )


def _asked(paragraph: Paragraph, draw: Random) -> tuple[tuple[str, str], ...]:
    pairs = []
    for sentence in _SENTENCE.findall(paragraph.text):
        telling = [span for span in _TELLING.finditer(sentence) if sentence.count(span.group()) == 1]
        if telling:
            span = draw.choice(telling)
            pairs.append((_question(sentence.strip(), span.group(), draw), span.group().rstrip(".,")))
    return tuple(draw.sample(pairs, min(PER_PARAGRAPH, len(pairs))))


def _question(sentence: str, answer: str, draw: Random) -> str:
    """Leave the answer out of the sentence: a blank, or a question word where it stood and often only its clause."""
    before, after = sentence.split(answer)
    if draw.random() < 0.4:
        return f"What stands in the place of {BLANK}: {before}{BLANK}{after}"
    if draw.random() < 0.6:
        clause = before[before.rfind(", ") + 1 :].lstrip(), after.partition(", ")[0]
        before, after = clause if len(" ".join(clause).split()) >= CLAUSE else (before, after)
    return f"{before.removesuffix('the ')}{_word_for(answer)}{after.rstrip('.!?')}?"


def _word_for(answer: str) -> str:
    if not answer[0].isdigit():
        return "what"
    return "which year" if re.fullmatch(r"(1[5-9]|20)\d\d", answer) else "how many"
