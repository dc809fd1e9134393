"""Questions of one KVScope, answered by the engines of a cluster: choose, stream, try another one, or answer here.

The front has the documents, searches, and sends the passages with the question. Engines hold KV only; losing one loses
no data. A question is sent to another engine as long as no text was shown, and answered by the front's own engine if
there is no other: never by two engines in one answer.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from threading import Event, Lock, Thread
from typing import Any, Protocol
from uuid import uuid4

from cluster.routing import ChunkMap, NoEngine, RoutingConfig, SetRouting
from engine.engine import Engine
from engine.fidelity import FidelityCurve
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind, question_kind
from engine.prompt.validate import validate
from engine.request import Answer, RatioPreview, Request
from engine.trace import Stage, Trace

PROTOCOL = 2  # changes with the meaning of what front and engines send each other
REFRESH_S = 5.0  # between two looks at the engines and their chunks
STOP_S = 0.5  # between two requests to stop
POLL_S = 0.05  # between two looks at whether the user stopped the answer
DELETED_S = 3600.0  # that deletions are repeated to engines that come or come back
STOPPED = "The engine {} stopped while it answered. Ask again; another engine will answer."
SENT_FIELDS = {field.name for field in fields(Answer)} - {"request", "engine"}
Changes = dict[str, Any]  # fields of an answer that differ from the one sent before
log = logging.getLogger("kvscope")


class EngineLost(Exception):
    """An engine ended, or cannot be reached. Not for users: another engine answers."""


@dataclass(frozen=True)
class EngineInfo:
    """What must be equal on all engines and the front, so that all give the same answers."""

    model: str  # fingerprints of weights, dtype and prefix, of the main and the auxiliary model
    heads: str  # which of our trained token selector and span scorer are loaded
    kv_bits: int  # of KV from the KV server
    protocol: int = PROTOCOL

    @classmethod
    def of(cls, engine: Engine) -> "EngineInfo":
        auxiliary, grounding = engine.auxiliary, engine.grounding
        fingerprints = [engine.cache.fingerprint, auxiliary.cache.fingerprint]
        heads = [auxiliary.selector, grounding and grounding.span_scorer]
        is_extractive = bool(grounding and grounding.is_extractive)
        names = [name for name, head in zip(("selector", "span scorer"), heads, strict=True) if head is not None]
        kv_bits = engine.cache.remote.bits if engine.cache.remote else 16
        return cls(" ".join(each[:12] for each in fingerprints), f"{names}, extractive: {is_extractive}", kv_bits)

    def __str__(self) -> str:
        return f"the models {self.model} with {self.heads}, {self.kv_bits}-bit KV and protocol {self.protocol}"


@dataclass(frozen=True)
class Question:
    """A question as it is sent to an engine."""

    id: str
    info: EngineInfo  # of the front; another engine refuses the question
    request: Request
    prepared: PreparedPrompt
    fidelity: FidelityCurve | None  # as calibrated by the front


class EngineClient(Protocol):
    """One engine. All methods raise EngineLost."""

    def info(self) -> EngineInfo: ...

    def ask(self, question: Question) -> Iterator[Answer]:
        """Yield the answer so far; the last one is done or stopped. Raises what `Engine.ask` raises, too."""

    def stop(self, question_id: str) -> None:
        """Stop a question; unknown ones are ignored."""

    def chunk_keys(self) -> list[str]:
        """Return the keys of the chunks whose KV the engine has."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete chunks."""


class Dispatcher:
    """Sends questions to engines. Thread-safe.

    find_engines  returns the engines that run now, by name; called every REFRESH_S
    """

    def __init__(self, find_engines: Callable[[], Mapping[str, EngineClient]]) -> None:
        self.refused: dict[str, str] = {}  # engines that are not used, with the reason
        self._find_engines = find_engines
        self._engines: dict[str, EngineClient] = {}
        self._map = ChunkMap()
        self._routing: SetRouting | None = None  # needs the front's costs
        self._deleted: dict[str, float] = {}  # keys by the time of their deletion
        self._told: dict[str, set[str]] = {}  # of these, by engine: what it has deleted
        self._lock = Lock()
        self._front: Engine | None = None  # whose models the engines were compared with
        self._is_closed = False
        self._wake = Event()

    def start(self, front: Callable[[], Engine | None]) -> None:
        """Look for engines from now on; `front` returns the front's own engine, None until it is loaded."""

        def refresh_often() -> None:
            while not self._is_closed:
                try:
                    if (engine := front()) is not None:
                        self.refresh(engine)
                except Exception:
                    log.exception("the engines of the cluster cannot be listed")
                self._wake.wait(REFRESH_S)
                self._wake.clear()

        Thread(target=refresh_often, name="cluster", daemon=True).start()

    def close(self) -> None:
        """Look for engines no more."""
        self._is_closed = True
        self._wake.set()

    def engine_names(self) -> list[str]:
        """Return the engines that answer questions."""
        with self._lock:
            return sorted(self._engines)

    def ask(self, front: Engine, request: Request, cancel: Event) -> Iterator[Answer]:
        """Answer a request as `Engine.ask` does."""
        validate(request)
        is_small_talk = question_kind(request.question) is QuestionKind.SMALL_TALK
        if front is not self._front or not self.engine_names() or is_small_talk:
            yield from front.ask(request, cancel)
            return
        with front.passages.track_deletions():
            yield from self._ask(front, request, cancel)

    def _ask(self, front: Engine, request: Request, cancel: Event) -> Iterator[Answer]:
        answer, trace = Answer(request, Trace()), Trace()
        yield answer
        prepared = front.prepare(request, trace)
        question = Question(uuid4().hex, EngineInfo.of(front), request, prepared, front.fidelity)
        chunks = [(front.cache.chunk_key(ids), len(ids)) for ids in prepared.passage_ids]
        while not cancel.is_set() and (name := self._choose(chunks)):
            sent_ms = trace.now_ms()
            try:
                for part in self._ask_engine(name, question, front, cancel):
                    if trace.ttft_ms is None and part.trace.ttft_ms is not None:
                        trace.first_token()
                    answer = _as_seen_here(part, request, name, trace, sent_ms)
                    yield answer
            except EngineLost as error:
                self._forget(name, str(error))
                if answer.text:
                    yield replace(answer, state="stopped", notes=(*answer.notes, STOPPED.format(name)))
                    return
                trace.ttft_ms = None
            else:
                self._map.insert(name, (key for key, _ in chunks))
                return
            finally:
                self._repeat_deletions(name, [key for key, _ in chunks])
        yield from front.ask(request, cancel, prepared)

    def chunk_keys(self) -> set[str]:
        """Return the keys of the chunks that some engine has, as far as is known."""
        return {key for name in self.engine_names() for key in self._map.chunks_of(name)}

    def delete(self, keys: Sequence[str]) -> None:
        """Have chunks deleted from all engines, also from those that cannot be reached now. Does not wait for them."""
        now = time.monotonic()
        with self._lock:
            self._deleted = {key: at for key, at in self._deleted.items() if now - at < DELETED_S}
            for name, told in self._told.items():
                self._told[name] = (told & self._deleted.keys()) - set(keys)
            self._deleted.update(dict.fromkeys(keys, now))
        self._wake.set()

    def _repeat_deletions(self, engine: str, keys: Sequence[str]) -> None:
        """Delete chunks again that were deleted while an engine may have computed them."""
        with self._lock:
            again = self._deleted.keys() & set(keys)
            self._told.get(engine, set()).difference_update(again)
        if again:
            self._wake.set()

    def refresh(self, front: Engine) -> None:
        """Find engines that came or went, tell them what was deleted, and ask what they have cached."""
        self._use_front(front)
        found = dict(self._find_engines())
        self.refused = {name: reason for name, reason in self.refused.items() if name in found}
        for name in self._engines.keys() - found.keys():
            self._forget(name, "it ended")
        for name, engine in found.items():
            try:
                if not self._admit(name, engine):
                    continue
                self._tell(name, engine)
                self._map.digest(name, engine.chunk_keys())
            except EngineLost as error:
                self._forget(name, str(error))

    def _admit(self, name: str, engine: EngineClient) -> bool:
        """Use an engine if it has the front's model and version; one of the same name may have been replaced."""
        if self._front is None or self._routing is None:
            return False
        own, other = EngineInfo.of(self._front), engine.info()
        if own != other:
            reason = f"The engine {name} has {other}; this KVScope has {own}."
            if self.refused.get(name) != reason:
                log.error("%s It is not used. Start it with the same model and version.", reason)
            self.refused[name] = reason
            self._forget(name, reason)
            return False
        with self._lock:
            if name not in self._engines:
                log.info("the engine %s answers questions", name)
            self.refused.pop(name, None)
            self._engines[name] = engine
            self._told.setdefault(name, set())
            self._routing.add_engine(name)
        return True

    def _use_front(self, front: Engine) -> None:
        with self._lock:
            if front is self._front:
                return
            self._front = front
            self._engines.clear()  # their models are compared with the new one's
            costs = front.cache.costs
            self._routing = SetRouting(RoutingConfig(costs.ms_per_token(0, 512) if costs else 1.0), self._map)

    def _choose(self, chunks: Sequence[tuple[str, int]]) -> str:
        with self._lock, suppress(NoEngine):
            return self._routing.choose(chunks) if self._routing else ""
        return ""

    def _ask_engine(self, name: str, question: Question, front: Engine, cancel: Event) -> Iterator[Answer]:
        with self._lock:
            engine, routing = self._engines.get(name), self._routing
        if engine is None or routing is None:
            raise EngineLost("it ended")
        prepared, costs = question.prepared, front.cache.costs
        work_ms = costs.estimate_ms(prepared.context_tokens, len(prepared.suffix_ids)) if costs else 1.0
        routing.started(name, work_ms)
        try:
            with _stop_with(cancel, lambda: engine.stop(question.id)):
                yield from engine.ask(question)
        finally:
            routing.finished(name, work_ms)

    def _tell(self, name: str, engine: EngineClient) -> None:
        """Repeat deletions to an engine that has not confirmed them."""
        with self._lock:
            told = self._told.get(name, set())
            pending = {key: at for key, at in self._deleted.items() if key not in told}
        if pending:
            engine.delete(list(pending))
            with self._lock:  # what was deleted again meanwhile is sent again
                told.update(key for key, at in pending.items() if self._deleted.get(key) == at)

    def _forget(self, name: str, reason: str) -> None:
        with self._lock:
            self._told.pop(name, None)
            if self._routing:
                self._routing.remove_engine(name)
            if self._engines.pop(name, None) is not None:
                log.warning("the engine %s is not used any more: %s", name, reason)


def changes_of(answers: Iterator[Answer]) -> Iterator[Changes]:
    """Yield the fields of each answer that differ from those of the one before; none refers to the model."""
    sent: Changes = {}
    for answer in answers:
        values = {name: getattr(answer, name) for name in SENT_FIELDS} | {"trace": answer.trace.snapshot()}
        if (draft := answer.draft) is not None:  # it grows: send what it is now
            values["draft"] = replace(draft, trace=draft.trace.snapshot())
        changes = {name: value for name, value in values.items() if name not in sent or _is_new(value, sent[name])}
        sent |= changes
        yield changes


def _is_new(value: Any, sent: Any) -> bool:
    if isinstance(value, Trace | Answer) and sent is not None:  # the start of a trace differs always
        return bool(value.as_dict() != sent.as_dict())
    return value is not sent and bool(value != sent)


@contextmanager
def _stop_with(cancel: Event, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` when `cancel` is set inside the block, until the block ends: the first one may come too early."""
    is_over = Event()

    def watch() -> None:
        while not is_over.wait(POLL_S):
            if cancel.is_set():
                with suppress(EngineLost):
                    stop()
                is_over.wait(STOP_S)

    Thread(target=watch, name="cluster stop", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def _as_seen_here(answer: Answer, request: Request, engine: str, trace: Trace, sent_ms: float) -> Answer:
    """Return an engine's answer with the user's request, and its stages after those of the front's trace."""
    seen = Trace(stages=_later(answer.trace, sent_ms, trace.stages), ttft_ms=trace.ttft_ms, start_s=trace.start_s)
    draft, preview = answer.draft, answer.preview
    if draft is not None:
        ttft_ms = None if draft.trace.ttft_ms is None else draft.trace.ttft_ms + sent_ms
        draft_trace = Trace(stages=_later(draft.trace, sent_ms, ()), ttft_ms=ttft_ms, start_s=trace.start_s)
        draft = replace(draft, request=request, trace=draft_trace)

    def preview_seen(ratio: float) -> RatioPreview | None:
        found = preview(ratio) if preview else None
        return found and replace(found, ttft_ms=None if found.ttft_ms is None else found.ttft_ms + sent_ms)

    shown = replace(answer, request=request, trace=seen, engine=engine, draft=draft)
    return replace(shown, preview=preview_seen) if preview else shown


def _later(trace: Trace, ms: float, before: Sequence[Stage]) -> list[Stage]:
    """Return the stages of a trace, so much later, after others."""
    return [*before, *(replace(stage, start_ms=stage.start_ms + ms) for stage in trace.stages)]
