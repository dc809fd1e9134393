"""Read the questions about the documents, and tell right answers and quotes from wrong ones.

An answer is right if it holds one spelling of everything that is required and nothing that is forbidden; of a list or
a summary a part suffices. Where the documents hold no answer, only declining is right, and nowhere else.
"""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.documents.normalise import contains
from bench.documents.refusals import is_refusal, opens_with_refusal
from bench.errors import InvalidArgument

FILES = Path(__file__).parent / "files"
QUESTIONS = Path(__file__).parent / "questions.jsonl"
TYPES = "fact table list steps yes_no summary comparison followup multi_part refusal chat".split()
ENOUGH = {"list": 0.75, "summary": 0.6}  # share of the required groups; elsewhere all


@dataclass(frozen=True)
class Turn:
    """An earlier question of the conversation and its answer."""

    question: str
    answer: str


@dataclass(frozen=True)
class Question:
    """A question, the documents that answer it, and what a right answer holds."""

    id: str
    split: str  # 'dev', or 'held': never looked at while the system is being tuned
    type: str  # one of TYPES
    language: str  # 'en' or 'de'
    question: str
    documents: tuple[str, ...]  # names in FILES; empty if no document holds the answer
    history: tuple[Turn, ...]  # oldest first
    required: tuple[tuple[str, ...], ...]  # groups of spellings: one of each group must be in the answer
    forbidden: tuple[str, ...]  # none of these may be in it
    quote: str  # part of the sentence or row that supports the answer; may be empty


def load_questions(path: Path = QUESTIONS, split: str | None = None) -> list[Question]:
    """Return the questions of a JSON lines file, of one split or all. Raises InvalidArgument for a damaged file."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path} cannot be read: {error}. Name a folder with files/ and {path.name}.") from error
    questions = [_question(line, f"{path} line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    return [question for question in questions if split in (None, question.split)]


def _question(line: str, where: str) -> Question:
    try:
        row: Any = json.loads(line)
        return Question(
            **{name: row[name] for name in ("id", "split", "type", "language", "question", "quote")},
            documents=tuple(row["documents"]),
            history=tuple(Turn(**turn) for turn in row["history"]),
            required=tuple(map(tuple, row["required"])),
            forbidden=tuple(row["forbidden"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        fields = ", ".join(field.name for field in dataclasses.fields(Question))
        raise InvalidArgument(f"{where} is not a question as JSON with the fields {fields}: {error!r}.") from error


def is_right(question: Question, answer: str) -> bool:
    """Return whether the answer is right."""
    if not answer.strip() or _holds_forbidden(question, answer):
        return False
    if question.type == "refusal":
        return is_refusal(answer)
    if opens_with_refusal(answer):
        return False
    matched = sum(_holds_any(answer, group) for group in question.required)
    return matched >= ENOUGH.get(question.type, 1) * len(question.required)


def _holds_any(text: str, spellings: Iterable[str]) -> bool:
    return any(contains(text, spelling) for spelling in spellings)


def _holds_forbidden(question: Question, answer: str) -> bool:
    """Return whether the answer holds a forbidden string that the question itself does not hold."""
    return _holds_any(answer, (text for text in question.forbidden if not contains(question.question, text)))


def quote_is_right(question: Question, quotes: Sequence[str]) -> bool:
    """Return whether one of the quotes holds the supporting words; without any to find, whether there is no quote."""
    return any(contains(quote, question.quote) for quote in quotes) if question.quote else not quotes


def expected_calibration_error(confidences: Sequence[float], correct: Sequence[bool], bins: int = 10) -> float:
    """Return the mean distance of confidence and share of right answers over bins of equal width, weighted by size.

    Confidences are in [0, 1]; see Naeini et al. 2015 and Guo et al. (arXiv:1706.04599). Without answers it is 0.
    """
    binned: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in zip(confidences, correct, strict=True):
        binned.setdefault(min(int(confidence * bins), bins - 1), []).append((confidence, right))
    gaps = (abs(sum(confidence - right for confidence, right in pairs)) for pairs in binned.values())
    return sum(gaps) / len(confidences) if binned else 0.0
