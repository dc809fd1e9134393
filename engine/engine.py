"""The way of one question: search, lookup, load, assemble, select, recompute, first token, decode.

Everything a person or a bench learns of it comes from the one trace that travels along.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from threading import Event

from engine.cache.hit_stats import CacheStats
from engine.errors import Cancelled
from engine.generation.grounded_sampler import GroundingModel
from engine.generation.stream import write
from engine.kv.assemble import layout
from engine.kv.chunk_cache import ChunkCache
from engine.lru import LRUCache
from engine.model.sampling import Sampler, SamplingParams
from engine.model.tokenizer import Encoded
from engine.prefill.context import PromptContext
from engine.prefill.prefill import PrefillResult, prefill
from engine.prompt.budget import budget
from engine.prompt.builder import PreparedPrompt, same_prompt, strategy_of, validate
from engine.prompt.retrieval import prepared_prompts
from engine.prompt.sources import retrieved, with_recompute
from engine.prompt.template import Prompt
from engine.request import Answer, ContextBudget, Request
from engine.scheduler.scheduler import Scheduler
from engine.scheduler.speculation import SpeculationConfig, Speculator
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.scoring.trained_selector import TokenSelector
from engine.strategies import Strategy
from engine.trace import Trace
from engine.types import ScoreMode
from store.types import Finder


class Engine:
    """Answers questions over a library with one primary and one auxiliary model.

    cache      the primary's chunk KV; holds the primary model
    auxiliary  None where no method needs one
    turns      who uses the primary next
    served     counts how questions were served from the tree; its own unless it shall outlive this engine
    grounds    hold answers to what the passages say: for a reader that was taught to quote them
    trouble    why chunk KV cannot be kept on disk, in a sentence; empty while it can

    `max_tokens` is the context that prompt and answer share; it starts as what the model was trained on.
    """

    def __init__(
        self,
        finder: Finder,
        cache: ChunkCache,
        prompt: Prompt,
        auxiliary: AuxiliaryScorer | None,
        scheduler: Scheduler | None = None,
        disk_error: Callable[[], str] = lambda: "",
        speculation: SpeculationConfig | None = None,
        stats: CacheStats | None = None,
        grounding: GroundingModel | None = None,
    ) -> None:
        self.finder, self.cache, self.prompt, self.auxiliary = finder, cache, prompt, auxiliary
        self.max_tokens, self.disk_error, self.grounding = cache.decoder.spec.max_positions, disk_error, grounding
        self.scheduler, self.stats = scheduler or Scheduler(), stats or CacheStats()
        self.speculator: Speculator[PreparedPrompt, PrefillResult] = Speculator(
            self.scheduler, same_prompt, speculation
        )

    def ask(self, request: Request, cancel: Event | None = None) -> Iterator[Answer]:
        """Yield one growing answer; the last one is 'done', or 'stopped' if `cancel` was set.

        Raises BadRequest, QuestionTooLong or DocumentTooLong before anything is computed.
        """
        cancel = cancel or Event()
        validate(request)
        answer = Answer(request, Trace(synchronize=self.cache.decoder.synchronize))
        yield answer
        try:
            yield from self._answer(answer, cancel)
            answer.state = "done"
        except Cancelled:
            answer.state = "stopped"
        yield answer

    def warm(self, text: str, cancel: Event | None = None) -> str:
        """Compute and keep the KV of one passage, for both models; return the tier it was found in."""
        passage = self.prompt.passage(text)
        with self.track_deletions(), self.scheduler.acquire(lambda: self.cache.ready([passage.ids]), cancel or Event()):
            tier, *_ = [cache.get(prompt.passage(text).ids, cancel)[1] for cache, prompt in self.readers]
            for trained in self._trained:
                trained.warm(text, passage)
            for cache, _ in self.readers:
                cache.flush()
            return tier

    def close(self, patience_s: float) -> None:
        """Wait at most `patience_s` for the pass under way; the caller has told it to stop."""
        self.scheduler.close(patience_s)

    def forget(self, text: str) -> list[str]:
        """Remove all that is kept of one passage, its KV for both models too; return the names it had in the tree."""
        names = [name for cache, prompt in self.readers for name in cache.delete(prompt.passage_once(text).ids)]
        for remembered in self._remembered:
            remembered.forget(text)
        return names

    @contextmanager
    def track_deletions(self) -> Iterator[None]:
        """Enclose work on passages: of one that is deleted meanwhile nothing stays at its end, KV or text."""
        with self.cache.tree.track_deletions() as deleted:
            try:
                yield
            finally:
                if deleted:
                    for remembered in self._remembered:
                        remembered.clear()

    @property
    def _trained(self) -> list[TokenSelector | GroundingModel]:
        """What reads passages with small models of our own, each once."""
        both = self.auxiliary.selector if self.auxiliary else None, self.grounding
        return [trained for trained in both if trained]

    @property
    def _remembered(self) -> list[LRUCache[Encoded] | TokenSelector | GroundingModel]:
        """What is made of passages' texts and stays in memory."""
        own = [self.auxiliary.prompt.passage] if self.auxiliary else []
        return [self.prompt.passage, *own, *self._trained]

    @property
    def readers(self) -> list[tuple[ChunkCache, Prompt]]:
        """Who keeps KV of a passage, with the prompt that gives its ids: the primary, and an auxiliary of its own."""
        other = self.auxiliary
        own = [] if other is None or other.cache is self.cache else [(other.cache, other.prompt)]
        return [(self.cache, self.prompt), *own]

    def forget_others(self) -> None:
        """Remove all KV of models that are not loaded: nobody knows which passages it belongs to."""
        loaded = [*(cache for cache, _ in self.readers), self.cache.without_prefix]
        self.cache.tree.delete_except([cache.fingerprint for cache in loaded])

    def _answer(self, answer: Answer, cancel: Event) -> Iterator[Answer]:
        request, trace = answer.request, answer.trace
        strategy = strategy_of(request)

        def prefilled(reading: PreparedPrompt, trace: Trace, cancel: Event) -> PrefillResult:
            return self.prefill(reading, strategy, trace, cancel)

        with self.track_deletions(), ExitStack() as turn:
            stages = prepared_prompts(self.finder, self.prompt, request, self.max_tokens, trace)
            reading, guess = self.speculator.run(stages, prefilled, trace, turn, cancel)
            self._tell_reading(answer, reading)
            yield answer
            if guess is None or not guess.accepted:
                turn.enter_context(self.acquire_model(reading, strategy, trace, cancel))
            ready = prefilled(reading, trace, cancel) if guess is None else guess.result(cancel)
            chooser = self.sampler(
                reading, trace, SamplingParams(request.temperature, request.top_p, request.seed), cancel
            )
            first = chooser.sample(ready.logits)
            trace.first_token()
            self._tell(answer, reading, ready, strategy)
            yield answer
            try:
                yield from write(answer, self.cache.decoder, self.prompt, reading, ready, first, chooser, cancel)
            finally:
                self.store_results(reading, ready)

    def store_results(self, reading: PreparedPrompt, ready: PrefillResult) -> None:
        """Keep what is exact, and what was computed, and count what was used, now that nobody waits for it."""
        self.cache.record_hits(ready.touched_nodes)
        self.cache.insert_path([chunk.ids for chunk in reading.passages[: ready.num_exact_chunks]], ready.buffer)
        for cache, _ in self.readers:
            cache.flush()

    @contextmanager
    def acquire_model(self, reading: PreparedPrompt, strategy: Strategy, trace: Trace, cancel: Event) -> Iterator[None]:
        """Wait until the model is free. Raises Cancelled if `cancel` is set while waiting."""
        chunks = [chunk.ids for chunk in reading.passages]

        def lengths() -> tuple[int, int]:
            cached = self.cache.ready(chunks, strategy.placement)[0] if strategy.reuses else 0
            return cached, reading.context_tokens - cached + len(reading.suffix_ids)

        with ExitStack() as turn:
            with trace.stage("queue"):
                turn.enter_context(self.scheduler.acquire(lengths, cancel))
            yield

    def sampler(
        self, reading: PreparedPrompt, trace: Trace, sampling: SamplingParams, cancel: Event | None = None
    ) -> Sampler:
        """Return what chooses the tokens of one answer. Raises Cancelled."""
        if self.grounding is None:
            return sampling.sampler()
        with trace.stage("ground"):
            return self.grounding.sampler(sampling.sampler(), reading, self.prompt, cancel)

    def prepare(self, request: Request, trace: Trace) -> PreparedPrompt:
        """Search the library to the end, and fit what was found into the model's context."""
        *_, reading = prepared_prompts(self.finder, self.prompt, request, self.max_tokens, trace)
        return reading

    def budget(self, request: Request) -> ContextBudget:
        """Return how a request would share out the model's context; nothing is searched for or computed.

        Raises QuestionTooLong.
        """
        return budget(self.finder, self.prompt, request, self.max_tokens)

    def prompt_context(
        self, reading: PreparedPrompt, trace: Trace, cancel: Event | None = None, longest: int | None = None
    ) -> PromptContext:
        """Return what strategies may look at for one reading; nothing is computed yet.

        longest  passages of an exact path that may be used; None for all that the tree has
        """
        return PromptContext(self.cache, self.prompt, self.auxiliary, reading, trace, cancel, longest)

    def prefill(
        self,
        reading: PreparedPrompt,
        strategy: Strategy,
        trace: Trace,
        cancel: Event | None = None,
        evidence: PromptContext | None = None,
    ) -> PrefillResult:
        """Bring one prompt's KV together as the strategy plans it, up to the logits of the first token.

        The page's answers and the bench take this same way.

        evidence  of this reading, where it is shared by several strategies
        """
        with (
            closing(self.prompt_context(reading, trace, cancel))
            if evidence is None
            else nullcontext(evidence) as looked
        ):
            return prefill(self.cache.decoder, looked, strategy, trace, cancel)

    def _tell_reading(self, answer: Answer, reading: PreparedPrompt) -> None:
        """Put what will be read into the answer."""
        answer.notes, answer.sources, answer.left_out = reading.notes, retrieved(reading), reading.num_dropped_chunks
        answer.question_tokens, answer.context_tokens = len(reading.suffix_ids), reading.context_tokens
        answer.prompt_tokens = len(self.prompt.prefix) + answer.context_tokens + answer.question_tokens
        answer.max_tokens, answer.state = self.max_tokens, "reading"

    def _tell(self, answer: Answer, reading: PreparedPrompt, ready: PrefillResult, strategy: Strategy) -> None:
        """Put what was recomputed into the answer."""
        spans = layout(len(self.cache.prefix_ids), [len(chunk.ids) for chunk in reading.passages])
        answer.sources = with_recompute(answer.sources, reading, ready.rows, spans, ready.tiers, ready.num_path_chunks)
        self.stats.count(answer.sources)
        answer.recomputed_tokens = sum(source.recomputed for source in answer.sources)
        answer.realised_ratio = ready.actual_ratio
        if strategy.reuses and self.disk_error():
            answer.notes += ("The disk takes no more: passages' KV stays in memory and is lost at restart.",)
        untrained = self.auxiliary is None or self.auxiliary.selector is None
        if strategy.scoring is ScoreMode.LEARNED and untrained:
            answer.notes += ("No selector is trained for this model: the small model chose, as in CacheClip joint.",)
        answer.state = "writing"
