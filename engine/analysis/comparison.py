"""Result of comparing methods on one question. Torch-free, so that the UI can import it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from engine.trace import Stage

MAX_VARIANTS = 64
MAX_REPEATS = 9


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """One question and the variants to run: each method at each ratio, or once if the method has no ratio."""

    question: str
    methods: tuple[str, ...] = ("full", "cacheclip", "cacheblend", "direct")  # full prefill always runs first
    ratios: tuple[float, ...] = (0.2,)  # nominal, in [0, 1]
    passages: int = 3
    repeats: int = 1  # TTFT measurements per variant
    max_new_tokens: int = 96  # per answer; enough to see where answers diverge
    documents: tuple[str, ...] = ()  # ids of the documents to search; empty: all


@dataclass(frozen=True, slots=True)
class Outcome:
    """Cost and quality of one variant, relative to full prefill."""

    key: str  # unique name: 'cacheclip@0.2', 'epic'
    method: str
    label: str
    ratio: float | None  # nominal; None if the method has none
    actual_ratio: float
    recomputed_tokens: int
    ttfts_ms: tuple[float, ...]  # one per repeat; each includes `Comparison.search_ms`
    full_ms: float  # median TTFT of full prefill
    ideal_ms: float  # full prefill's TTFT scaled by the recomputed rows' share of its operations: a lower bound
    kl: float  # KL(full || variant) of the first token, nats
    top1: bool  # whether the first token's most likely value is the same
    answer_kl: float  # this and the next: means over the first tokens of full prefill's answer
    answer_top1: float
    read_bytes: Mapping[str, int]  # KV bytes read from each tier
    reused_bytes: int  # KV bytes of passage tokens that were not recomputed
    stages: tuple[Stage, ...]  # of the first run
    answer: str  # decoded greedily, with [n] after text that passage n supports
    cited: tuple[int, ...]
    new_tokens: int
    recomputed_texts: tuple[str, ...] = ()  # the passages' text that was recomputed, in prompt order; not if all was

    @property
    def ttft_ms(self) -> float:
        return median(self.ttfts_ms)

    @property
    def relative_ttft(self) -> float:
        return self.ttft_ms / self.full_ms

    def with_ttft(self, ttft_ms: float) -> "Outcome":
        return replace(self, ttfts_ms=(*self.ttfts_ms, ttft_ms))

    def relative_to(self, full_ms: float) -> "Outcome":
        """Return the outcome for an updated TTFT of full prefill."""
        return replace(self, full_ms=full_ms, ideal_ms=self.ideal_ms * full_ms / self.full_ms)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data under the keys that API clients read."""
        plain = _with_lists(self)
        plain["realised_ratio"] = plain.pop("actual_ratio")
        plain["floor_ms"] = plain.pop("ideal_ms")
        return plain | {"ttft_ms": self.ttft_ms, "rt": self.relative_ttft, "n": len(self.ttfts_ms)}


@dataclass(frozen=True, slots=True)
class ComparedPassage:
    """A passage in the prompt of every variant; answers cite it as [rank]."""

    rank: int
    document: str
    page: int | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Comparison:
    request: CompareRequest
    state: str = "searching"  # 'searching', 'warming', 'running', 'done' or 'stopped'
    current_label: str = ""  # of the variant that is running: 'CacheBlend at 20 %'
    step: int = 0  # number of the current run, from 1
    steps: int = 0  # number of all runs
    round: int = 1  # current repeat, from 1
    search_ms: float = 0.0  # retrieval and lookup: run once and added to every TTFT
    context_tokens: int = 0
    prompt_tokens: int = 0  # shared prefix, passages and question
    model: str = ""
    passages: tuple[ComparedPassage, ...] = ()
    outcomes: tuple[Outcome, ...] = ()  # full prefill first, then in the requested order
    notes: tuple[str, ...] = ()  # for the user, e.g. on passages that did not fit

    @property
    def is_finished(self) -> bool:
        return self.state in ("done", "stopped")

    def as_dict(self) -> dict[str, Any]:
        """Return plain data under the keys that API clients read: the request, the progress and all outcomes."""
        plain = _with_lists(self.request) | _with_lists(self)
        for name in ("request", "max_new_tokens", "current_label", "round"):
            del plain[name]
        return plain | {"outcomes": [outcome.as_dict() for outcome in self.outcomes]}


def _with_lists(data: Any) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(data).items()}
