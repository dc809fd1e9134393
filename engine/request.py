"""The request and its answer as plain data: no tensors, so that the UI can import them without torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.trace import Trace

MIN_TRUSTED_CONFIDENCE = 0.5  # of an answer; below it, the page says to check the source


def needs_check(confidence: float | None) -> bool:
    """Return whether an answer is so uncertain that the user should read the source."""
    return confidence is not None and confidence < MIN_TRUSTED_CONFIDENCE


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Consecutive text of a passage that was either recomputed or not; all spans joined are the passage."""

    text: str
    recomputed: bool


@dataclass(frozen=True, slots=True)
class MarkedPassage:
    """The text of a passage, and what of it is recomputed."""

    text_spans: tuple[TextSpan, ...]
    recomputed_tokens: int


@dataclass(frozen=True, slots=True)
class RatioPreview:
    """What a request would recompute at another ratio, from the scores of its answer; no model runs."""

    passages: tuple[MarkedPassage, ...]  # of each source, in the same order
    ttft_ms: float | None  # predicted; None if the timings of the answer are no basis for it
    expected_kl: float | None = None  # as `Answer.expected_kl`
    is_exact: bool = False  # the cached KV of all passages is exact, so that only a ratio of 1 recomputes any

    @property
    def recomputed_tokens(self) -> int:
        return sum(passage.recomputed_tokens for passage in self.passages)


@dataclass(frozen=True, slots=True)
class Source:
    """A passage that was used for an answer, in prompt order."""

    rank: int  # from 1; the [1] of a citation
    document: str
    document_id: str
    page: int | None
    similarity: float | None  # cosine; None if it was not searched by vector
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
        return "".join(span.text for span in self.text_spans)

    @property
    def reused_tokens(self) -> int:
        """Tokens whose cached KV was used unchanged."""
        return self.tokens - self.recomputed_tokens if self.cache_result in ("exact prefix hit", "chunk hit") else 0


@dataclass(frozen=True, slots=True)
class Quote:
    """A part of a passage that supports an answer: `source.text[start:end]`."""

    rank: int  # of the source, from 1
    start: int
    end: int
    text: str
    document: str = ""  # its name

    def as_dict(self) -> dict[str, Any]:
        return {"rank": self.rank, "document": self.document, "text": self.text}


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
    draft
        Before the method recomputes for a second or longer, answer by direct reuse: `Answer.draft`.
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
    documents: tuple[str, ...] = ()  # a scope, see `Document.is_in`
    history: tuple[ChatTurn, ...] = ()
    whole_document: bool = False
    draft: bool = False


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """How a request would divide the model's context, estimated before retrieval."""

    max_tokens: int  # the context shared by prompt and answer
    prefix_tokens: int  # the shared prefix
    passage_tokens: int  # those that fit of the whole document, or of the requested passages, of average length
    question_tokens: int  # with the history it needs and the template after the passages
    answer_tokens: int  # at most
    num_dropped_passages: int  # passages that would not fit
    document_tokens: int  # all documents to search together; an estimate beyond the first 128 passages
    fits_whole: bool  # exactly one document is chosen, and it fits together with question and answer


@dataclass
class Answer:
    """A snapshot of an answer in progress; `text` only grows, unless it repeats itself and a quote replaces it."""

    request: Request
    trace: Trace  # stage timings and TTFT
    state: str = "searching"  # 'searching', 'reading' (prefill), 'writing' (decode), 'done' or 'stopped'
    text: str = ""  # the answer so far, with citation marks such as [1]
    sources: tuple[Source, ...] = ()  # the passages in the prompt, in order
    context_tokens: int = 0  # tokens of all passages: the reusable tokens
    recomputed_tokens: int = 0  # how many of them were recomputed
    actual_ratio: float = 0.0  # recomputed_tokens / context_tokens, or 0 without passages
    # KL divergence from full prefill in nats, which the model's calibration has at this ratio; None if not calibrated
    expected_kl: float | None = None
    question_tokens: int = 0  # tokens after the passages
    prompt_tokens: int = 0  # shared prefix, passages and question
    max_tokens: int = 0  # the model's context, shared by prompt and answer
    num_dropped_passages: int = 0  # retrieved passages that did not fit
    new_tokens: int = 0  # tokens generated so far
    truncated: bool = False  # the answer ended because it reached `max_new_tokens` or the end of the context
    tokens_per_second: float | None = None  # decode speed, without the first token
    notes: tuple[str, ...] = ()  # sentences for the user, such as that passages did not fit
    quotes: tuple[Quote, ...] = ()  # what supports the answer, or comes closest if there is none
    alternatives: tuple[Quote, ...] = ()  # other quotes that may answer, if the answer needs a check
    is_quoted: bool = False  # the answer consists of the quotes, not of a model's words
    highlight: str = ""  # the words of a quoted sentence or table row that most likely answer
    confidence: float | None = None  # probability that the answer is right; None if it was not estimated
    # Called with a ratio; returns None if the method selects tokens during the forward pass. None before the prefill,
    # and for methods without a ratio. Refers to no model, so an answer can be kept.
    preview: Callable[[float], RatioPreview | None] | None = field(default=None, repr=False, compare=False)
    answered_by: str = ""  # the model of another server and its host; empty for a model of this machine
    engine: str = ""  # of a cluster that answered; empty for this process
    # The answer by direct reuse, while and after it is verified; None if there was no draft.
    draft: "Answer | None" = None

    @property
    def needs_check(self) -> bool:
        """Whether the answer is so uncertain that the user should read the source."""
        return needs_check(self.confidence)

    @property
    def draft_status(self) -> str:
        """Whether the draft is 'unverified', 'unchanged' (so far) or 'changed'; empty if there is none."""
        if self.draft is None:
            return ""
        if self.trace.ttft_ms is None:
            return "unverified"
        is_same = self.draft.text == self.text if self.state == "done" else self.draft.text.startswith(self.text)
        return "unchanged" if is_same else "changed"

    def as_dict(self) -> dict[str, Any]:
        """Return the downloadable trace: request, metrics, sources without their text, stages."""
        draft = self.draft
        return {
            "question": self.request.question,
            "method": self.request.method,
            "ratio": self.request.recompute_ratio,
            "options": dict(self.request.options),
            "documents": list(self.request.documents),
            "whole": self.request.whole_document,
            "earlier": len(self.request.history),
            "realised_ratio": None if self.answered_by else self.actual_ratio,
            "answered_by": self.answered_by,
            "engine": self.engine,
            "expected_kl": self.expected_kl,
            "state": self.state,
            "answer": self.text,
            "draft": draft and {"answer": draft.text, "ttft_ms": draft.trace.ttft_ms, "status": self.draft_status},
            "context_tokens": self.context_tokens,
            "recomputed_tokens": self.recomputed_tokens,
            "question_tokens": self.question_tokens,
            "prompt_tokens": self.prompt_tokens,
            "max_tokens": self.max_tokens,
            "left_out": self.num_dropped_passages,
            "new_tokens": self.new_tokens,
            "tokens_per_second": self.tokens_per_second,
            "notes": list(self.notes),
            "confidence": self.confidence,
            "is_quoted": self.is_quoted,
            "highlight": self.highlight,
            "quotes": [quote.as_dict() for quote in self.quotes],
            "alternatives": [quote.as_dict() for quote in self.alternatives],
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
