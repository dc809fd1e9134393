"""One question of this session, kept as plain data after its answer is complete."""

from dataclasses import dataclass

from engine.answer import Answer
from engine.setting import Method
from ui.options import unusual


@dataclass(frozen=True, slots=True)
class Turn:
    """What the list of earlier questions and the table of numbers show of an answer."""

    question: str
    text: str
    stopped: bool
    method: str  # its label
    options: tuple[str, ...]  # what differs from the method's defaults, in words
    nominal: float | None  # None where the method has no ratio
    realised: float
    ttft_ms: float | None
    tokens_per_second: float | None

    @classmethod
    def of(cls, answer: Answer, method: Method) -> "Turn":
        """Return the turn that a finished answer leaves behind."""
        return cls(
            question=answer.request.question,
            text=answer.text,
            stopped=answer.state == "stopped",
            method=method.label,
            options=tuple(unusual(method, answer.request.options)),
            nominal=answer.request.ratio if method.has_ratio else None,
            realised=answer.realised_ratio,
            ttft_ms=answer.trace.ttft_ms,
            tokens_per_second=answer.tokens_per_second,
        )
