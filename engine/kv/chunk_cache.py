"""Chunk KV from wherever it is cheapest: the knowledge tree's tiers, or the model itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event, RLock

import torch

from engine.cache.cost_model import CostModel
from engine.cache.knowledge_tree import KnowledgeTree, NodeKey
from engine.cache.node import Node
from engine.kv import fingerprint
from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer
from engine.types import ChunkKV, Placement

Ids = Sequence[int]
TouchedNodes = list[Node]
HOT = 2  # uses that make a path worth a copy on disk; a chunk's own KV gets one at once


@dataclass(frozen=True, slots=True)
class ChunkSet:
    """The KV of a prompt's chunks.

    chunks  in prompt order; only the leading ones where nothing else was asked for
    tiers   where each came from: a tier's name, or 'computed', also of what is still to be computed
    exact   leading chunks that were found as one path: their KV is exact where they stand
    """

    chunks: tuple[ChunkKV, ...]
    tiers: tuple[str, ...]
    exact: int


@dataclass
class ChunkCache:
    """Chunk KV of one model after one shared prefix.

    tree   shared between models: fingerprints keep them apart, and equal models share everything
    costs  what computing takes; without it every token costs the same, and whatever is stored is read
    """

    decoder: Decoder
    prefix_ids: tuple[int, ...]
    tree: KnowledgeTree[ChunkKV]
    costs: CostModel | None = None
    _lock: RLock = field(default_factory=RLock)
    _fresh: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._model = fingerprint.model_fingerprint(self.decoder)
        buffer = self.decoder.buffer(len(self.prefix_ids))
        if self.prefix_ids:
            self.decoder.prefill(torch.tensor(self.prefix_ids), buffer, torch.arange(len(self.prefix_ids)))
        self.prefix = ChunkKV(buffer.keys, buffer.values, 0)

    @cached_property
    def without_prefix(self) -> "ChunkCache":
        """The same chunks computed without any prefix: what naive reuse finds."""
        return ChunkCache(self.decoder, (), self.tree, self.costs)

    @cached_property
    def fingerprint(self) -> str:
        """Names the model and the prefix: two caches with the same one hold the same KV."""
        return fingerprint.chunk_fingerprint(self._model, self.prefix_ids, ())

    def key(self, ids: Ids) -> str:
        return fingerprint.chunk_fingerprint(self._model, self.prefix_ids, ids)

    def names(self, ids: Ids) -> tuple[str, str]:
        """Return the keys of a chunk however it was computed: behind the shared prefix, and without any."""
        return self.key(ids), fingerprint.chunk_fingerprint(self._model, (), ids)

    def keys(self, chunks: Sequence[Ids]) -> list[str]:
        """Return the key of each path that ends at one of the chunks, in order."""
        keys: list[str] = []
        for ids in chunks:
            keys.append(fingerprint.path_fingerprint(keys[-1], self.key(ids)) if keys else self.key(ids))
        return keys

    def get(self, ids: Ids, cancel: Event | None = None, uses: TouchedNodes | None = None) -> tuple[ChunkKV, str]:
        """Return a chunk's own KV and the tier it came from, or 'computed'.

        uses  takes the node that was read, for `count` once an answer was made of it

        Two threads that ask for the same chunk compute it once. Raises Cancelled once `cancel` is set.
        """
        key = self.key(ids)
        with self._lock, self.tree.pinned_while([key]) as nodes:
            if nodes and (found := self._read(nodes[0], 0, len(ids))) is not None:
                if uses is not None:
                    uses += nodes
                return found
            kv = self.compute(ids, cancel)
            self.tree.insert(NodeKey(key, key, None, len(ids), self.fingerprint), kv, self._per_token(0, len(ids)))
            self._fresh.append(key)
        return kv, "computed"

    def gather(
        self,
        chunks: Sequence[Ids],
        cancel: Event | None = None,
        longest: int | None = None,
        uses: TouchedNodes | None = None,
    ) -> ChunkSet:
        """Return a prompt's chunks: the longest exact path of them, completed by content.

        longest  chunks that the path may have; 1 takes every chunk by its content
        uses     as in `get`

        Raises Cancelled once `cancel` is set.
        """
        path = self.match_prefix(chunks, longest, uses)
        rest = [self.get(ids, cancel, uses) for ids in chunks[path.exact :]]
        kvs, tiers = tuple(kv for kv, _ in rest), tuple(tier for _, tier in rest)
        return ChunkSet(path.chunks + kvs, path.tiers[: path.exact] + tiers, path.exact)

    def match_prefix(
        self, chunks: Sequence[Ids], longest: int | None = None, uses: TouchedNodes | None = None
    ) -> ChunkSet:
        """Return the longest exact path of a prompt's chunks, and nothing of what stands behind it."""
        found: list[tuple[ChunkKV, str]] = []
        with self.tree.pinned_while(self.keys(chunks[:longest])) as nodes:
            before = 0
            for node, ids in zip(nodes, chunks, strict=False):
                if (read := self._read(node, before, len(ids))) is None or read[0].quantized:
                    break
                found.append(read)
                before += len(ids)
            if uses is not None:
                uses += nodes[: len(found)]
        kvs, tiers = tuple(kv for kv, _ in found), tuple(tier for _, tier in found)
        return ChunkSet(kvs, tiers + ("computed",) * (len(chunks) - len(found)), len(found))

    def record_hits(self, nodes: Sequence[Node]) -> None:
        """Count one use of each node; a path that became hot is copied to the slowest tier by the next `settle`."""
        self.tree.record_hit(nodes)
        with self._lock:
            self._fresh += [node.key for node in nodes if node.frequency == HOT]

    def ready(self, chunks: Sequence[Ids], placement: Placement = Placement.CONCATENATED) -> tuple[int, int]:
        """Return how many tokens of chunks have KV that a placement uses, and how many have none. Reads nothing."""
        if placement is Placement.NO_PREFIX:
            return self.without_prefix.ready(chunks)
        exact, by_content = len(self.tree.match_prefix(self.keys(chunks))), placement is not Placement.EXACT_PREFIX
        held = [number < exact or (by_content and self.key(ids) in self.tree) for number, ids in enumerate(chunks)]
        cached = sum(len(ids) for ids, here in zip(chunks, held, strict=True) if here)
        return cached, sum(map(len, chunks)) - cached

    def insert_path(self, chunks: Sequence[Ids], buffer: KVBuffer) -> None:
        """Keep the paths to these chunks: their KV in the buffer is exact, laid end to end behind the prefix."""
        keys, start = self.keys(chunks), len(self.prefix_ids)
        with self.tree.pinned_while(keys) as nodes:
            known = next((place for place, node in enumerate(nodes) if self._is_rounded(node)), len(nodes))
        before = sum(map(len, chunks[:known]))
        ms_per_token = self._per_token(before, sum(map(len, chunks)) - before)
        for number, ids in enumerate(chunks):
            slots = slice(start, start + len(ids))
            if number >= known:
                kv = ChunkKV(buffer.keys[:, :, slots].clone(), buffer.values[:, :, slots].clone(), start)
                parent = keys[number - 1] if number else None
                place = NodeKey(keys[number], self.key(ids), parent, len(ids), self.fingerprint)
                if self.tree.insert(place, kv, ms_per_token) is None:
                    return
                if not number:
                    with self._lock:
                        self._fresh.append(keys[0])
            start = slots.stop

    def flush(self) -> None:
        """Copy what was computed or became hot since the last time to the slowest tier, to outlive the process."""
        with self._lock:
            fresh, self._fresh = self._fresh, []
        late = [key for key in fresh if not self.tree.replicate(key) and key in self.tree]
        if self.tree.tiers[-1].budget_bytes:  # else it will never take any
            with self._lock:
                self._fresh += late
        if "alone" in self.__dict__:
            self.without_prefix.flush()

    def compute(self, ids: Ids, cancel: Event | None = None) -> ChunkKV:
        """Prefill one chunk behind the shared prefix."""
        return prefill_chunk(self.decoder, self.prefix, ids, cancel)

    def delete(self, ids: Ids) -> tuple[str, str]:
        """Remove a chunk's KV, and every path through it, from every tier, however it was computed; return `names`."""
        names = self.names(ids)
        for name in names:
            self.tree.delete(name)
        return names

    def _read(self, node: Node, before: int, tokens: int) -> tuple[ChunkKV, str] | None:
        """Read a node, unless computing its tokens behind `before` others is faster."""
        if self.costs is not None and self.tree.read_ms(node) > self.costs.of(len(self.prefix_ids) + before, tokens):
            self.tree.record_skip(node)
            return None
        found = self.tree.read(node)
        return None if found is None else (found[0].to(self.decoder.device), found[1])

    def _is_rounded(self, node: Node) -> bool:
        """Whether what memory has of a held node came back from disk in 8 bits."""
        tier = self.tree.tiers[node.level]
        return tier.name != "disk" and tier.store.get(node.key).quantized

    def _per_token(self, before: int, computed: int) -> float:
        return self.costs.per_token(len(self.prefix_ids) + before, computed) if self.costs else 1.0


def prefill_chunk(decoder: Decoder, prefix: ChunkKV, ids: Ids, cancel: Event | None = None) -> ChunkKV:
    """Return the KV of one chunk, computed behind the shared prefix. Raises Cancelled once `cancel` is set."""
    start = prefix.tokens
    buffer = decoder.buffer(start + len(ids))
    buffer.keys[:, :, :start] = prefix.keys
    buffer.values[:, :, :start] = prefix.values
    decoder.prefill(torch.tensor(ids), buffer, torch.arange(start, start + len(ids)), cancel)
    return ChunkKV(buffer.keys[:, :, start:].contiguous(), buffer.values[:, :, start:].contiguous(), start)
