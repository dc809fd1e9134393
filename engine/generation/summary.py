"""Summaries made of sentences of the passages: a small model leaves out what matters and mixes up what it keeps."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from engine.generation.document_questions import ends_as_question
from engine.generation.ranking import UnitRanker
from engine.generation.section import MAX_SECTION_UNITS, SENTENCE_END
from engine.prompt.named_documents import ALL_DOCUMENTS
from engine.prompt.overlap import content_stems, content_words, stem
from engine.prompt.pack import PreparedPrompt
from engine.prompt.titles import Title, parse_title
from engine.prompt.units import Unit
from store.german import is_german
from store.markdown import parse_row

MAX_SUMMARIZED_PASSAGES = 3
MAX_TOPIC_UNITS, MIN_TOPIC_UNITS = 4, 3  # of the best quotes, so many below one heading make it the topic
TERM_CELLS = 2  # of a table row with a term: its name and what it says
NUM_OPENING, NUM_SENTENCES = 5, 4  # at the start of the document, and of all of it
DOCUMENT_KIND = re.compile(
    r"\b(?:document|file|report|letter|release|article|minutes|manual|policy|contract|lease|agreement|handbook|e-?mails?"
    r"|presentation|slides|workbook|spreadsheet|dokument|datei|bericht|brief|protokoll|vertrag|handbuch|pr\u00e4sentation)\b",
    re.I,
)
FORMALITY = re.compile(  # of letters and contracts, which says nothing about their subject
    r"\W*(?:(?:(?:dear|sehr geehrte[rs]?|liebe[rs]?)\b[^.!?]{1,60}"
    r"|(?:yours|kind regards|best wishes|mit freundlichen)\b.{0,60})$"
    r"|(?:thank you|(?:vielen|herzlichen) dank) f(?:or|\u00fcr)\b|as promised, here\b|please (?:read .{0,40}carefully"
    r"|do not hesitate)\b|we hope (?:this|you)\b|this agreement is (?:dated|made)\b.*\bbelow\b)",
    re.I | re.S,
)
MAX_TITLE_PLACE = 8  # among the units of a passage
MIN_CONTENT_WORDS = 4  # of a sentence in a summary
QUESTION_WORD_WEIGHT = 4
NUMBER_WEIGHT = 1.3  # of a sentence with a figure: it states a result, a date or an amount
LEAD_WEIGHT = 1.3  # of the first sentence of a paragraph


def summary_units(prepared: PreparedPrompt, ranker: UnitRanker) -> list[Unit]:
    """Return what sums up the best document, in its order, or all documents.

    Of a document these are its title, the sentences or list items that it opens with, and others of its first passages;
    of all documents, the title of each and the sentence it opens with.
    """
    hits, units = prepared.hits, ranker.units
    documents = {hit.chunk.document_id for hit in hits}
    if len(documents) > 1 and ALL_DOCUMENTS.search(prepared.original_question):
        return [unit for passage in range(len(hits)) for unit in _opening(prepared, units, passage)]
    passages = [i for i, hit in enumerate(hits) if hit.chunk.document_id == hits[0].chunk.document_id] or [0]
    found = [
        unit
        for unit in units
        if unit.passage in passages[:MAX_SUMMARIZED_PASSAGES]
        and (unit.block.kind in ("paragraph", "list") or _is_term(unit, prepared))
        and not ends_as_question(unit.text(prepared.texts))
        and not FORMALITY.match(unit.text(prepared.texts))
    ]
    found.sort(key=lambda unit: (hits[unit.passage].chunk.start if hits else unit.passage, unit.start))
    whole = [unit for unit in found if unit.block.kind != "paragraph" or SENTENCE_END.search(unit.text(prepared.texts))]
    found = whole or found
    is_lead = [unit.start == unit.block.start for unit in found]
    texts = [unit.text(prepared.texts) for unit in found]
    chosen = set(summarize(texts, is_lead, prepared.standalone_question))
    first = found[0].passage if found else 0
    if hits and hits[first].chunk.start:
        return [found[index] for index in sorted(chosen)]
    opening = [index for index, unit in enumerate(found) if unit.passage == first and _says_enough(texts[index])]
    chosen.update(opening[:NUM_OPENING])
    return [*_title(prepared, units, first), *(found[index] for index in sorted(chosen))]


def format_sections(prepared: PreparedPrompt) -> str:
    """Return the line before a summary with the titles of the document's sections, or '' if these are not known."""
    name = "Abschnitte" if any(map(is_german, prepared.texts)) else "Sections"
    return f"{name}: {'; '.join(prepared.sections)}\n" if prepared.sections else ""


def topic_units(prepared: PreparedPrompt, ranker: UnitRanker, likely: Sequence[Unit]) -> list[Unit]:
    """Return what is below the heading of most of the best quotes, if the question has a word of it; often none.

    None if the question is about a document by its title or kind, such as a report, unless that is a section's name, or
    about all documents.

    likely  all quotes, the best first
    """
    if ALL_DOCUMENTS.search(prepared.original_question):
        return []
    headings = [ranker.headings[unit] for unit in likely[:MAX_TOPIC_UNITS]]
    heading, count = Counter(headings).most_common(1)[0] if headings else ("", 0)
    question, title = prepared.standalone_question, content_stems(heading)
    is_of_document = any(stem(kind.lower()) not in title for kind in DOCUMENT_KIND.findall(question))
    if not title & content_stems(question) or count < MIN_TOPIC_UNITS or is_of_document:
        return []
    if heading in _document_titles(prepared, ranker):
        return []
    below = (unit for unit in ranker.units if ranker.headings[unit] == heading)
    return [unit for unit in below if unit.block.kind != "heading"][:MAX_SECTION_UNITS]


def _document_titles(prepared: PreparedPrompt, ranker: UnitRanker) -> set[str]:
    """Return the first headings of documents that stand above all others of their passage."""
    titles = set[str]()
    for passage, hit in enumerate(prepared.hits):
        units = [unit for unit in ranker.units if unit.passage == passage and unit.block.kind == "heading"]
        first, *others = [parse_title(ranker.text(unit)) for unit in units] or [Title("")]
        if not hit.chunk.start and others and all(first.level < other.level for other in others):
            titles.add(first.text)
    return titles


def _opening(prepared: PreparedPrompt, units: Sequence[Unit], passage: int) -> list[Unit]:
    """Return the title of a passage, if it starts with one, and its first sentence, or whatever comes first."""
    body = [unit for unit in units if unit.passage == passage and unit.block.kind != "heading"]
    sentences = (unit for unit in body if _says_enough(unit.text(prepared.texts)))
    return [*_title(prepared, units, passage), *([next(sentences, body[0])] if body else [])]


def _is_term(unit: Unit, prepared: PreparedPrompt) -> bool:
    """Return whether a unit is a row such as '| Item: Rent | Details: 900 |' at the start of a document."""
    is_opening = not prepared.hits or not prepared.hits[unit.passage].chunk.start
    return is_opening and len(parse_row(unit.text(prepared.texts)) or ()) == TERM_CELLS


def _says_enough(sentence: str) -> bool:
    return len(content_words(sentence)) >= MIN_CONTENT_WORDS


def _title(prepared: PreparedPrompt, units: Sequence[Unit], passage: int) -> list[Unit]:
    """Return the heading that a passage starts with, without its mark; a line or two, as a date, may precede it."""
    for unit in [unit for unit in units if unit.passage == passage][:MAX_TITLE_PLACE]:
        if unit.block.kind == "heading":
            text = unit.text(prepared.texts)
            return [replace(unit, start=unit.start + max(0, text.find(parse_title(text).text)))]
    return []


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
