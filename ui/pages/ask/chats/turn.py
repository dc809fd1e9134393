"""One question of a chat, kept as plain data after its answer is complete."""

from dataclasses import dataclass

from engine.method import MethodInfo
from engine.request import Answer, ChatTurn
from ui.components.method_options import unusual


@dataclass(frozen=True, slots=True)
class Read:
    """A passage that was read for an answer.

    chunk  its id in the store, which finds its text again
    """

    rank: int
    document: str
    page: int | None
    chunk: str
    cited: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """What the thread and the table of numbers show of an answer.

    method    its label
    options   what differs from the method's defaults, in words
    nominal   None where the method has no ratio
    realised  None where it was stopped before that was known
    whole     everything was computed for it: its time to first token is what no reuse costs
    replaced  asked again or edited since; the table still has it, the thread has not
    scope     ids of the documents that it was looked for in; none: all
    best      how many passages were looked for; 0 where a document was read whole
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
    passages: tuple[Read, ...] = ()
    context_tokens: int = 0
    whole: bool = False
    replaced: bool = False
    scope: tuple[str, ...] = ()
    best: int = 0

    @classmethod
    def of(cls, answer: Answer, method: MethodInfo) -> "Turn":
        """Return the turn that a finished answer leaves behind."""
        return cls(
            question=answer.request.question,
            text=answer.text,
            stopped=answer.state == "stopped",
            method=method.label,
            options=tuple(unusual(method, answer.request.options)),
            nominal=answer.request.ratio if method.has_ratio else None,
            realised=None if answer.trace.ttft_ms is None else answer.realised_ratio,
            ttft_ms=answer.trace.ttft_ms,
            tokens_per_second=answer.tokens_per_second,
            passages=tuple(
                Read(source.rank, source.document, source.page, source.chunk, source.cited) for source in answer.sources
            ),
            context_tokens=answer.context_tokens,
            whole=answer.request.method == "full",
            scope=tuple(answer.request.documents),
            best=0 if answer.request.whole else answer.request.passages,
        )

    @property
    def said(self) -> str:
        """How it was answered, in a few words: 'CacheBlend · Check layer: 3'."""
        return " · ".join((self.method, *self.options, *(["stopped"] if self.stopped else [])))

    def exchange(self) -> ChatTurn:
        """Return what a later question may lean on."""
        return ChatTurn(self.question, self.text, tuple(passage.chunk for passage in self.passages if passage.chunk))
