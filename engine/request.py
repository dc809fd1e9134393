"""The request and its answer as plain data: no tensors, so that the UI can import them without torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.trace import Trace


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Consecutive text of a passage that was either recomputed or not; all spans joined are the passage."""

    text: str
    recomputed: bool


@dataclass(frozen=True, slots=True)
class Source:
    """A passage that was used for an answer, in prompt order."""

    rank: int  # from 1; the [1] of a citation
    document: str
    document_id: str
    page: int | None
    similarity: float | None  # cosine; None if only the lexical search matched
    matched_words: bool
    tokens: int
    tier: str  # where its KV came from: 'device', 'host', 'disk', 'computed' (just now), or 'none' (full prefill)
    recomputed_tokens: int
    text_spans: tuple[TextSpan, ...]
    cache_result: str = "none"  # 'exact prefix hit', 'chunk hit', 'miss', or 'none' (full prefill)
    cited: bool = False
    chunk: str = ""  # id of the chunk in the store

    @property
    def text(self) -> str:
        """The passage's text."""
        return "".join(span.text for span in self.text_spans)

    @property
    def reused_tokens(self) -> int:
        """Tokens whose cached KV was used unchanged."""
        return self.tokens - self.recomputed_tokens if self.cache_result in ("exact prefix hit", "chunk hit") else 0


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """An earlier question of the conversation, its answer, and the ids of the chunks in its prompt, in order."""

    question: str
    answer: str
    chunk_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A question and how to answer it. Ranges are checked by `engine.prompt.validate.validate`.

    Parameters
    ----------
    question
        The user's question.
    method
        Name in `engine.STRATEGIES`, for example 'cacheclip', 'cacheblend' or 'full'.
    recompute_ratio
        Fraction of the passages' tokens to recompute, 0 to 1. Methods without a ratio ignore it.
    passages
        How many passages to retrieve (top-k).
    max_new_tokens
        Upper bound on the answer's length in tokens.
    temperature, top_p, seed
        Sampling; temperature 0 is greedy.
    options
        The method's other parameters by name. A missing one takes its default.
    documents
        Ids of the documents to search; empty for all.
    history
        Earlier turns of the conversation, oldest first.
    whole_document
        Use all passages of the one document in `documents`, in order, instead of searching.
    """

    question: str
    method: str = "cacheclip"
    recompute_ratio: float = 0.2
    passages: int = 3
    max_new_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    options: Mapping[str, float | str | bool] = field(default_factory=dict)
    documents: tuple[str, ...] = ()
    history: tuple[ChatTurn, ...] = ()
    whole_document: bool = False


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """How a request would divide the model's context, estimated before retrieval.

    max_tokens            the context shared by prompt and answer
    prefix_tokens         the shared prefix
    passage_tokens        the whole document, or the requested number of passages of average length
    question_tokens       with the history it needs and the template after the passages
    answer_tokens         at most
    num_dropped_passages  passages that would not fit
    document_tokens       all documents to search together; an estimate beyond the first 128 passages
    fits_whole            exactly one document is chosen, and it fits together with question and answer
    """

    max_tokens: int
    prefix_tokens: int
    passage_tokens: int
    question_tokens: int
    answer_tokens: int
    num_dropped_passages: int
    document_tokens: int
    fits_whole: bool


@dataclass
class Answer:
    """A snapshot of an answer in progress; `text` only ever grows.

    Parameters
    ----------
    request
        The request being answered.
    trace
        Its stage timings and TTFT.
    state
        'searching', 'reading' (prefill), 'writing' (decode), 'done' or 'stopped'.
    text
        The answer so far, with citation marks such as [1].
    sources
        The passages in the prompt, in order.
    context_tokens
        Tokens of all passages: the reusable tokens.
    recomputed_tokens
        How many of them were recomputed.
    actual_ratio
        `recomputed_tokens / context_tokens`, or 0 without passages.
    question_tokens
        Tokens after the passages.
    prompt_tokens
        Shared prefix, passages and question.
    max_tokens
        The model's context, shared by prompt and answer.
    num_dropped_passages
        Retrieved passages that did not fit.
    new_tokens
        Tokens generated so far.
    truncated
        The answer ended because it reached `max_new_tokens` or the end of the context.
    tokens_per_second
        Decode speed, without the first token.
    notes
        Sentences for the user, such as that passages did not fit.
    """

    request: Request
    trace: Trace
    state: str = "searching"
    text: str = ""
    sources: tuple[Source, ...] = ()
    context_tokens: int = 0
    recomputed_tokens: int = 0
    actual_ratio: float = 0.0
    question_tokens: int = 0
    prompt_tokens: int = 0
    max_tokens: int = 0
    num_dropped_passages: int = 0
    new_tokens: int = 0
    truncated: bool = False
    tokens_per_second: float | None = None
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Return the downloadable trace: request, metrics, sources without their text, stages."""
        return {
            "question": self.request.question,
            "method": self.request.method,
            "ratio": self.request.recompute_ratio,
            "options": dict(self.request.options),
            "documents": list(self.request.documents),
            "whole": self.request.whole_document,
            "earlier": len(self.request.history),
            "realised_ratio": self.actual_ratio,
            "state": self.state,
            "answer": self.text,
            "context_tokens": self.context_tokens,
            "recomputed_tokens": self.recomputed_tokens,
            "question_tokens": self.question_tokens,
            "prompt_tokens": self.prompt_tokens,
            "max_tokens": self.max_tokens,
            "left_out": self.num_dropped_passages,
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
                    "recomputed": source.recomputed_tokens,
                    "tier": source.tier,
                    "found": source.cache_result,
                    "cited": source.cited,
                }
                for source in self.sources
            ],
            **self.trace.as_dict(),
        }
