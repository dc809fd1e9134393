"""Compare methods on one question: run the variants one after the other, each at its full cost.

All variants read the same passages; full prefill runs first and is the reference. Exact paths are used for the first
passage only, and no KV is inserted: a path that one variant computed would make the next one exact. See
docs/architecture.md.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from threading import Event

from torch import Tensor

from engine.analysis.agreement import ANSWER_KL_TOKENS, compare_logits, logits_along
from engine.analysis.comparison import MAX_REPEATS, MAX_VARIANTS, ComparedPassage, CompareRequest, Comparison, Outcome
from engine.analysis.variants import Variant, variants_of
from engine.engine import Engine
from engine.errors import BadRequest, Cancelled, NoPassageFound
from engine.generation.citations import cite
from engine.generation.preview import mark_passages
from engine.generation.stream import GeneratedText, generate_text
from engine.model.sampling import Sampler, TokenSampler, decode
from engine.prefill.context import PromptContext
from engine.prefill.prefill import PrefillResult
from engine.prompt.pack import PreparedPrompt
from engine.prompt.validate import validate
from engine.request import Request
from engine.strategies import STRATEGIES, Direct
from engine.trace import Trace


def compare(engine: Engine, request: CompareRequest, cancel: Event | None = None) -> Iterator[Comparison]:
    """Yield growing snapshots; the last one is 'done', or 'stopped' with the finished outcomes if `cancel` was set.

    Raises BadRequest or QuestionTooLong before anything is computed, and NoPassageFound if retrieval finds nothing.
    """
    cancel = cancel or Event()
    variants = requested_variants(request)
    comparison = start = Comparison(request, steps=len(variants) * request.repeats, model=engine.cache.decoder.name)
    yield comparison
    try:
        with engine.passages.track_deletions():
            for comparison in _run(engine, start, variants, cancel):
                yield comparison
                if cancel.is_set():
                    raise Cancelled
        state = "done"
    except Cancelled:
        state = "stopped"
    yield replace(comparison, state=state, current_label="")


def requested_variants(request: CompareRequest) -> list[Variant]:
    """Return the distinct variants, full prefill first. Raises BadRequest for an unknown method or a bad value."""
    validate(_retrieval_request(request))
    if not isinstance(request.repeats, int) or not 1 <= request.repeats <= MAX_REPEATS:
        raise BadRequest(f"The repeats must be a whole number between 1 and {MAX_REPEATS}, got {request.repeats!r}.")
    for name, values in (("methods", request.methods), ("ratios", request.ratios)):
        if not isinstance(values, list | tuple) or not values:
            raise BadRequest(f"The {name} must be a list with at least one entry, got {values!r}.")
    variants: dict[str, Variant] = {}
    for name in ("full", *request.methods):
        if name not in list(STRATEGIES):
            raise BadRequest(f"The method {name!r} is not one of {', '.join(STRATEGIES)}.")
        try:
            variants.update((variant.key, variant) for variant in variants_of(name, request.ratios))
        except ValueError as error:
            raise BadRequest(f"The {error}.") from error
    if len(variants) > MAX_VARIANTS:
        raise BadRequest(
            f"At most {MAX_VARIANTS} combinations of method and ratio can be compared, got {len(variants)}."
        )
    return list(variants.values())


def _retrieval_request(request: CompareRequest) -> Request:
    """Return the request whose retrieval result all variants read."""
    return Request(
        request.question, passages=request.passages, max_new_tokens=request.max_new_tokens, documents=request.documents
    )


def _run(engine: Engine, comparison: Comparison, variants: Sequence[Variant], cancel: Event) -> Iterator[Comparison]:
    if cancel.is_set():
        raise Cancelled
    trace = Trace()
    prompt = engine.prepare(_retrieval_request(comparison.request), trace)
    if not prompt.passages:
        raise NoPassageFound("No passages were found for this question.")
    runner = _VariantRunner(engine, prompt, cancel, trace.now_ms())
    comparison = replace(
        comparison,
        state="warming",
        search_ms=runner.search_ms,
        context_tokens=prompt.context_tokens,
        prompt_tokens=runner.prompt_tokens,
        passages=tuple(
            ComparedPassage(rank, hit.chunk.document_name, hit.chunk.page, len(encoded.ids))
            for rank, (hit, encoded) in enumerate(zip(prompt.hits, prompt.passages, strict=True), 1)
        ),
        notes=prompt.notes,
    )
    yield comparison
    runner.warm_up(variants)
    outcomes: dict[str, Outcome] = {}
    for repeat in range(comparison.request.repeats):
        for variant in variants:
            step = comparison.step + 1
            comparison = replace(comparison, state="running", current_label=variant.title, step=step, round=repeat + 1)
            yield comparison
            with runner.acquire():
                if repeat == 0:
                    outcomes[variant.key] = runner.measure(variant)
                else:
                    _, trace, _, _ = runner.prefill(variant)
                    outcomes[variant.key] = outcomes[variant.key].with_ttft(trace.ttft_ms or 0.0)
            full_ms = outcomes[variants[0].key].ttft_ms
            outcomes = {key: outcome.relative_to(full_ms) for key, outcome in outcomes.items()}
            comparison = replace(comparison, outcomes=tuple(outcomes.values()))
            yield comparison


@dataclass(frozen=True)
class _Reference:
    """Full prefill's first answer tokens, the logits [T, V] along them, and its operations."""

    token_ids: list[int]
    logits: Tensor
    operations: float


@dataclass
class _VariantRunner:
    """Runs variants on one prompt, each from the same cache state; the first one measured is the reference."""

    engine: Engine
    prompt: PreparedPrompt
    cancel: Event
    search_ms: float
    reference: _Reference | None = None

    @property
    def prompt_tokens(self) -> int:
        return len(self.engine.template.prefix_ids) + self.prompt.context_tokens + len(self.prompt.suffix_ids)

    def acquire(self) -> AbstractContextManager[None]:
        """Wait for the model, and until no answer is decoded. It counts as uncached: waiting questions go first."""
        return self.engine.scheduler.acquire(lambda: (0, self.prompt_tokens), self.cancel, exclusive=True)

    def warm_up(self, variants: Sequence[Variant]) -> None:
        """Load all cached KV into memory and run every code path once; the results are discarded."""
        for text in self.prompt.texts:
            self.engine.passages.warm(text, self.cancel)
        trace = Trace()
        with self.acquire(), closing(self._context(trace)) as context:
            for strategy in (variant.strategy for variant in variants if variant.strategy.reuses_kv):
                context.load(strategy.placement, strategy.score_mode)
                if strategy.score_mode is not None:
                    context.scores(strategy.score_mode)
            self.engine.prefill(self.prompt, Direct(), trace, self.cancel, context)
            self.engine.sampler(self.prompt, trace, TokenSampler(), self.cancel)

    def prefill(self, variant: Variant) -> tuple[PrefillResult, Trace, int, Sampler]:
        """Return the prefill, its trace with the search time added to the TTFT, the first token and its sampler."""
        trace = Trace(synchronize=self.engine.cache.decoder.synchronize)
        with closing(self._context(trace)) as context:
            result = self.engine.prefill(self.prompt, variant.strategy, trace, self.cancel, context)
            sampler = self.engine.sampler(self.prompt, trace, TokenSampler(), self.cancel)
            first_token = sampler.sample(result.logits)
            trace.first_token()
        trace.ttft_ms = (trace.ttft_ms or 0.0) + self.search_ms
        return result, trace, first_token, sampler

    def measure(self, variant: Variant) -> Outcome:
        """Time a variant, generate its answer and compare it with the reference's."""
        result, trace, first_token, sampler = self.prefill(variant)
        decoder = self.engine.cache.decoder
        generated = GeneratedText()
        stop_ids, length = self.engine.template.stop_ids, self.prompt.max_new_tokens
        tokens = decode(decoder, result.buffer, [first_token], sampler, stop_ids, length, self.cancel)
        for snapshot in generate_text(self.engine.template, tokens):
            generated = snapshot
        token_ids = self.reference.token_ids if self.reference else generated.tokens[:ANSWER_KL_TOKENS]
        logits = logits_along(decoder, result.buffer, result.logits, self.prompt_tokens, token_ids)
        reference = self.reference = self.reference or _Reference(token_ids, logits, result.flops)
        agreement = compare_logits(reference.logits, logits)
        answer, cited = cite(generated.text.strip(), self.prompt.texts, self.prompt.standalone_question)
        ttft_ms = trace.ttft_ms or 0.0
        read_bytes: Counter[str] = Counter()
        for tier, passage in zip(result.tiers, self.prompt.passages, strict=True):
            if tier not in ("none", "computed"):
                read_bytes[tier] += self._kv_bytes(len(passage.ids))
        reused_tokens = round(self.prompt.context_tokens * (1 - result.actual_ratio))
        return Outcome(
            key=variant.key,
            method=variant.method,
            label=variant.strategy.label,
            ratio=variant.requested_ratio,
            actual_ratio=result.actual_ratio,
            recomputed_tokens=round(self.prompt.context_tokens * result.actual_ratio),
            ttfts_ms=(ttft_ms,),
            full_ms=ttft_ms,
            ideal_ms=ttft_ms * result.flops / reference.operations,
            kl=agreement.kl,
            top1=agreement.top1 == 1.0,
            answer_kl=agreement.answer_kl,
            answer_top1=agreement.answer_top1,
            read_bytes=dict(read_bytes),
            reused_bytes=self._kv_bytes(reused_tokens) if variant.strategy.reuses_kv else 0,
            stages=tuple(trace.stages),
            answer=answer,
            cited=tuple(sorted(cited)),
            new_tokens=len(generated.tokens),
            recomputed_texts=self._recomputed_texts(result) if result.actual_ratio < 1 else (),
        )

    def _recomputed_texts(self, result: PrefillResult) -> tuple[str, ...]:
        num_prefix_tokens = len(self.engine.template.prefix_ids)
        marked = mark_passages(result.rows, num_prefix_tokens, self.prompt.texts, self.prompt.passages)
        texts = (span.text.strip() for passage in marked for span in passage.text_spans if span.recomputed)
        return tuple(filter(None, texts))

    def _context(self, trace: Trace) -> PromptContext:
        return self.engine.prompt_context(self.prompt, trace, self.cancel, max_path_chunks=1)

    def _kv_bytes(self, tokens: int) -> int:
        decoder = self.engine.cache.decoder
        return decoder.spec.kv_bytes(tokens, decoder.dtype.itemsize)
