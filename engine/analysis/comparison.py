"""What a comparison shows a person: plain data, no tensors, so that the page can read it without torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from engine.trace import Stage

MAX_ARMS = 64
MAX_REPEATS = 9


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """One question, and the arms it goes through: every method at every ratio, or once where it has no ratio.

    methods    names in engine.strategies.STRATEGIES; full prefill comes first, named here or not
    ratios     nominal, in [0, 1]
    repeats    times that each arm's first token is timed
    documents  ids of those to search; empty: all
    """

    question: str
    methods: tuple[str, ...] = ("full", "cacheclip", "cacheblend", "direct")
    ratios: tuple[float, ...] = (0.2,)
    passages: int = 3
    repeats: int = 1
    max_new_tokens: int = 96  # of each arm's answer: enough to see where answers part
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """One arm: what it took, and how near it comes to full prefill.

    key              names the arm: 'cacheclip@0.2', 'epic'
    ratio            nominal; None where the method has none
    ttfts_ms         one for each time; each with `Comparison.search_ms` in it
    full_ms          median TTFT of full prefill
    floor_ms         what the operations of the computed rows would take at full prefill's pace; no way is faster
    kl, top1         KL(full || arm) of the first token in nats, and whether the likeliest first token is the same
    answer_kl, answer_top1  mean along the first tokens of full prefill's answer
    read_bytes       KV read from each tier, by its name
    reused_bytes     KV of passages' tokens that was not computed again
    stages           of the first time
    answer           greedy, with [n] behind what passage n backs
    """

    key: str
    method: str
    label: str
    ratio: float | None
    realised_ratio: float
    recomputed_tokens: int
    ttfts_ms: tuple[float, ...]
    full_ms: float
    floor_ms: float
    kl: float
    top1: bool
    answer_kl: float
    answer_top1: float
    read_bytes: Mapping[str, int]
    reused_bytes: int
    stages: tuple[Stage, ...]
    answer: str
    cited: tuple[int, ...]
    new_tokens: int

    @property
    def ttft_ms(self) -> float:
        """The median of all times."""
        return median(self.ttfts_ms)

    @property
    def rt(self) -> float:
        """TTFT / full prefill's TTFT."""
        return self.ttft_ms / self.full_ms

    def timed(self, ttft_ms: float) -> "Outcome":
        """Return the outcome with one more time."""
        return replace(self, ttfts_ms=(*self.ttfts_ms, ttft_ms))

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: figures, answer, stages."""
        held = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {**held, "ttft_ms": self.ttft_ms, "rt": self.rt, "n": len(self.ttfts_ms)}


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage that every arm reads, as its answers cite it. `rank` is from 1."""

    rank: int
    document: str
    page: int | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One snapshot of a growing comparison. `state` is 'searching', 'warming', 'running', 'done' or 'stopped'.

    now            label of the arm under way: 'CacheBlend at 20 %'
    step, steps    which of all timed passes is under way, from 1, and how many there are
    round          of `wanted.repeats`, from 1
    search_ms      search and lookup: done once, the same for all, and part of every TTFT
    prompt_tokens  prefix, passages and question
    outcomes       full prefill first, then in the order asked for
    notes          what a person should know: passages left out
    """

    request: CompareRequest
    state: str = "searching"
    now: str = ""
    step: int = 0
    steps: int = 0
    round: int = 1
    search_ms: float = 0.0
    context_tokens: int = 0
    prompt_tokens: int = 0
    model: str = ""
    passages: tuple[Passage, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def finished(self) -> bool:
        return self.state in ("done", "stopped")

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: what was asked, how far it went, and each arm's outcome."""
        return {
            "question": self.request.question,
            "methods": list(self.request.methods),
            "ratios": list(self.request.ratios),
            "repeats": self.request.repeats,
            "documents": list(self.request.documents),
            "model": self.model,
            "state": self.state,
            "step": self.step,
            "steps": self.steps,
            "search_ms": self.search_ms,
            "context_tokens": self.context_tokens,
            "prompt_tokens": self.prompt_tokens,
            "passages": [asdict(passage) for passage in self.passages],
            "outcomes": [outcome.as_dict() for outcome in self.outcomes],
            "notes": list(self.notes),
        }
