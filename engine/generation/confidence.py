"""How likely an answer made of the best quote is right, and whether that is enough to answer."""

import math
from operator import mul

from engine.generation.overlap import content_stems
from engine.generation.ranking import RankedUnit, UnitRanker, log_probability
from engine.generation.span_scorer import SpanScores
from engine.prompt.question_kind import QuestionKind

# Logistic regression on the best quote's log probability, its cosine with the question, the share of the question's
# words in it and its context, and the log probability that no passage answers. Fitted on the tuning questions of
# `bench documents`: its dev half, bench/documents/more and bench/documents/third.
WEIGHTS = (0.41, 2.6, 1.6, -0.12)
BIAS = -1.04
MIN_CONFIDENCE = 0.25  # below it, the passages do not answer
MIN_BLOCK_CONFIDENCE = 0.12  # the same for an answer of more than the best quote
BLOCK_KINDS = (QuestionKind.LIST, QuestionKind.STEPS, QuestionKind.COMPARISON)


def quote_confidence(question: str, best: RankedUnit, ranker: UnitRanker, scores: SpanScores) -> float:
    """Return the probability that the best quote answers a question."""
    unit = best.unit
    stems = content_stems(question)
    shared = stems & content_stems(f"{ranker.contexts[unit.passage]} {ranker.text(unit)}")
    features = (
        log_probability(scores.mass(unit.passage, unit.start, unit.end)),
        best.similarity,
        len(shared) / max(1, len(stems)),
        log_probability(scores.no_answer),
    )
    return 1 / (1 + math.exp(-BIAS - sum(map(mul, WEIGHTS, features))))


def is_enough(kind: QuestionKind, confidence: float) -> bool:
    """Return whether to answer; a summary needs no single quote."""
    return kind is QuestionKind.SUMMARY or confidence >= (
        MIN_BLOCK_CONFIDENCE if kind in BLOCK_KINDS else MIN_CONFIDENCE
    )
