"""The way of one question: search, lookup, load, assemble, select, recompute, first token, decode.

Everything a person or a bench learns of it comes from the one trace that travels along.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from threading import Event

from engine.answer import Answer, Request
from engine.cite import cite, repetition
from engine.errors import Cancelled
from engine.inspect.inspection import Inspection
from engine.inspect.probe import inspecting
from engine.model.generate import Chooser, Sampling, cut_at, decode
from engine.prefill import Prefilled, prefill
from engine.prompt import Prompt
from engine.request import Reading, alike, check, fit, strategy_of
from engine.reuse.assemble import layout
from engine.reuse.auxiliary import Auxiliary
from engine.reuse.chunks import ChunkCache
from engine.reuse.evidence import Evidence
from engine.reuse.strategies import Strategy
from engine.schedule.speculation import SpeculationConfig, Speculator
from engine.schedule.turns import Turns
from engine.sources import found, patched
from engine.trace import Trace
from engine.types import Scoring
from store.types import Finder

STOP_STRINGS = ("\nQuestion:", "\nPassages:", "\n#")  # a small model likes to go on with a text of its own


class Engine:
    """Answers questions over a library with one primary and one auxiliary model.

    cache      the primary's chunk KV; holds the primary model
    auxiliary  None where no method needs one

    turns      who uses the primary next
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
    ) -> None:
        self.finder, self.cache, self.prompt, self.auxiliary = finder, cache, prompt, auxiliary
        self.max_tokens, self.trouble = cache.decoder.spec.max_positions, trouble
        self.turns = turns or Turns()
        self.speculator: Speculator[Reading, Prefilled] = Speculator(self.turns, alike, speculation)

    def ask(self, request: Request, cancel: Event | None = None) -> Iterator[Answer]:
        """Yield one growing answer; the last one is 'done', or 'stopped' if `cancel` was set.

        Raises BadRequest or QuestionTooLong before anything is computed.
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

    def inspect(self, request: Request, cancel: Event | None = None) -> Inspection:
        """Compare what the models look at for one question, and what each method would recompute: see `inspecting`."""
        *_, last = inspecting(self, request, cancel or Event())
        assert last.found is not None
        return last.found

    def warm(self, text: str, cancel: Event | None = None) -> str:
        """Compute and keep the KV of one passage, for both models; return the tier it was found in."""
        ids = self.prompt.passage(text).ids
        with self.cache.tree.visit(), self.turns.turn(lambda: self.cache.ready([ids]), cancel or Event()):
            tier = self.cache.get(ids, cancel)[1]
            if self.auxiliary is not None and self.auxiliary.cache is not self.cache:
                self.auxiliary.cache.get(self.auxiliary.prompt.passage(text).ids, cancel)
            for cache in self._caches:
                cache.settle()
            return tier

    def close(self, patience_s: float) -> None:
        """Wait at most `patience_s` for the pass under way; the caller has told it to stop."""
        self.turns.close(patience_s)

    def forget(self, text: str) -> None:
        """Remove the KV of one passage from every tier, for both models."""
        self.cache.delete(self.prompt.passage(text).ids)
        if self.auxiliary is not None:
            self.auxiliary.cache.delete(self.auxiliary.prompt.passage(text).ids)

    @property
    def _caches(self) -> list[ChunkCache]:
        return [self.cache, *([self.auxiliary.cache] if self.auxiliary else [])]

    def forget_others(self) -> None:
        """Remove all KV of models that are not loaded: nobody knows which passages it belongs to."""
        self.cache.tree.delete_others([cache.fingerprint for cache in (*self._caches, self.cache.alone)])

    def _answer(self, answer: Answer, cancel: Event) -> Iterator[Answer]:
        request, trace = answer.request, answer.trace
        strategy = strategy_of(request)

        def prefilled(reading: Reading, trace: Trace, cancel: Event) -> Prefilled:
            return self.prefill(reading, strategy, trace, cancel)

        with self.cache.tree.visit(), ExitStack() as turn:
            readings = self._readings(request, trace)
            reading, guess = self.speculator.follow(readings, prefilled, trace, turn, cancel)
            answer.notes = reading.notes
            answer.sources = found(reading)
            answer.question_tokens = len(reading.question)
            answer.context_tokens = reading.context_tokens
            answer.state = "reading"
            yield answer
            if guess is None:
                turn.enter_context(self.turn(reading, strategy, trace, cancel))
                ready = prefilled(reading, trace, cancel)
            else:
                ready = guess.result(cancel)
            sampling = Sampling(request.temperature, request.top_p, request.seed).chooser()
            first = sampling.choose(ready.logits)
            trace.first_token()
            self._tell(answer, reading, ready, strategy)
            yield answer
            try:
                yield from self._write(answer, reading, ready, first, sampling, cancel)
            finally:
                self.keep(reading, ready)

    def keep(self, reading: Reading, ready: Prefilled) -> None:
        """Keep what is exact, and what was computed, now that nobody waits for it."""
        self.cache.keep([chunk.ids for chunk in reading.passages[: ready.exact]], ready.buffer)
        for cache in self._caches:
            cache.settle()

    @contextmanager
    def turn(self, reading: Reading, strategy: Strategy, trace: Trace, cancel: Event) -> Iterator[None]:
        """Wait until the model is free. Raises Cancelled if `cancel` is set while waiting."""
        chunks = [chunk.ids for chunk in reading.passages]

        def lengths() -> tuple[int, int]:
            cached, missing = self.cache.ready(chunks) if strategy.reuses else (0, reading.context_tokens)
            return cached, missing + len(reading.question)

        with ExitStack() as turn:
            with trace.stage("queue"):
                turn.enter_context(self.turns.turn(lengths, cancel))
            yield

    def find(self, request: Request, trace: Trace) -> Reading:
        """Search the library to the end, and fit what was found into the model's context."""
        *_, reading = self._readings(request, trace)
        return reading

    def _readings(self, request: Request, trace: Trace) -> Iterator[Reading]:
        """Yield what would be read after each stage of the search; the last one is final."""
        began = trace.now_ms()
        for hits in self.finder.stages(request.question, request.passages):
            trace.add("search", began)
            with trace.stage("lookup"):
                reading = fit(self.prompt, request, hits, self.max_tokens)
            yield reading
            began = trace.now_ms()

    def evidence(self, reading: Reading, trace: Trace, cancel: Event | None = None) -> Evidence:
        """Return what strategies may look at for one reading; nothing is computed yet."""
        return Evidence(self.cache, self.prompt, self.auxiliary, reading, trace, cancel)

    def prefill(
        self,
        reading: Reading,
        strategy: Strategy,
        trace: Trace,
        cancel: Event | None = None,
        evidence: Evidence | None = None,
    ) -> Prefilled:
        """Bring one prompt's KV together as the strategy plans it, up to the logits of the first token.

        The page's answers and the bench take this same way.

        evidence  of this reading, where it is shared by several strategies
        """
        if evidence is not None:
            return prefill(self.cache.decoder, evidence, strategy, trace, cancel)
        with closing(self.evidence(reading, trace, cancel)) as own:
            return prefill(self.cache.decoder, own, strategy, trace, cancel)

    def _tell(self, answer: Answer, reading: Reading, ready: Prefilled, strategy: Strategy) -> None:
        """Put what was recomputed into the answer."""
        spans = layout(len(self.cache.prefix_ids), [len(chunk.ids) for chunk in reading.passages])
        answer.sources = patched(answer.sources, reading, ready.rows, spans, ready.tiers, ready.path)
        answer.recomputed_tokens = sum(source.recomputed for source in answer.sources)
        answer.realised_ratio = ready.realised_ratio
        if strategy.reuses and self.trouble():
            answer.notes += ("The disk takes no more: passages' KV stays in memory and is lost at restart.",)
        untrained = self.auxiliary is None or self.auxiliary.selector is None
        if strategy.scoring is Scoring.TRAINED and untrained:
            answer.notes += ("No selector is trained for this model: all its layers chose, as in CacheClip joint.",)
        answer.state = "writing"

    def _write(
        self, answer: Answer, reading: Reading, ready: Prefilled, first: int, sampling: Chooser, cancel: Event
    ) -> Iterator[Answer]:
        stream, began = self.prompt.tokens.stream(), time.perf_counter()

        def texts() -> Iterator[str]:
            tokens = decode(
                self.cache.decoder, ready.buffer, first, sampling, self.prompt.stop_ids, reading.room, cancel
            )
            for token in tokens:
                answer.new_tokens += 1
                if answer.new_tokens > 1:  # the first token belongs to the prefill
                    answer.tokens_per_second = (answer.new_tokens - 1) / (time.perf_counter() - began)
                yield stream(token)

        with answer.trace.stage("decode"):
            for text in cut_at(texts(), STOP_STRINGS):
                answer.text += text
                if (said_before := repetition(answer.text)) is not None:
                    answer.text = answer.text[:said_before]
                    answer.notes += ("The answer began to repeat itself and was ended there.",)
                    break
                yield answer
        answer.text, cited = cite(answer.text.strip(), reading.texts, answer.request.question)
        answer.sources = tuple(replace(source, cited=source.rank in cited) for source in answer.sources)
