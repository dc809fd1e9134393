"""The way of one question: search, lookup, load, assemble, select, recompute, first token, decode.

Everything a person or a bench learns of it comes from the one trace that travels along.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from threading import Event

from engine.cache.hit_stats import Served
from engine.errors import Cancelled
from engine.generation.grounded_sampler import Grounds
from engine.generation.stream import write
from engine.kv.assemble import layout
from engine.kv.chunk_cache import ChunkCache
from engine.lru import Recent
from engine.model.sampling import Chooser, Sampling
from engine.model.tokenizer import Encoded
from engine.prefill.context import Evidence
from engine.prefill.prefill import Prefilled, prefill
from engine.prompt.budget import budget
from engine.prompt.builder import PreparedPrompt, alike, check, strategy_of
from engine.prompt.retrieval import readings
from engine.prompt.sources import found, patched
from engine.prompt.template import Prompt
from engine.request import Answer, Budget, Request
from engine.scheduler.scheduler import Turns
from engine.scheduler.speculation import SpeculationConfig, Speculator
from engine.scoring.auxiliary import Auxiliary
from engine.scoring.trained_selector import Selector
from engine.strategies import Strategy
from engine.trace import Trace
from engine.types import Scoring
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
        auxiliary: Auxiliary | None,
        turns: Turns | None = None,
        trouble: Callable[[], str] = lambda: "",
        speculation: SpeculationConfig | None = None,
        served: Served | None = None,
        grounds: Grounds | None = None,
    ) -> None:
        self.finder, self.cache, self.prompt, self.auxiliary = finder, cache, prompt, auxiliary
        self.max_tokens, self.trouble, self.grounds = cache.decoder.spec.max_positions, trouble, grounds
        self.turns, self.served = turns or Turns(), served or Served()
        self.speculator: Speculator[PreparedPrompt, Prefilled] = Speculator(self.turns, alike, speculation)

    def ask(self, request: Request, cancel: Event | None = None) -> Iterator[Answer]:
        """Yield one growing answer; the last one is 'done', or 'stopped' if `cancel` was set.

        Raises BadRequest, QuestionTooLong or DocumentTooLong before anything is computed.
        """
        cancel = cancel or Event()
        check(request)
        answer = Answer(request, Trace(settle=self.cache.decoder.settle))
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
        with self.visit(), self.turns.turn(lambda: self.cache.ready([passage.ids]), cancel or Event()):
            tier, *_ = [cache.get(prompt.passage(text).ids, cancel)[1] for cache, prompt in self.readers]
            for trained in self._trained:
                trained.warm(text, passage)
            for cache, _ in self.readers:
                cache.settle()
            return tier

    def close(self, patience_s: float) -> None:
        """Wait at most `patience_s` for the pass under way; the caller has told it to stop."""
        self.turns.close(patience_s)

    def forget(self, text: str) -> list[str]:
        """Remove all that is kept of one passage, its KV for both models too; return the names it had in the tree."""
        names = [name for cache, prompt in self.readers for name in cache.delete(prompt.passage_once(text).ids)]
        for remembered in self._remembered:
            remembered.forget(text)
        return names

    @contextmanager
    def visit(self) -> Iterator[None]:
        """Enclose work on passages: of one that is deleted meanwhile nothing stays at its end, KV or text."""
        with self.cache.tree.visit() as deleted:
            try:
                yield
            finally:
                if deleted:
                    for remembered in self._remembered:
                        remembered.clear()

    @property
    def _trained(self) -> list[Selector | Grounds]:
        """What reads passages with small models of our own, each once."""
        both = self.auxiliary.selector if self.auxiliary else None, self.grounds
        return [trained for trained in both if trained]

    @property
    def _remembered(self) -> list[Recent[Encoded] | Selector | Grounds]:
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
        loaded = [*(cache for cache, _ in self.readers), self.cache.alone]
        self.cache.tree.delete_others([cache.fingerprint for cache in loaded])

    def _answer(self, answer: Answer, cancel: Event) -> Iterator[Answer]:
        request, trace = answer.request, answer.trace
        strategy = strategy_of(request)

        def prefilled(reading: PreparedPrompt, trace: Trace, cancel: Event) -> Prefilled:
            return self.prefill(reading, strategy, trace, cancel)

        with self.visit(), ExitStack() as turn:
            stages = readings(self.finder, self.prompt, request, self.max_tokens, trace)
            reading, guess = self.speculator.follow(stages, prefilled, trace, turn, cancel)
            self._tell_reading(answer, reading)
            yield answer
            if guess is None or not guess.kept:
                turn.enter_context(self.turn(reading, strategy, trace, cancel))
            ready = prefilled(reading, trace, cancel) if guess is None else guess.result(cancel)
            chooser = self.chooser(reading, trace, Sampling(request.temperature, request.top_p, request.seed), cancel)
            first = chooser.choose(ready.logits)
            trace.first_token()
            self._tell(answer, reading, ready, strategy)
            yield answer
            try:
                yield from write(answer, self.cache.decoder, self.prompt, reading, ready, first, chooser, cancel)
            finally:
                self.keep(reading, ready)

    def keep(self, reading: PreparedPrompt, ready: Prefilled) -> None:
        """Keep what is exact, and what was computed, and count what was used, now that nobody waits for it."""
        self.cache.count(ready.uses)
        self.cache.keep([chunk.ids for chunk in reading.passages[: ready.exact]], ready.buffer)
        for cache, _ in self.readers:
            cache.settle()

    @contextmanager
    def turn(self, reading: PreparedPrompt, strategy: Strategy, trace: Trace, cancel: Event) -> Iterator[None]:
        """Wait until the model is free. Raises Cancelled if `cancel` is set while waiting."""
        chunks = [chunk.ids for chunk in reading.passages]

        def lengths() -> tuple[int, int]:
            cached = self.cache.ready(chunks, strategy.placement)[0] if strategy.reuses else 0
            return cached, reading.context_tokens - cached + len(reading.question)

        with ExitStack() as turn:
            with trace.stage("queue"):
                turn.enter_context(self.turns.turn(lengths, cancel))
            yield

    def chooser(
        self, reading: PreparedPrompt, trace: Trace, sampling: Sampling, cancel: Event | None = None
    ) -> Chooser:
        """Return what chooses the tokens of one answer. Raises Cancelled."""
        if self.grounds is None:
            return sampling.chooser()
        with trace.stage("ground"):
            return self.grounds.chooser(sampling.chooser(), reading, self.prompt, cancel)

    def find(self, request: Request, trace: Trace) -> PreparedPrompt:
        """Search the library to the end, and fit what was found into the model's context."""
        *_, reading = readings(self.finder, self.prompt, request, self.max_tokens, trace)
        return reading

    def budget(self, request: Request) -> Budget:
        """Return how a request would share out the model's context; nothing is searched for or computed.

        Raises QuestionTooLong.
        """
        return budget(self.finder, self.prompt, request, self.max_tokens)

    def evidence(
        self, reading: PreparedPrompt, trace: Trace, cancel: Event | None = None, longest: int | None = None
    ) -> Evidence:
        """Return what strategies may look at for one reading; nothing is computed yet.

        longest  passages of an exact path that may be used; None for all that the tree has
        """
        return Evidence(self.cache, self.prompt, self.auxiliary, reading, trace, cancel, longest)

    def prefill(
        self,
        reading: PreparedPrompt,
        strategy: Strategy,
        trace: Trace,
        cancel: Event | None = None,
        evidence: Evidence | None = None,
    ) -> Prefilled:
        """Bring one prompt's KV together as the strategy plans it, up to the logits of the first token.

        The page's answers and the bench take this same way.

        evidence  of this reading, where it is shared by several strategies
        """
        with closing(self.evidence(reading, trace, cancel)) if evidence is None else nullcontext(evidence) as looked:
            return prefill(self.cache.decoder, looked, strategy, trace, cancel)

    def _tell_reading(self, answer: Answer, reading: PreparedPrompt) -> None:
        """Put what will be read into the answer."""
        answer.notes, answer.sources, answer.left_out = reading.notes, found(reading), reading.left_out
        answer.question_tokens, answer.context_tokens = len(reading.question), reading.context_tokens
        answer.prompt_tokens = len(self.prompt.prefix) + answer.context_tokens + answer.question_tokens
        answer.max_tokens, answer.state = self.max_tokens, "reading"

    def _tell(self, answer: Answer, reading: PreparedPrompt, ready: Prefilled, strategy: Strategy) -> None:
        """Put what was recomputed into the answer."""
        spans = layout(len(self.cache.prefix_ids), [len(chunk.ids) for chunk in reading.passages])
        answer.sources = patched(answer.sources, reading, ready.rows, spans, ready.tiers, ready.path)
        self.served.count(answer.sources)
        answer.recomputed_tokens = sum(source.recomputed for source in answer.sources)
        answer.realised_ratio = ready.realised_ratio
        if strategy.reuses and self.trouble():
            answer.notes += ("The disk takes no more: passages' KV stays in memory and is lost at restart.",)
        untrained = self.auxiliary is None or self.auxiliary.selector is None
        if strategy.scoring is Scoring.TRAINED and untrained:
            answer.notes += ("No selector is trained for this model: the small model chose, as in CacheClip joint.",)
        answer.state = "writing"
