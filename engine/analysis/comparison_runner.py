"""One question through several arms, one after the other, each at its own cost.

Search runs once, so that all arms read the same ids. Full prefill goes first and is the reference. Each arm gets
evidence of its own, so its TTFT holds everything that it costs: loading, the auxiliary model, selection, recomputation,
the first token; the common search is added to each. Before the first time, the passages' KV is brought to memory and
each kind of work is done once, for nobody. What earlier answers left in the knowledge tree behind the first passage is
left aside, and nothing is kept: a path that one arm computed would make the next one exact.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from threading import Event

from torch import Tensor

from engine.analysis.agreement import FOLLOWED, compare_logits, logits_along
from engine.analysis.variants import Variant, variants_of
from engine.analysis.comparison import MAX_ARMS, MAX_REPEATS, CompareRequest, Comparison, Outcome, Passage
from engine.engine import Engine
from engine.errors import BadRequest, Cancelled, NoPassageFound
from engine.generation.citations import cite
from engine.generation.stream import Writing, written
from engine.model.sampling import Sampler, SamplingParams
from engine.prefill.prefill import PrefillResult
from engine.prompt.builder import PreparedPrompt, validate
from engine.request import Request
from engine.strategies import STRATEGIES, Direct
from engine.trace import Trace


def compare(engine: Engine, wanted: CompareRequest, cancel: Event | None = None) -> Iterator[Comparison]:
    """Yield one growing comparison; the last one is 'done', or 'stopped' with what was finished if `cancel` was set.

    Raises BadRequest or QuestionTooLong before anything is computed, NoPassageFound without a passage to compare on.
    """
    cancel, arms = cancel or Event(), requested_variants(wanted)
    shown = Comparison(wanted, steps=len(arms) * wanted.repeats, model=engine.cache.decoder.name)
    yield shown
    try:
        with engine.track_deletions():
            for grown in _run(engine, shown, arms, cancel):
                shown = grown
                yield shown
                if cancel.is_set():
                    raise Cancelled
        yield replace(shown, state="done", now="")
    except Cancelled:
        yield replace(shown, state="stopped", now="")


def requested_variants(wanted: CompareRequest) -> list[Variant]:
    """Return the arms, full prefill first, each once.

    Raises BadRequest for what is unknown or outside its range, with what it may be.
    """
    validate(_request(wanted))
    if not isinstance(wanted.repeats, int) or not 1 <= wanted.repeats <= MAX_REPEATS:
        raise BadRequest(f"The repeats must be a whole number between 1 and {MAX_REPEATS}, got {wanted.repeats!r}.")
    for kind, listed in (("methods", wanted.methods), ("ratios", wanted.ratios)):
        if not isinstance(listed, list | tuple) or not listed:
            raise BadRequest(f"Give at least one of the {kind}, as a list; got {listed!r}.")
    made: dict[str, Variant] = {}
    for name in ("full", *wanted.methods):
        if name not in list(STRATEGIES):
            raise BadRequest(f"The method {name!r} is not one of {', '.join(STRATEGIES)}.")
        try:
            made.update((arm.key, arm) for arm in variants_of(name, wanted.ratios))
        except ValueError as error:
            raise BadRequest(f"The {error}.") from error
    if len(made) > MAX_ARMS:
        raise BadRequest(f"{len(made)} methods and ratios are too many: {MAX_ARMS} at most.")
    return list(made.values())


def _request(wanted: CompareRequest) -> Request:
    """Return what is searched for: all arms read what this finds."""
    return Request(
        wanted.question,
        passages=wanted.passages,
        max_new_tokens=wanted.max_new_tokens,
        documents=wanted.documents,
    )


def _run(engine: Engine, shown: Comparison, arms: Sequence[Variant], cancel: Event) -> Iterator[Comparison]:
    if cancel.is_set():
        raise Cancelled
    began = Trace()
    reading = engine.prepare(_request(shown.request), began)
    if not reading.passages:
        raise NoPassageFound("No passage was found to compare on.")
    lane = _Lane(engine, reading, cancel, began.now_ms())
    shown = replace(
        shown,
        state="warming",
        search_ms=lane.search_ms,
        context_tokens=reading.context_tokens,
        prompt_tokens=lane.prompt_tokens,
        passages=_passages(reading),
        notes=reading.notes,
    )
    yield shown
    lane.warm(arms)
    full: _Said | None = None
    outcomes: dict[str, Outcome] = {}
    for number in range(shown.request.repeats):
        for arm in arms:
            shown = replace(shown, state="running", now=arm.title, step=shown.step + 1, round=number + 1)
            yield shown
            with lane.turn():
                if full is None:
                    outcomes[arm.key], full = lane.first(arm, None)
                elif number == 0:
                    outcomes[arm.key], _ = lane.first(arm, full)
                else:
                    outcomes[arm.key] = outcomes[arm.key].timed(lane.prefill(arm)[1].ttft_ms or 0.0)
            full_ms = outcomes[arms[0].key].ttft_ms
            outcomes = {key: _against(outcome, full_ms) for key, outcome in outcomes.items()}
            shown = replace(shown, outcomes=tuple(outcomes.values()))
            yield shown


def _against(outcome: Outcome, full_ms: float) -> Outcome:
    return replace(outcome, full_ms=full_ms, floor_ms=outcome.floor_ms * full_ms / outcome.full_ms)


def _passages(reading: PreparedPrompt) -> tuple[Passage, ...]:
    pairs = enumerate(zip(reading.hits, reading.passages, strict=True), 1)
    return tuple(Passage(rank, hit.chunk.document_name, hit.chunk.page, len(read.ids)) for rank, (hit, read) in pairs)


@dataclass(frozen=True)
class _Said:
    """Full prefill's answer: its first token ids, and the logits [T, V] along them."""

    tokens: list[int]
    logits: Tensor
    operations: float


@dataclass(frozen=True)
class _Lane:
    """One reading, on which every arm starts from the same place."""

    engine: Engine
    reading: PreparedPrompt
    cancel: Event
    search_ms: float

    @property
    def prompt_tokens(self) -> int:
        return len(self.engine.prompt.prefix_ids) + self.reading.context_tokens + len(self.reading.suffix_ids)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the model for one pass. As if nothing were cached: whoever waits with a question goes before."""
        with self.engine.scheduler.acquire(lambda: (0, self.prompt_tokens), self.cancel):
            yield

    def warm(self, arms: Sequence[Variant]) -> None:
        """Bring all that is cached to memory, and do each kind of work once, for nobody."""
        for text in self.reading.texts:
            self.engine.warm(text, self.cancel)
        trace = Trace()
        with self.turn(), closing(self.engine.prompt_context(self.reading, trace, self.cancel, max_path_chunks=1)) as evidence:
            for strategy in (arm.strategy for arm in arms if arm.strategy.reuses):
                evidence.load(strategy.placement, strategy.scoring)
                if strategy.scoring is not None:
                    evidence.scores(strategy.scoring)
            self.engine.prefill(self.reading, Direct(), trace, self.cancel, evidence)
            self.engine.sampler(self.reading, trace, SamplingParams(), self.cancel)

    def prefill(self, arm: Variant) -> tuple[PrefillResult, Trace, int, Sampler]:
        """Return the arm's prompt, its trace, whose TTFT counts the search, its first token, and who chose that."""
        trace = Trace(synchronize=self.engine.cache.decoder.synchronize)
        with closing(self.engine.prompt_context(self.reading, trace, self.cancel, max_path_chunks=1)) as evidence:
            ready = self.engine.prefill(self.reading, arm.strategy, trace, self.cancel, evidence)
            chooser = self.engine.sampler(self.reading, trace, SamplingParams(), self.cancel)
            first = chooser.sample(ready.logits)
            trace.first_token()
        trace.ttft_ms = (trace.ttft_ms or 0.0) + self.search_ms
        return ready, trace, first, chooser

    def first(self, arm: Variant, full: _Said | None) -> tuple[Outcome, _Said]:
        """Time an arm, let it answer, and set it against full prefill; without one it is the full prefill."""
        ready, trace, first, chooser = self.prefill(arm)
        decoder, prompt = self.engine.cache.decoder, self.engine.prompt
        writing = Writing()
        for grown in written(decoder, prompt, ready.buffer, first, chooser, self.reading.max_new_tokens, self.cancel):
            writing = grown
        said = full.tokens if full else writing.tokens[:FOLLOWED]
        logits = logits_along(decoder, ready.buffer, ready.logits, self.prompt_tokens, said)
        full = full or _Said(said, logits, ready.operations)
        near = compare_logits(full.logits, logits)
        text, cited = cite(writing.text.strip(), self.reading.texts, self.reading.standalone_question)
        ttft_ms = trace.ttft_ms or 0.0
        context = self.reading.context_tokens
        outcome = Outcome(
            key=arm.key,
            method=arm.method,
            label=arm.strategy.label,
            ratio=arm.asked,
            realised_ratio=ready.actual_ratio,
            recomputed_tokens=round(context * ready.actual_ratio),
            ttfts_ms=(ttft_ms,),
            full_ms=ttft_ms,
            floor_ms=ttft_ms * ready.operations / full.operations,
            kl=near.kl,
            top1=near.top1 == 1.0,
            answer_kl=near.answer_kl,
            answer_top1=near.answer_top1,
            read_bytes=self._read(ready),
            reused_bytes=self._bytes(round(context * (1 - ready.actual_ratio))) if arm.strategy.reuses else 0,
            stages=tuple(trace.stages),
            answer=text,
            cited=tuple(sorted(cited)),
            new_tokens=len(writing.tokens),
        )
        return outcome, full

    def _bytes(self, tokens: int) -> int:
        decoder = self.engine.cache.decoder
        return decoder.spec.kv_bytes(tokens, decoder.dtype.itemsize)

    def _read(self, ready: PrefillResult) -> dict[str, int]:
        read: dict[str, int] = {}
        for tier, passage in zip(ready.tiers, self.reading.passages, strict=True):
            if tier not in ("none", "computed"):
                read[tier] = read.get(tier, 0) + self._bytes(len(passage.ids))
        return read
