"""Routing of questions to engines by their set of chunks, by common prefix, or at random.

Ties and homes of new chunks: rendezvous hashing (Thaler and Ravishankar, 1998). Load bound: consistent hashing with
bounded loads (arXiv:1608.01350); an engine's load is the work in ms that it was given lately, not the length of its
queue at the moment, which the score takes into account: most queues are short, and 1.25x their mean excludes any engine
that is not idle.
"""

import random
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import RLock
from typing import Protocol

Chunks = Sequence[tuple[str, int]]  # (key, tokens) of a question's chunks, in the order of the prompt
MASK = 2**64 - 1
HALF_LIFE = 10_000  # questions after which the request counts are halved


class NoEngine(RuntimeError):
    """There is no engine to choose."""


class Routing(Protocol):
    """Chooses an engine for each question. Implementations are thread-safe."""

    def choose(self, chunks: Chunks) -> str:
        """Return the name of an engine. Raises NoEngine if there is none."""

    def started(self, engine: str, work_ms: float) -> None:
        """Add a question's expected prefill time to an engine's queued work."""

    def finished(self, engine: str, work_ms: float) -> None:
        """Take it off again; ignored if the engine has left in the meantime."""

    def add_engine(self, engine: str) -> None:
        """Make an engine eligible; one that is known keeps its state."""

    def remove_engine(self, engine: str) -> None:
        """Forget an engine, its chunks and its queued work."""


def stable_hash(text: str) -> int:
    """Return 64 bits that are the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def rendezvous_weight(key_hash: int, engine_hash: int) -> int:
    """Return the weight of an engine for a key; the highest one is the key's home (splitmix64's finalizer)."""
    mixed = key_hash ^ engine_hash
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & MASK
    return mixed ^ mixed >> 31


class ChunkMap:
    """Which engines hold which chunks, as far as their events tell. Thread-safe.

    Events may be lost, repeated or late; an engine's digest replaces whatever is known about it.
    """

    def __init__(self) -> None:
        self._engines: dict[str, set[str]] = {}  # by chunk
        self._chunks: dict[str, set[str]] = {}  # by engine
        self._lock = RLock()

    def insert(self, engine: str, keys: Iterable[str]) -> None:
        with self._lock:
            held = self._chunks.setdefault(engine, set())
            for key in keys:
                held.add(key)
                self._engines.setdefault(key, set()).add(engine)

    def evict(self, engine: str, keys: Iterable[str]) -> None:
        with self._lock:
            held = self._chunks.get(engine, set())
            for key in keys:
                if key in held:
                    held.remove(key)
                    self._discard(key, engine)

    def digest(self, engine: str, keys: Iterable[str]) -> None:
        """Replace an engine's set of chunks."""
        with self._lock:
            new = set(keys)
            old = self._chunks.get(engine, set())
            self.evict(engine, old - new)
            self.insert(engine, new - old)

    def remove_engine(self, engine: str) -> None:
        with self._lock:
            for key in self._chunks.pop(engine, ()):
                self._discard(key, engine)

    def holders(self, key: str) -> tuple[str, ...]:
        """Return the engines that hold a chunk, in no particular order."""
        with self._lock:
            return tuple(self._engines.get(key, ()))

    def chunks_of(self, engine: str) -> frozenset[str]:
        with self._lock:
            return frozenset(self._chunks.get(engine, ()))

    def _discard(self, key: str, engine: str) -> None:
        engines = self._engines[key]
        engines.discard(engine)
        if not engines:
            del self._engines[key]


@dataclass(frozen=True)
class RoutingConfig:
    """Settings that all policies share."""

    saved_ms_per_token: float  # measured: prefill time that one cached token saves
    load_bound: float = 1.15  # times the mean load, as expected; real loads then reach 1.25
    load_slack_ms: float = 5_000.0  # above the mean that is always allowed: a few questions are no load
    load_window_ms: float = 60_000.0  # mean load at which all loads are halved, so that old work is forgotten
    hot_share: float = 0.25  # of one engine's share of the questions: a chunk requested more often is replicated
    prefix_tokens: int = 400_000  # `prefix` only: tokens that the router remembers per engine


class BaseRouting:
    """The engines, their queued work and their load."""

    def __init__(self, config: RoutingConfig) -> None:
        self._config = config
        self._queued_ms: dict[str, float] = {}
        self._load_ms: dict[str, float] = {}
        self._hashes: dict[str, int] = {}
        self._lock = RLock()

    def add_engine(self, engine: str) -> None:
        with self._lock:
            self._queued_ms.setdefault(engine, 0.0)
            mean = sum(self._load_ms.values()) / max(1, len(self._load_ms))
            self._load_ms.setdefault(engine, mean)  # or a new engine would get everything for a while
            self._hashes[engine] = stable_hash(engine)

    def remove_engine(self, engine: str) -> None:
        with self._lock:
            self._queued_ms.pop(engine, None)
            self._load_ms.pop(engine, None)
            self._hashes.pop(engine, None)

    def engines(self) -> list[str]:
        with self._lock:
            return list(self._queued_ms)

    def queued_ms(self, engine: str) -> float:
        with self._lock:
            return self._queued_ms.get(engine, 0.0)

    def load_ms(self, engine: str) -> float:
        with self._lock:
            return self._load_ms.get(engine, 0.0)

    def started(self, engine: str, work_ms: float) -> None:
        with self._lock:
            if engine in self._queued_ms:
                self._queued_ms[engine] += work_ms
                self._load_ms[engine] += work_ms
                if sum(self._load_ms.values()) > self._config.load_window_ms * len(self._load_ms):
                    self._load_ms = {each: load / 2 for each, load in self._load_ms.items()}

    def finished(self, engine: str, work_ms: float) -> None:
        with self._lock:
            if engine in self._queued_ms:
                self._queued_ms[engine] = max(0.0, self._queued_ms[engine] - work_ms)

    def _eligible(self) -> dict[str, float]:
        """Return the queued work of the engines that are within the load bound; the least loaded one always is."""
        if not self._queued_ms:
            raise NoEngine("No engine is registered with the router.")
        loads = self._load_ms.values()
        mean = sum(loads) / len(loads)
        bound = max(min(loads), self._config.load_bound * mean, mean + self._config.load_slack_ms)
        return {engine: self._queued_ms[engine] for engine, load in self._load_ms.items() if load <= bound}

    def _best(self, cached: dict[str, float], key_hash: int) -> str:
        """Return the eligible engine with the highest score; the rendezvous weight decides between equal ones."""
        eligible = self._eligible()
        saved = self._config.saved_ms_per_token
        scores = {engine: saved * cached.get(engine, 0) - queued for engine, queued in eligible.items()}
        best = max(scores.values())
        ties = [engine for engine, score in scores.items() if score == best]
        return max(ties, key=lambda engine: rendezvous_weight(key_hash, self._hashes[engine]))

    def _rank(self, key_hash: int) -> list[str]:
        """Return all engines by descending rendezvous weight."""
        return sorted(self._hashes, key=lambda engine: -rendezvous_weight(key_hash, self._hashes[engine]))


class SetRouting(BaseRouting):
    """score(engine) = cached tokens of these chunks x saved ms per token - queued ms, whatever their order.

    If no engine holds any of the chunks, the home is that of the chunk with the lowest hash, so that overlapping sets
    tend to share it; engines above the load bound are passed over. A hot chunk that one engine holds counts as held by
    its second home, too: the first question sent there computes it, and so replicates it.
    """

    def __init__(self, config: RoutingConfig, chunk_map: ChunkMap) -> None:
        super().__init__(config)
        self._map = chunk_map
        self._requests = Counter[str]()
        self._total = 0

    def remove_engine(self, engine: str) -> None:
        super().remove_engine(engine)
        self._map.remove_engine(engine)

    def choose(self, chunks: Chunks) -> str:
        with self._lock:
            self._count(chunks)
            cached: dict[str, float] = {}
            for key, tokens in chunks:
                for engine in self._holders(key):
                    cached[engine] = cached.get(engine, 0) + tokens
            key_hash = min((stable_hash(key) for key, _ in chunks), default=0)
            if cached or not chunks:
                return self._best(cached, key_hash)
            eligible = self._eligible()
            return max(eligible, key=lambda engine: rendezvous_weight(key_hash, self._hashes[engine]))

    def _holders(self, key: str) -> Sequence[str]:
        holders = self._map.holders(key)
        fair_share = self._total / max(1, len(self._hashes))
        if len(holders) != 1 or self._requests[key] <= max(2.0, self._config.hot_share * fair_share):
            return holders
        second = next((engine for engine in self._rank(stable_hash(key))[:2] if engine not in holders), None)
        return holders if second is None else (*holders, second)

    def _count(self, chunks: Chunks) -> None:
        self._total += 1
        self._requests.update(key for key, _ in chunks)
        if self._total >= 2 * HALF_LIFE:
            self._total //= 2
            self._requests = Counter({key: count // 2 for key, count in self._requests.items() if count > 1})


class PrefixRouting(BaseRouting):
    """The longest common prefix of the ordered chunks with what an engine was sent before, as in SGLang and llm-d.

    Same score and load bound as `SetRouting`, with the tokens of the common prefix. The router remembers the most
    recently used prefixes of each engine, up to `prefix_tokens`.
    """

    def __init__(self, config: RoutingConfig) -> None:
        super().__init__(config)
        self._map = ChunkMap()
        self._sent: dict[str, OrderedDict[str, int]] = {}
        self._tokens = Counter[str]()

    def remove_engine(self, engine: str) -> None:
        with self._lock:
            super().remove_engine(engine)
            self._map.remove_engine(engine)
            self._sent.pop(engine, None)
            del self._tokens[engine]

    def choose(self, chunks: Chunks) -> str:
        with self._lock:
            cached: dict[str, float] = {}
            path, paths, length = "", [], 0
            for key, tokens in chunks:
                path, length = f"{path}/{key}", length + tokens
                paths.append((path, tokens))
                cached.update(dict.fromkeys(self._map.holders(path), length))
            engine = self._best(cached, stable_hash(chunks[0][0]) if chunks else 0)
            self._remember(engine, paths)
            return engine

    def _remember(self, engine: str, paths: Sequence[tuple[str, int]]) -> None:
        sent = self._sent.setdefault(engine, OrderedDict())
        for path, tokens in reversed(paths):  # a prefix is forgotten after what extends it
            if path not in sent:
                self._tokens[engine] += tokens
                self._map.insert(engine, [path])
            sent[path] = tokens
            sent.move_to_end(path)
        while self._tokens[engine] > self._config.prefix_tokens:
            path, tokens = sent.popitem(last=False)
            self._tokens[engine] -= tokens
            self._map.evict(engine, [path])


class RandomRouting(BaseRouting):
    """A random engine within the load bound."""

    def __init__(self, config: RoutingConfig, seed: int = 0) -> None:
        super().__init__(config)
        self._random = random.Random(seed)

    def choose(self, chunks: Chunks) -> str:
        with self._lock:
            return self._random.choice(list(self._eligible()))
