"""One question of this session, kept as plain data after its answer is complete."""

from dataclasses import dataclass

from engine.answer import Answer


@dataclass(frozen=True, slots=True)
class Turn:
    """What the list of earlier questions and the table of numbers show of an answer."""

    question: str
    text: str
    stopped: bool
    method: str  # its label
    nominal: float
    realised: float
    ttft_ms: float | None
    tokens_per_second: float | None

    @classmethod
    def of(cls, answer: Answer, method: str) -> "Turn":
        """Return the turn that a finished answer leaves behind."""
        return cls(
            question=answer.request.question,
            text=answer.text,
            stopped=answer.state == "stopped",
            method=method,
            nominal=answer.request.ratio,
            realised=answer.realised_ratio,
            ttft_ms=answer.trace.ttft_ms,
            tokens_per_second=answer.tokens_per_second,
        )
