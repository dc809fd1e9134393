"""Answer one request: retrieve, pack, load, assemble, select, recompute, decode."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from threading import Event

from engine.cache.hit_stats import CacheStats
from engine.errors import Cancelled
from engine.fidelity import FidelityCurve
from engine.generation import stream
from engine.generation.draft import RecordingSampler, verify
from engine.generation.evidence import Evidence
from engine.generation.grounding import GroundingModel
from engine.generation.preview import expected_kl_of, ratio_preview
from engine.generation.rescoring import log_likelihoods, most_likely
from engine.kv.chunk_cache import ChunkCache
from engine.model.kv_buffer import KVBuffer
from engine.model.prompt_lookup import PromptLookup
from engine.model.sampling import Sampler, TokenSampler, decode
from engine.passages import PassageCache
from engine.prefill.context import PromptContext
from engine.prefill.prefill import PrefillResult, prefill
from engine.prompt.pack import PreparedPrompt, estimate_budget, same_prompt
from engine.prompt.question_kind import QuestionKind, question_kind
from engine.prompt.retrieval import prepare_stages
from engine.prompt.small_talk import reply
from engine.prompt.template import PromptTemplate
from engine.prompt.validate import build_strategy, validate
from engine.request import Answer, ContextBudget, Request
from engine.scheduler.scheduler import Scheduler
from engine.scheduler.speculation import SpeculativePrefill, Speculator
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.strategies import Direct, Strategy
from engine.trace import Trace
from engine.types import Placement, ScoreMode
from store.types import Finder

MAX_RESCORED_TOKENS = 32  # of a possible answer that the main model scores or gives
MIN_DRAFT_WAIT_MS = 1000.0  # predicted time of recomputing from which a draft is worth showing


class Engine:
    """Answers questions over a library with a main and an auxiliary model; `load_engine` builds one.

    `ask` does everything. Benchmarks and analysis call the same steps one by one: `prepare`, `acquire`, `prefill`,
    `sampler` and `store_results`.

    Parameters
    ----------
    finder
        Retrieves passages.
    cache
        Chunk KV of the main model; holds the model itself.
    template
        The prompt template for the main model's tokenizer.
    auxiliary
        Scores tokens for strategies that select by attention or by a trained selector.
    grounding
        Finds what supports an answer; for a main model finetuned to quote passages, also the answer.
    stats
        Counts cache hits; pass one to keep counting across engines.
    scheduler
        Decides which request uses the model next; engines that share a model share one.
    disk_error
        Returns why KV cannot be written to disk, as a sentence; empty if it can.

    Attributes
    ----------
    max_tokens : int
        The context shared by prompt and answer, initially the main model's maximum.
    fidelity : FidelityCurve or None
        How faithful reuse is on this model, by recompute ratio; None until it is calibrated.
    min_draft_wait_ms : float
        Predicted time of recomputing, from which a request that allows a draft gets one.
    passages : PassageCache
        Warms and deletes what is cached per passage.
    speculator : Speculator
        Starts prefill before retrieval has finished.
    """

    def __init__(
        self,
        finder: Finder,
        cache: ChunkCache,
        template: PromptTemplate,
        auxiliary: AuxiliaryScorer,
        *,
        grounding: GroundingModel | None = None,
        stats: CacheStats | None = None,
        scheduler: Scheduler | None = None,
        disk_error: Callable[[], str] = lambda: "",
    ) -> None:
        self.finder = finder
        self.cache = cache
        self.template = template
        self.auxiliary = auxiliary
        self.grounding = grounding
        self.scheduler = scheduler or Scheduler()
        self.speculator = Speculator[PreparedPrompt, PrefillResult](self.scheduler, same_prompt)
        self.stats = stats or CacheStats()
        self.disk_error = disk_error
        self.fidelity: FidelityCurve | None = None
        self.min_draft_wait_ms = MIN_DRAFT_WAIT_MS
        self.max_tokens = cache.decoder.spec.max_positions  # of prompt and answer together
        kv_caches = [(cache, template)]
        if auxiliary.cache is not cache:
            kv_caches.append((auxiliary.cache, auxiliary.template))
        self.passages = PassageCache(kv_caches, auxiliary.selector, self.scheduler)

    def ask(
        self, request: Request, cancel: Event | None = None, prepared: PreparedPrompt | None = None
    ) -> Iterator[Answer]:
        """Answer a request, token by token.

        Parameters
        ----------
        request
            The question and how to answer it.
        cancel
            Stops the answer soon after it is set, also from another thread.
        prepared
            The prompt, if another engine of the same model has searched and packed it already.

        Yields
        ------
        Answer
            The same object each time, further along; its last `state` is 'done', or 'stopped' if `cancel` was set.

        Raises
        ------
        BadRequest, QuestionTooLong, DocumentTooLong
            Before anything is computed.
        """
        cancel = cancel or Event()
        validate(request)
        answer = Answer(request, Trace(synchronize=self.cache.decoder.synchronize))
        yield answer
        try:
            yield from self._run(answer, cancel, prepared)
            answer.state = "done"
        except Cancelled:
            answer.state = "stopped"
        yield answer

    def _run(self, answer: Answer, cancel: Event, given: PreparedPrompt | None) -> Iterator[Answer]:
        request, trace = answer.request, answer.trace
        strategy = build_strategy(request)
        if question_kind(request.question) is QuestionKind.SMALL_TALK:
            answer.text = reply(request.question, self.finder)
            trace.first_token()
            return

        def run_prefill(prepared: PreparedPrompt, trace: Trace, cancel: Event) -> PrefillResult:
            return self.prefill(prepared, strategy, trace, cancel)

        with self.passages.track_deletions(), ExitStack() as turn:
            search = prepare_stages(self.finder, self.template, request, self.max_tokens, trace)
            stages = search if given is None else iter([given])
            prepared, speculative = self.speculator.run(stages, run_prefill, trace, turn, cancel)
            stream.fill_prompt_fields(answer, prepared, len(self.template.prefix_ids), self.max_tokens)
            yield answer
            if speculative is None or not speculative.accepted:
                turn.enter_context(self.acquire(prepared, strategy, trace, cancel))

            @cache
            def prefilled() -> PrefillResult:
                return run_prefill(prepared, trace, cancel) if speculative is None else speculative.result(cancel)

            evidence = cache(partial(self.evidence, prepared, trace, cancel))

            def stop_speculation() -> None:
                nonlocal speculative
                if speculative is not None:
                    speculative.close()
                    speculative = None

            draft_tokens: list[int] = []
            if request.draft and self._is_worth_a_draft(prepared, strategy, speculative):
                draft_tokens = yield from self._draft(answer, prepared, evidence, stop_speculation, cancel)
            if self._fill_quoted_answer(answer, prefilled, evidence):
                trace.first_token()
                yield answer
                with suppress(Cancelled):  # the answer is complete; what is read now is for the next question
                    self._record_prefill(answer, prepared, prefilled(), strategy)
                    self.store_results(prepared, prefilled())
                return
            result = prefilled()
            try:
                sampler = self._answer_sampler(request, prepared, evidence)
                with trace.stage("verify") if draft_tokens else nullcontext():
                    buffer, decoder = result.buffer, self.cache.decoder
                    sampled = verify(decoder, buffer, result.logits, draft_tokens, sampler, cancel)
                trace.first_token()
                self._record_prefill(answer, prepared, result, strategy)
                yield answer
            finally:
                self.store_results(prepared, result)
            with self.scheduler.decoding():
                turn.close()  # the next request is prefilled while this answer is decoded
                tokens = self._decode(prepared, buffer, sampled, sampler, cancel)
                texts = stream.generate_text(self.template, tokens)
                yield from stream.stream_answer(answer, prepared, texts, evidence, len(sampled))

    def _draft(
        self,
        answer: Answer,
        prepared: PreparedPrompt,
        evidence: Callable[[], Evidence | None],
        stop_speculation: Callable[[], None],
        cancel: Event,
    ) -> Generator[Answer, None, list[int]]:
        """Write `answer.draft` by direct reuse, token by token; return its tokens, none for quotes."""
        draft = replace(answer, trace=answer.trace.branch())
        if self.grounding is not None and self.grounding.is_extractive:
            evidence()  # a stage of its own: the answer needs it too

        @cache
        def prefilled() -> PrefillResult:
            stop_speculation()  # it would slow the draft down
            return self.prefill(prepared, Direct(), draft.trace, cancel)

        with answer.trace.stage("draft"):
            try:
                if self._fill_quoted_answer(draft, prefilled, evidence):
                    if prefilled.cache_info().currsize:  # else the quotes do not depend on the KV: they are final
                        draft.trace.first_token()
                        answer.draft = draft
                        yield answer
                    return []
                result = prefilled()
                sampler = RecordingSampler(self._answer_sampler(answer.request, prepared, evidence))
                sampled = [sampler.sample(result.logits)]
                draft.trace.first_token()
                answer.draft = draft
                tokens = self._decode(prepared, result.buffer, sampled, sampler, cancel)
                for _ in stream.stream_answer(draft, prepared, stream.generate_text(self.template, tokens), evidence):
                    yield answer
                return sampler.tokens
            finally:
                draft.trace = draft.trace.snapshot()  # an answer refers to no model

    def _decode(
        self, prepared: PreparedPrompt, buffer: KVBuffer, sampled: Sequence[int], sampler: Sampler, cancel: Event
    ) -> Iterator[int]:
        """Yield the tokens of an answer after a prompt, of which some are sampled already. Raises Cancelled."""
        prompt = [*chain.from_iterable(prepared.passage_ids), *prepared.suffix_ids]
        stop_ids, length = self.template.stop_ids, prepared.max_new_tokens
        return decode(self.cache.decoder, buffer, sampled, sampler, stop_ids, length, cancel, PromptLookup(prompt))

    def _is_worth_a_draft(
        self,
        prepared: PreparedPrompt,
        strategy: Strategy,
        speculative: SpeculativePrefill[PreparedPrompt, PrefillResult] | None,
    ) -> bool:
        """Return whether direct reuse gives an answer much earlier than recomputing does."""
        ids = prepared.passage_ids
        _, missing = self.cache.count_cached_tokens(ids)
        if missing or not strategy.recomputes or (speculative is not None and speculative.is_done):
            return False
        if (costs := self.cache.costs) is None:
            return True
        exact = self.cache.count_cached_tokens(ids, Placement.EXACT_PREFIX)[0] if strategy.reuses_kv else 0
        ratio: float = getattr(strategy, "ratio", 1.0)
        recomputed = round(ratio * (prepared.context_tokens - exact))
        reused = len(self.template.prefix_ids) + prepared.context_tokens - recomputed
        return costs.estimate_ms(reused, recomputed + len(prepared.suffix_ids)) >= self.min_draft_wait_ms

    def _fill_quoted_answer(
        self,
        answer: Answer,
        prefilled: Callable[[], PrefillResult],
        evidence: Callable[[], Evidence | None],
    ) -> bool:
        """Answer in the passages' words if the main model was finetuned to quote; return False if it is to answer."""

        def score_answers(texts: Sequence[str]) -> list[float]:
            encode = self.template.tokenizer.encode
            continuations = [(encode(text).ids + self.template.end_ids)[:MAX_RESCORED_TOKENS] for text in texts]
            result = prefilled()
            with answer.trace.stage("rescore"):
                return log_likelihoods(self.cache.decoder, result.buffer, result.logits, continuations)

        def generate() -> str:
            result, stop_ids = prefilled(), self.template.stop_ids
            with answer.trace.stage("rescore"):
                ids = most_likely(self.cache.decoder, result.buffer, result.logits, stop_ids, MAX_RESCORED_TOKENS)
            return self.template.tokenizer.decode(ids).strip()

        if self.grounding is None or not self.grounding.is_extractive or (found := evidence()) is None:
            return False
        score = None if answer.request.temperature else score_answers  # answers that vary are decoded
        return stream.fill_quoted_answer(answer, found, score, generate)

    def _answer_sampler(
        self, request: Request, prepared: PreparedPrompt, evidence: Callable[[], Evidence | None]
    ) -> Sampler:
        return self._grounded(TokenSampler(request.temperature, request.top_p, request.seed), prepared, evidence)

    def _record_prefill(
        self, answer: Answer, prepared: PreparedPrompt, result: PrefillResult, strategy: Strategy
    ) -> None:
        num_prefix_tokens = len(self.template.prefix_ids)
        stream.fill_prefill_fields(answer, prepared, result, num_prefix_tokens)
        fidelity = self.fidelity.for_passages(len(prepared.passages)) if self.fidelity else None
        costs = self.cache.costs
        answer.preview = ratio_preview(answer, prepared, result, num_prefix_tokens, strategy, costs, fidelity)
        is_exact = result.num_exact_chunks >= len(prepared.passages)
        answer.expected_kl = expected_kl_of(answer.request.method, answer.actual_ratio, is_exact, fidelity)
        answer.notes += (*filter(None, [result.reason]), *self._notes(strategy))
        self.stats.record(answer.sources)

    def _notes(self, strategy: Strategy) -> Iterator[str]:
        if strategy.reuses_kv and self.disk_error():
            yield "KV cannot be written to disk: it stays in memory and is lost on restart."
        if strategy.score_mode is ScoreMode.LEARNED and self.auxiliary.selector is None:
            yield (
                "This model has no trained token selector: the auxiliary model selected the tokens, "
                "as in CacheClip joint."
            )

    def estimate_budget(self, request: Request) -> ContextBudget:
        """Return how a request would divide the model's context, without a search. Raises QuestionTooLong."""
        return estimate_budget(self.finder, self.template, request, self.max_tokens)

    def prepare(self, request: Request, trace: Trace) -> PreparedPrompt:
        """Run the whole search and pack its hits. Raises QuestionTooLong, DocumentTooLong or BadRequest."""
        *_, prepared = prepare_stages(self.finder, self.template, request, self.max_tokens, trace)
        return prepared

    @contextmanager
    def acquire(self, prepared: PreparedPrompt, strategy: Strategy, trace: Trace, cancel: Event) -> Iterator[None]:
        """Wait until the model is free and hold it. Raises Cancelled if `cancel` is set while waiting."""

        def num_tokens() -> tuple[int, int]:
            cached = 0
            if strategy.reuses_kv:
                cached, _ = self.cache.count_cached_tokens(prepared.passage_ids, strategy.placement)
            return cached, prepared.context_tokens - cached + len(prepared.suffix_ids)

        with ExitStack() as turn:
            with trace.stage("queue"):
                turn.enter_context(self.scheduler.acquire(num_tokens, cancel))
            yield

    def prompt_context(
        self, prepared: PreparedPrompt, trace: Trace, cancel: Event | None = None, max_path_chunks: int | None = None
    ) -> PromptContext:
        """Return the lazily computed inputs of a prefill, see `PromptContext`. The caller closes it."""
        return PromptContext(
            self.cache, self.template, self.auxiliary, prepared, trace, cancel, max_path_chunks, self.fidelity
        )

    def prefill(
        self,
        prepared: PreparedPrompt,
        strategy: Strategy,
        trace: Trace,
        cancel: Event | None = None,
        context: PromptContext | None = None,
    ) -> PrefillResult:
        """Load, assemble, select and recompute, up to the logits of the first token. Raises Cancelled.

        A `context` of this prompt shares chunk KV and scores between strategies.
        """
        shared = closing(self.prompt_context(prepared, trace, cancel)) if context is None else nullcontext(context)
        with shared as inputs:
            return prefill(inputs, strategy, trace, cancel)

    def sampler(
        self, prepared: PreparedPrompt, trace: Trace, sampling: Sampler, cancel: Event | None = None
    ) -> Sampler:
        """Return the sampler of one answer, grounded in the passages if the model is. Raises Cancelled."""
        if self.grounding is None:
            return sampling
        with trace.stage("ground"):
            return self._grounded(sampling, prepared, partial(self.grounding.evidence, prepared, cancel))

    def evidence(self, prepared: PreparedPrompt, trace: Trace, cancel: Event | None = None) -> Evidence | None:
        """Return what the passages say about the question; None without a grounding model. Raises Cancelled."""
        if self.grounding is None:
            return None
        with trace.stage("ground"):
            return (found := self.grounding.evidence(prepared, cancel)) and found.read()

    def _grounded(
        self, sampling: Sampler, prepared: PreparedPrompt, evidence: Callable[[], Evidence | None]
    ) -> Sampler:
        if self.grounding is None or not self.grounding.is_extractive:
            return sampling
        return self.grounding.sampler(sampling, prepared, self.template, evidence())

    def store_results(self, prepared: PreparedPrompt, result: PrefillResult) -> None:
        """After the first token: record cache hits, insert the exact prefix, flush new chunk KV."""
        self.cache.record_hits(result.touched_nodes)
        self.cache.insert_path(prepared.passage_ids[: result.num_exact_chunks], result.buffer)
        self.passages.flush()
