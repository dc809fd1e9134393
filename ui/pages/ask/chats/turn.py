"""One turn of a chat: question, finished answer and metrics as plain data."""

from dataclasses import dataclass

from engine.method import MethodInfo
from engine.request import Answer, ChatTurn
from ui.components.method_options import non_default_options
from ui.format import duration, percent


@dataclass(frozen=True, slots=True)
class TurnSource:
    """A passage in the prompt of an answer. `chunk` is its id in the store."""

    rank: int
    document: str
    page: int | None
    chunk: str
    cited: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """What a chat keeps of an answer. Browsers store chats as JSON under these names: do not rename the fields.

    method    its label
    options   those that differ from the method's defaults, as text
    nominal   target recompute ratio; None if the method has none
    realised  actual recompute ratio; None if the request was stopped before prefill ended
    whole     computed with full prefill, so its TTFT is the baseline
    replaced  retried or edited since: kept in the metrics table, hidden in the thread
    scope     ids of the documents searched; empty: all
    best      number of passages requested; 0 if a whole document was used
    """

    question: str
    text: str
    stopped: bool
    method: str
    options: tuple[str, ...]
    nominal: float | None
    realised: float | None
    ttft_ms: float | None
    tokens_per_second: float | None
    passages: tuple[TurnSource, ...] = ()
    context_tokens: int = 0
    whole: bool = False
    replaced: bool = False
    scope: tuple[str, ...] = ()
    best: int = 0

    @classmethod
    def from_answer(cls, answer: Answer, method: MethodInfo) -> "Turn":
        """Return the turn of a finished answer."""
        sources = (TurnSource(each.rank, each.document, each.page, each.chunk, each.cited) for each in answer.sources)
        return cls(
            question=answer.request.question,
            text=answer.text,
            stopped=answer.state == "stopped",
            method=method.label,
            options=tuple(non_default_options(method, answer.request.options)),
            nominal=answer.request.recompute_ratio if method.has_ratio else None,
            realised=None if answer.trace.ttft_ms is None else answer.actual_ratio,
            ttft_ms=answer.trace.ttft_ms,
            tokens_per_second=answer.tokens_per_second,
            passages=tuple(sources),
            context_tokens=answer.context_tokens,
            whole=answer.request.method == "full",
            scope=tuple(answer.request.documents),
            best=0 if answer.request.whole_document else answer.request.passages,
        )

    @property
    def summary(self) -> str:
        """Method and options: 'CacheBlend · Check layer: 3'."""
        return " · ".join((self.method, *self.options, *(["stopped"] if self.stopped else [])))

    @property
    def metrics_line(self) -> str:
        """Summary, actual recompute ratio and TTFT on one line."""
        recomputed = f" · {percent(self.realised)} recomputed" if self.passages and self.realised is not None else ""
        return f"{self.summary}{recomputed} · first token after {duration(self.ttft_ms)}"

    def to_chat_turn(self) -> ChatTurn:
        """Return the turn as conversation history for the engine."""
        return ChatTurn(self.question, self.text, tuple(source.chunk for source in self.passages if source.chunk))
