"""One condition of a question on the rows of a table."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from engine.prompt.tables.compared_columns import ComparedColumns


@dataclass(frozen=True, slots=True)
class Condition:
    """What a question says about the values of a column."""

    header: str
    text: str  # for the user, such as 'open', 'over 500' or 'March 2025'
    is_met: Callable[[str], bool]
    words: str  # of the question that it explains
    is_denied: bool = False  # whether the question says what is not the case
    compared: ComparedColumns | None = None  # instead of `is_met`

    def __str__(self) -> str:
        return f"{self.header}: {self.text}"

    def is_met_by(self, row: Mapping[str, str]) -> bool:
        return self.compared.is_met(row) if self.compared else self.is_met(row.get(self.header, ""))


def without(question: str, texts: Iterable[str]) -> str:
    """Return a question without these parts."""
    for text in texts:
        question = question.replace(text, " ")
    return question
