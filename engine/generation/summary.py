"""Summaries made of sentences of the passages: a small model leaves out what matters and mixes up what it keeps."""

from collections import Counter
from collections.abc import Sequence

from engine.generation.document_questions import is_question
from engine.generation.ranking import UnitRanker
from engine.generation.section import MAX_SECTION_UNITS
from engine.prompt.overlap import content_stems, content_words
from engine.prompt.pack import PreparedPrompt
from engine.prompt.units import Unit

MAX_SUMMARIZED_PASSAGES = 3
MAX_TOPIC_UNITS, MIN_TOPIC_UNITS = 4, 3  # of the best quotes, so many below one heading make it the topic
NUM_SENTENCES = 6
MIN_CONTENT_WORDS = 4  # of a sentence in a summary
QUESTION_WORD_WEIGHT = 4
NUMBER_WEIGHT = 1.3  # of a sentence with a figure: it states a result, a date or an amount
LEAD_WEIGHT = 1.3  # of the first sentence of a paragraph


def summary_units(prepared: PreparedPrompt, units: Sequence[Unit]) -> list[Unit]:
    """Return the sentences and list items of the best document's first passages that sum it up, in its order."""
    hits = prepared.hits
    passages = [i for i, hit in enumerate(hits) if hit.chunk.document_id == hits[0].chunk.document_id] or [0]
    found = [
        unit
        for unit in units
        if unit.passage in passages[:MAX_SUMMARIZED_PASSAGES]
        and unit.block.kind in ("paragraph", "list")
        and not is_question(unit, prepared.texts)
    ]
    found.sort(key=lambda unit: (hits[unit.passage].chunk.start if hits else unit.passage, unit.start))
    is_lead = [unit.start == unit.block.start for unit in found]
    texts = [unit.text(prepared.texts) for unit in found]
    return [found[index] for index in summarize(texts, is_lead, prepared.standalone_question)]


def topic_units(prepared: PreparedPrompt, ranker: UnitRanker, likely: Sequence[Unit]) -> list[Unit]:
    """Return what is below the heading of most of the best quotes, if the question has a word of it; often none.

    likely  all quotes, the best first
    """
    headings = [ranker.headings[unit] for unit in likely[:MAX_TOPIC_UNITS]]
    heading, count = Counter(headings).most_common(1)[0] if headings else ("", 0)
    is_named = content_stems(heading) & content_stems(prepared.standalone_question)
    if not is_named or count < MIN_TOPIC_UNITS:
        return []
    below = (unit for unit in ranker.units if ranker.headings[unit] == heading)
    return [unit for unit in below if unit.block.kind != "heading"][:MAX_SECTION_UNITS]


def summarize(sentences: Sequence[str], is_lead: Sequence[bool], question: str) -> list[int]:
    """Return the indices of the sentences that make a summary, in order.

    SumBasic (Nenkova and Vanderwende, 2005): a sentence counts as much as its words are frequent, and the words of a
    chosen sentence count less for the next one. Words of the question count more.
    """
    words_of = [content_words(sentence) for sentence in sentences]
    counts = Counter(word for words in words_of for word in words)
    weight = {word: count / counts.total() for word, count in counts.items()}
    for word in content_words(question) & weight.keys():
        weight[word] *= QUESTION_WORD_WEIGHT

    def score(index: int) -> float:
        score = sum(weight[word] for word in words_of[index]) / len(words_of[index]) ** 0.5
        has_number = any(character.isdecimal() for character in sentences[index])
        return score * (NUMBER_WEIGHT if has_number else 1) * (LEAD_WEIGHT if is_lead[index] else 1)

    chosen: list[int] = []
    while len(chosen) < NUM_SENTENCES:
        rest = [i for i, words in enumerate(words_of) if i not in chosen and len(words) >= MIN_CONTENT_WORDS]
        if not rest:
            break
        chosen.append(max(rest, key=score))
        for word in words_of[chosen[-1]]:
            weight[word] **= 2
    return sorted(chosen)
