"""Judge which cell of a table row answers a question."""

import math
import re
from operator import itemgetter

from engine.generation.quotes import CELL
from engine.generation.ranking import EXACT_WEIGHT, TYPE_PENALTY, UnitRanker, log_probability
from engine.generation.span_scorer import Span, SpanScores
from engine.prompt.answer_type import MONEY
from engine.prompt.followups import relative_year
from engine.prompt.overlap import content_stems
from engine.prompt.pack import PreparedPrompt
from engine.prompt.tables.amounts import codes, names_money
from engine.prompt.tables.columns import named_header, requested_header
from engine.prompt.tables.limits import is_in_range
from engine.prompt.tables.period_columns import period_column
from engine.prompt.units import Unit

# The weights were chosen on the same questions as those of engine.generation.evidence.
HEADER_WEIGHT = 2.0  # nats per word that the header of a cell shares with the question, and its value does not
MONEY_WEIGHT = 4.0  # nats for a cell with a currency, or below a header such as 'Amount', for questions about money
LIMITS = (  # said in other words by a question ('What is the most that ...?') and a header ('Highest charge')
    re.compile(r"\b(?:most|highest|max(?:imum|imal\w*)?|h\u00f6chst\w*)\b", re.I),
    re.compile(r"\b(?:least|lowest|min(?:imum|imal\w*)?|mindest\w*|niedrigst\w*)\b", re.I),
)
SIMILARITY_WEIGHT = 5.0  # nats per unit of the cosine between the embeddings of question and cell


def likely_cells(
    row: Unit, prepared: PreparedPrompt, ranker: UnitRanker, scores: SpanScores
) -> list[tuple[float, Span]]:
    """Return the best span of each cell of a table row with its log-probability in nats, the best cell first.

    A cell is scored by its span's probability, and by the words and the meaning that it shares with the question.
    """
    text, question = ranker.text(row), prepared.original_question
    cells = [
        (span, match[1] or "", match[0])
        for match in CELL.finditer(text)
        for span in scores.likely_between(row.passage, row.start + match.start(2), row.start + match.end(2))[:1]
    ]
    stems = content_stems(f"{question} {relative_year(prepared.standalone_question)}")
    headers = [header for _, header, _ in cells]
    requested = requested_header(question, headers)
    named = period_column(question, headers) or named_header(question, headers)
    is_about_money = bool(MONEY.search(question))
    complete = [header for header in headers[1:] if (words := content_stems(header)) and words <= stems]
    if named is None and len(complete) == 1 and not is_about_money:  # the only column that the question names
        named = complete[0]
    cosines = ranker.cosines(question, [cell for *_, cell in cells])
    judged = []
    for (span, header, cell), cosine in zip(cells, cosines, strict=True):
        is_limit = any(limit.search(header) and limit.search(question) for limit in LIMITS)
        in_header = len(stems & content_stems(header)) + (header == requested) + is_limit
        in_value = len(stems & content_stems(cell.removeprefix(header)))
        names_row = bool(codes(cell) & codes(question)) or is_in_range(question, [(header, cell)])
        score = log_probability(span.probability)
        score += HEADER_WEIGHT * (in_header - in_value) + SIMILARITY_WEIGHT * cosine
        score += MONEY_WEIGHT * (is_about_money and names_money(cell))
        judged.append((score + EXACT_WEIGHT * (header == named) - TYPE_PENALTY * names_row, span))
    total = math.log(sum(math.exp(score) for score, _ in judged)) if judged else 0.0
    return [(score - total, span) for score, span in sorted(judged, key=itemgetter(0), reverse=True)]
