"""What an answer shows a person: plain data, no tensors, so that the page can read it without torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.trace import Trace


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A run of neighbouring tokens with one fate; a passage's pieces joined are its text."""

    text: str
    recomputed: bool


@dataclass(frozen=True, slots=True)
class Source:
    """A passage behind an answer, in prompt order."""

    rank: int  # from 1; the [1] of a citation
    document: str
    document_id: str
    page: int | None
    similarity: float | None  # cosine; None if only the words matched
    matched_words: bool
    tokens: int
    tier: str  # where its KV came from: 'device', 'host', 'disk', 'computed' (just now), or 'none' (full prefill)
    recomputed: int  # tokens given fresh KV
    pieces: tuple[TextSpan, ...]
    found: str = "none"  # 'exact prefix hit', 'chunk hit', 'miss', or 'none' (full prefill)
    cited: bool = False
    chunk: str = ""  # id of the chunk in the store

    @property
    def text(self) -> str:
        """The passage as it was read."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def reused(self) -> int:
        """TextTokenizer whose KV was found and used as it was."""
        return self.tokens - self.recomputed if self.found in ("exact prefix hit", "chunk hit") else 0


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """An earlier question of the same conversation.

    passages  ids of the chunks that were read for it, in prompt order
    """

    question: str
    answer: str
    passages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One question and how to answer it.

    method        a name in engine.strategies.STRATEGIES
    ratio         nominal recompute ratio; methods without a ratio ignore it
    options       the method's other settings by name; what is left out takes its default
    passages      how many passages to read
    temperature   0 is greedy
    documents     ids of the documents to search; empty: all
    earlier       what was asked before it, the oldest first
    whole         read the one document in `documents` from its first passage to its last
    """

    question: str
    method: str = "cacheclip"
    ratio: float = 0.2
    passages: int = 3
    max_new_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    options: Mapping[str, float | str | bool] = field(default_factory=dict)
    documents: tuple[str, ...] = ()
    earlier: tuple[ChatTurn, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """How a request would share out the model's context, as far as it is known before a search. In tokens.

    max_tokens  the context, which prompt and answer share
    prefix      the shared prefix
    passages    what would be read: a whole document, or as many passages of usual length as are asked for
    question    with what it leans on, and the template around it
    answer      at most
    left_out    passages, not tokens: those that would not fit
    documents   all documents to search together; beyond the first 128 passages an estimate
    fits_whole  exactly one document is chosen, and it fits beside question and answer
    """

    max_tokens: int
    prefix: int
    passages: int
    question: int
    answer: int
    left_out: int
    documents: int
    fits_whole: bool


@dataclass
class Answer:
    """One snapshot of a growing answer. `state` is 'searching', 'reading', 'writing', 'done' or 'stopped'.

    Its text only grows: each snapshot's begins with the text of the one before it.
    """

    request: Request
    trace: Trace
    state: str = "searching"
    text: str = ""
    sources: tuple[Source, ...] = ()
    context_tokens: int = 0  # reusable tokens: all passages
    recomputed_tokens: int = 0
    realised_ratio: float = 0.0  # recomputed / reusable tokens; 0 where there are none
    question_tokens: int = 0
    prompt_tokens: int = 0  # shared prefix, passages and question
    max_tokens: int = 0  # the model's context, which prompt and answer share
    left_out: int = 0  # passages found that did not fit
    new_tokens: int = 0
    cut: bool = False  # it ended because its room did: `max_new_tokens`, or the model's context
    tokens_per_second: float | None = None
    notes: tuple[str, ...] = field(default=())  # what a person should know: passages left out, KV not stored

    def as_dict(self) -> dict[str, Any]:
        """Return the downloadable trace: request, figures, sources without their text, stages."""
        return {
            "question": self.request.question,
            "method": self.request.method,
            "ratio": self.request.ratio,
            "options": dict(self.request.options),
            "documents": list(self.request.documents),
            "whole": self.request.whole,
            "earlier": len(self.request.earlier),
            "realised_ratio": self.realised_ratio,
            "state": self.state,
            "answer": self.text,
            "context_tokens": self.context_tokens,
            "recomputed_tokens": self.recomputed_tokens,
            "question_tokens": self.question_tokens,
            "prompt_tokens": self.prompt_tokens,
            "max_tokens": self.max_tokens,
            "left_out": self.left_out,
            "new_tokens": self.new_tokens,
            "tokens_per_second": self.tokens_per_second,
            "notes": list(self.notes),
            "sources": [
                {
                    "rank": source.rank,
                    "document": source.document,
                    "chunk": source.chunk,
                    "page": source.page,
                    "similarity": source.similarity,
                    "tokens": source.tokens,
                    "recomputed": source.recomputed,
                    "tier": source.tier,
                    "found": source.found,
                    "cited": source.cited,
                }
                for source in self.sources
            ],
            **self.trace.as_dict(),
        }
