"""Judge which list of the passages a question asks for: the items of a list, or the steps of a procedure."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from engine.generation.ranking import EXACT_WEIGHT, RankedUnit, UnitRanker, score_quote
from engine.generation.section import MAX_SECTION_UNITS
from engine.generation.span_scorer import SpanScores
from engine.prompt.answer_type import EXCLUSION, expected_content
from engine.prompt.overlap import content_stems
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind
from engine.prompt.tables.columns import Cells
from engine.prompt.units import Unit
from store.markdown import Block

MIN_LIST_ITEMS = 2
NUM_BEST = 5  # quotes, among which are items of a list that answers although the question asks for none
MAX_LIST_DISTANCE = 2.0  # nats that such a list is behind the best quote
MAX_PROCEDURE_CHARS = 900  # of a paragraph that is quoted as the steps of a procedure
MIN_INSTRUCTION_WORDS = 2
WORD = re.compile(r"[^\W\d_]{3,}")
MAX_EMBEDDED_CHARS = 600  # of a list and the line above it
# The weights were chosen on the same questions as those of engine.generation.evidence.
SIMILARITY_WEIGHT = 16.0  # nats per unit of the cosine between the embeddings of question and list
TITLE_WEIGHT = 3.0  # nats for a list below a heading whose words are all in the question
NUMBERED_WEIGHT = 3.5  # nats for a numbered list as the steps of a procedure
ENUMERATION = re.compile(r",[^,;]{2,80},? (?:and|or|und|oder|sowie) |;[^;]{2,120};")  # 'a, b and c'
PART = r"(?:chapter|section|page|kapitel|abschnitt|seite) "
POINTER = re.compile(
    rf"\b(?:see|siehe) (?:the |die )?(?:(?:{PART})?\d|steps|instructions|below|schritte|anleitung|unten)|\({PART}\d",
    re.I,
)
QUESTION = re.compile(r"\?(?:\W|$)")  # of an FAQ, whose answers are no steps
NUMBER = re.compile(r"\s*\(?\d")
COUNTS = ("two", "three", "four", "five", "six", "seven")
COUNTED = re.compile(
    rf"\b(?:has|have|had|are|were) ({'|'.join(COUNTS)}) (?:[\w-]+ )?"
    r"(?!(?:days|weeks|months|years|hours|minutes|floors|rooms|members|employees|attempts|children)\b)\w+s\.$",
    re.I,
)
NUMBERED_TEXT = re.compile(  # steps within a paragraph
    r"(?:^|[.:;!)] )1[.)] .{3,300}?[.;:!)] 2[.)] .{3,300}?[.;:!)] 3[.)] ", re.S
)


def judged_lists(
    kind: QuestionKind, prepared: PreparedPrompt, ranker: UnitRanker, scores: SpanScores
) -> list[tuple[float, int, Block]]:
    """Return how well each list answers in nats, its passage and its block; for steps, short paragraphs too.

    A list is judged together with its heading and the line above it; steps with the whole paragraph above them, which
    is then no procedure of its own.
    """
    question = prepared.standalone_question
    overlaps, asked = ranker.overlaps(question), content_stems(question)
    judged: list[tuple[float, int, Block]] = []
    texts = []
    for units, above in _lists(kind, ranker.units, prepared.texts):
        passage, block = units[0].passage, units[0].block
        start = above[0].start if above else units[0].start
        probability = scores.mass(passage, start, block.end)
        overlap = max(overlaps.get(unit, 0.0) for unit in (*above, *units))
        heading, text = ranker.headings[units[0]], prepared.texts[passage]
        title = content_stems(heading)
        has_numbers = (
            NUMBER.match(text, block.start) if block.kind == "list" else NUMBERED_TEXT.search(text[start : block.end])
        )
        is_numbered = kind is QuestionKind.STEPS and bool(has_numbers)
        introduction = f"{heading}\n{text[start : block.start]}"
        is_exclusion = EXCLUSION.search(question) and EXCLUSION.search(introduction)
        bonus = (
            EXACT_WEIGHT * bool(is_exclusion)
            + NUMBERED_WEIGHT * is_numbered
            + TITLE_WEIGHT * (bool(title) and title <= asked)
        )
        judged.append((score_quote(probability, overlap, passage) + bonus, passage, block))
        texts.append(text_of_list(heading, text[start : block.end]))
    cosines = ranker.cosines(question, texts)
    return [
        (score + SIMILARITY_WEIGHT * cosine, passage, block)
        for (score, passage, block), cosine in zip(judged, cosines, strict=True)
    ]


def likely_list(
    prepared: PreparedPrompt, ranker: UnitRanker, scores: SpanScores, ranked: Sequence[RankedUnit]
) -> tuple[int, Block] | None:
    """Return the list, as its passage and block, that answers a question which does not ask for one; often none.

    'What does it recommend?': at least two of the best quotes are items of the list, and it is nearly as likely as the
    best. Of 474 questions about a fact (tuning sets of 2026-11) 7 gained an answer by this, and none lost it.
    """
    items = Counter((each.unit.passage, each.unit.block) for each in ranked[:NUM_BEST])
    likely = {key for key, count in items.items() if key[1].kind == "list" and count >= MIN_LIST_ITEMS}
    if not likely or expected_content(prepared.original_question) is not None:
        return None
    lists = judged_lists(QuestionKind.LIST, prepared, ranker, scores)
    score, passage, block = max(lists, key=itemgetter(0))
    is_likely = (passage, block) in likely and score > ranked[0].score - MAX_LIST_DISTANCE
    return (passage, block) if is_likely else None


def announced(ranker: UnitRanker, quote: Unit, is_list: bool) -> list[tuple[int, int, int]]:
    """Return where the list or lines are that a quote announces by a colon, or a caption and its rows.

    For a list also the sentences that it counts: 'The study has four limitations.' Each is a passage, a start and an
    end.
    """
    if rows := ranker.rows_below(quote)[:MAX_SECTION_UNITS]:
        return [(unit.passage, unit.start, unit.end) for unit in (quote, *rows)]
    text, below = ranker.text(quote), ranker.units[ranker.units.index(quote) + 1 :]
    if is_list and (count := COUNTED.search(text)):
        number = COUNTS.index(count[1].lower()) + 2
        counted = [each for each in below[:number] if (each.passage, each.block) == (quote.passage, quote.block)]
        return [(quote.passage, quote.start, counted[-1].end)] if len(counted) == number else []
    if not text.endswith(":"):
        return []
    has_list = bool(below) and (below[0].block.kind == "list" or below[0].block == below[:2][-1].block != quote.block)
    return [(each.passage, each.block.start, each.block.end) for each in below[:1] if has_list]


def enumerates(sentence: str) -> bool:
    """Return whether a sentence says several things, as a list does."""
    return bool(ENUMERATION.search(sentence))


def says_what_to_do(row: Cells) -> bool:
    """Return whether a table row has an instruction: words, and not only where the steps are, 'see chapter 6'."""
    has_words = any(len(WORD.findall(value)) >= MIN_INSTRUCTION_WORDS for _, value in row[1:])
    return has_words and not any(POINTER.search(value) for _, value in row)


def text_of_list(heading: str, text: str) -> str:
    """Return what is embedded of a list with the line above it, below its heading unless that is the line."""
    return (text if heading in text else f"{heading}\n{text}")[:MAX_EMBEDDED_CHARS]


def _lists(kind: QuestionKind, units: list[Unit], texts: Sequence[str]) -> Iterator[tuple[list[Unit], list[Unit]]]:
    """Yield the units of each list, or paragraph with a procedure, and those above it that introduce it."""
    is_steps = kind is QuestionKind.STEPS
    blocks = [list(group) for _, group in groupby(units, key=lambda unit: (unit.passage, unit.block))]
    above: list[Unit] = []
    for own, below in zip(blocks, [*blocks[1:], []], strict=True):
        block = own[0].block
        introduces = bool(below) and (below[0].passage, below[0].block.kind) == (own[0].passage, "list")
        num_questions = sum(bool(QUESTION.search(unit.text(texts))) for unit in own) if is_steps else 0
        is_list = block.kind == "list" and len(own) >= MIN_LIST_ITEMS and 2 * num_questions < len(own)
        is_short = len(own) > 1 and block.end - block.start <= MAX_PROCEDURE_CHARS
        if is_list or (is_steps and block.kind == "paragraph" and is_short and not introduces):
            yield own, [unit for unit in above if unit.passage == own[0].passage]
        above = own if is_steps and block.kind == "paragraph" and introduces else own[-1:]
