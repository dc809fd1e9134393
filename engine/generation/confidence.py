"""How likely the best quote is to answer a question, and whether the passages are likely to hold any answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from engine.generation.ranking import RankedUnit, UnitRanker, log_probability
from engine.generation.span_scorer import SpanScores
from engine.prompt.overlap import content_stems
from engine.prompt.question_kind import QuestionKind

# Two logistic regressions on the best quote's log probability, its cosine with the question, the share of the
# question's words in it, its heading and its context, the log probability that no passage answers, and how far the next
# quote is behind, in nats; whether there is an answer does not depend on that. Fitted on every second question with a
# quote or without an answer of all sets of `bench documents` but those held out and the fifth and sixth, and, at half
# weight, of six everyday files that no model was trained on; the first on those that the second does not decline.
# Fitted before ranking's RANK_PENALTY was raised from 0.15 to 0.4, on which how far the next quote is behind depends.
RIGHT_WEIGHTS, RIGHT_BIAS = (0.28, 2.7, 0.2, -0.33, 0.27), -2.73
ANSWERABLE_WEIGHTS, ANSWERABLE_BIAS = (0.11, 2.83, 0.53, -0.99, 0.0), -2.08
BLOCK_BIAS = 0.9  # an answer of more than the best quote is more often right
MAX_MARGIN = 8.0
MIN_ANSWERABLE = 0.4  # below it, the passages do not answer
MIN_BLOCK_ANSWERABLE = 0.3  # the same for an answer of more than the best quote
BLOCK_KINDS = (QuestionKind.LIST, QuestionKind.STEPS, QuestionKind.COMPARISON)


@dataclass(frozen=True, slots=True)
class Confidence:
    """Probabilities that an answer made of the best quote is right, and that there is an answer in the passages."""

    right: float
    answerable: float

    def is_enough(self, kind: QuestionKind) -> bool:
        """Return whether to answer."""
        return self.answerable >= (MIN_BLOCK_ANSWERABLE if kind in BLOCK_KINDS else MIN_ANSWERABLE)


SUMMARY_CONFIDENCE = Confidence(0.5, 1.0)  # no single quote decides: 20 of 41 summaries have all facts they should


def quote_confidence(
    kind: QuestionKind, question: str, ranked: Sequence[RankedUnit], ranker: UnitRanker, scores: SpanScores
) -> Confidence:
    """Return the confidence in the first of some ranked quotes, at least one, or in what is around it."""
    best, *others = ranked
    unit, stems = best.unit, content_stems(question)
    about = f"{ranker.contexts[unit.passage]} {ranker.headings[unit]} {ranker.text(unit)}"
    features = (
        log_probability(scores.mass(unit.passage, unit.start, unit.end)),
        best.similarity,
        len(stems & content_stems(about)) / max(1, len(stems)),
        log_probability(scores.no_answer),
        min(MAX_MARGIN, best.score - others[0].score) if others else MAX_MARGIN,
    )

    def probability(weights: Sequence[float], bias: float) -> float:
        return 1 / (1 + math.exp(-bias - sum(map(mul, weights, features))))

    bias = RIGHT_BIAS + BLOCK_BIAS * (kind in BLOCK_KINDS)
    return Confidence(probability(RIGHT_WEIGHTS, bias), probability(ANSWERABLE_WEIGHTS, ANSWERABLE_BIAS))
