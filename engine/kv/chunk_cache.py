"""Chunk KV of one model: read from the knowledge tree or, if that is faster, computed (RAGCache, arXiv:2404.12457).

Chunks are assembled after the prefix by re-rotating their keys; attention between chunks is then missing. The first
chunk is exact, as it follows the prefix in any case, and so is a whole path of the knowledge tree.
"""

import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from math import inf
from threading import Event, RLock

import numpy as np
import torch

from engine.cache.cost_model import CostModel
from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.remote import Fetch, RemoteTier
from engine.cache.tier import Node, Record
from engine.model.decoder import Decoder
from engine.model.kernels.fused_layer import LayerOps
from engine.model.kv_buffer import KVBuffer
from engine.model.rope import rerotate_keys
from engine.types import ChunkKV, Placement

TokenIds = Sequence[int]
TouchedNodes = list[Node]
FORMAT_VERSION = "kv3"  # changes when the meaning of stored KV changes
SAMPLES_PER_WEIGHT = 64  # enough to distinguish finetuned models without reading gigabytes
MAX_UNSHARED = 64  # chunks that wait to be written to the remote tier
REPLICATE_HITS = 2  # hits after which a path is copied to disk; a chunk's own KV is copied at once


@dataclass(frozen=True, slots=True)
class ChunkSet:
    """The KV of a prompt's chunks, in prompt order."""

    chunks: tuple[ChunkKV, ...]  # for `Placement.EXACT_PREFIX` the leading ones only
    tiers: tuple[str, ...]  # the source of each of the prompt's chunks: a tier's name, or 'computed' (now or later)
    num_path_chunks: int  # leading chunks that came from one path, so that their KV is exact at its positions


@dataclass
class ChunkCache:
    """Chunk KV of one model after one shared prefix, whose own KV is `prefix`."""

    decoder: Decoder
    prefix_ids: tuple[int, ...]
    tree: KnowledgeTree[ChunkKV]  # shared by all models; fingerprints keep their KV apart, and equal models share it
    costs: CostModel | None = None  # without them all tokens cost the same, and cached KV is always read
    remote: RemoteTier | None = None  # chunk KV that other engines computed, and this one computes
    _lock: RLock = field(default_factory=RLock)
    _unreplicated: list[str] = field(default_factory=list)  # keys to copy to the slowest tier
    _unshared: dict[str, ChunkKV] = field(default_factory=dict)  # by key, to write to the remote tier

    def __post_init__(self) -> None:
        self._model = model_fingerprint(self.decoder)
        buffer = self.decoder.new_buffer(len(self.prefix_ids))
        if self.prefix_ids:
            self.decoder.forward_rows(torch.tensor(self.prefix_ids), buffer, torch.arange(len(self.prefix_ids)))
        self.prefix = ChunkKV(buffer.keys, buffer.values, 0)

    @cached_property
    def without_prefix(self) -> "ChunkCache":
        """The cache of chunks computed without any prefix, for naive reuse."""
        return ChunkCache(self.decoder, (), self.tree, self.costs, self.remote)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies model and prefix: caches with equal fingerprints contain the same KV."""
        return self.chunk_key(())

    def chunk_key(self, ids: TokenIds) -> str:
        """Return the key of a chunk computed after the shared prefix."""
        return self._key(self.prefix_ids, ids)

    def all_chunk_keys(self, ids: TokenIds) -> tuple[str, str]:
        """Return both keys of a chunk: computed after the shared prefix, and without any prefix."""
        return self.chunk_key(ids), self._key((), ids)

    def path_keys(self, chunks: Sequence[TokenIds]) -> list[str]:
        """Return the key of the path to each chunk, in order."""
        keys: list[str] = []
        for ids in chunks:
            key = self.chunk_key(ids)
            keys.append(hashlib.sha256(f"{keys[-1]} {key}".encode()).hexdigest() if keys else key)
        return keys

    def get_or_compute(self, ids: TokenIds, cancel: Event | None = None) -> tuple[ChunkKV, str]:
        """Return a chunk's own KV and the tier it was read from, or 'computed' (once for concurrent calls)."""
        return self.get_or_compute_all([ids], cancel)[0]

    def get_or_compute_all(
        self, chunks: Sequence[TokenIds], cancel: Event | None = None, touched_nodes: TouchedNodes | None = None
    ) -> list[tuple[ChunkKV, str]]:
        """Do the same for several chunks; the remote tier is read while missing ones are computed.

        touched_nodes  receives the nodes that were read, for `record_hits` once an answer was generated from them
        """
        with closing(self._fetch_remote(chunks)) as fetch:
            return [self._get_or_compute(ids, cancel, touched_nodes, fetch) for ids in chunks]

    def gather(
        self,
        chunks: Sequence[TokenIds],
        placement: Placement = Placement.CONCATENATED,
        cancel: Event | None = None,
        max_path_chunks: int | None = None,
        touched_nodes: TouchedNodes | None = None,
    ) -> ChunkSet:
        """Return the KV of a prompt's chunks for a placement: the longest exact path, then each chunk by its content.

        At most `max_path_chunks` chunks come from the path; other arguments as for `get_or_compute_all`.
        """
        if placement is Placement.NO_PREFIX:
            return self.without_prefix.gather(chunks, Placement.PARALLEL, cancel, None, touched_nodes)
        if placement is Placement.PARALLEL:
            max_path_chunks = 0  # KV from a path has later positions
        hits: list[tuple[ChunkKV, str]] = []
        with self.tree.pinned_while(self.path_keys(chunks[:max_path_chunks])) as nodes:
            cached_tokens = 0
            for node, ids in zip(nodes, chunks, strict=False):
                if (hit := self._read(node, cached_tokens, len(ids))) is None or hit[0].quantized:
                    break
                hits.append(hit)
                cached_tokens += len(ids)
            if touched_nodes is not None:
                touched_nodes += nodes[: len(hits)]
        num_path_chunks = len(hits)
        if placement is not Placement.EXACT_PREFIX:
            hits += self.get_or_compute_all(chunks[num_path_chunks:], cancel, touched_nodes)
        tiers = [tier for _, tier in hits] + ["computed"] * (len(chunks) - len(hits))
        return ChunkSet(tuple(kv for kv, _ in hits), tuple(tiers), num_path_chunks)

    def record_hits(self, nodes: Sequence[Node]) -> None:
        """Count one hit for each node; the next `flush` copies paths that are hot by now to the slowest tier."""
        self.tree.record_hit(nodes)
        with self._lock:
            self._unreplicated += [node.key for node in nodes if node.frequency == REPLICATE_HITS]

    def count_cached_tokens(
        self, chunks: Sequence[TokenIds], placement: Placement = Placement.CONCATENATED
    ) -> tuple[int, int]:
        """Return how many tokens of the chunks have cached KV for a placement, and how many do not. Reads no KV."""
        if placement is Placement.NO_PREFIX:
            return self.without_prefix.count_cached_tokens(chunks)
        num_path_chunks = len(self.tree.match_prefix(self.path_keys(chunks)))
        cached = sum(map(len, chunks[:num_path_chunks]))
        if placement is not Placement.EXACT_PREFIX:
            cached += sum(len(ids) for ids in chunks[num_path_chunks:] if self.chunk_key(ids) in self.tree)
        return cached, sum(map(len, chunks)) - cached

    def insert_path(self, chunks: Sequence[TokenIds], buffer: KVBuffer) -> None:
        """Insert the paths to these chunks, whose exact KV follows the prefix in the buffer.

        Nodes that are already cached are kept, unless they were restored from 8 bits.
        """
        keys = self.path_keys(chunks)
        with self.tree.locked():  # nothing is deleted meanwhile
            nodes = self.tree.match_prefix(keys)
            num_known = next((depth for depth, node in enumerate(nodes) if self._is_quantized(node)), len(nodes))
        cached_tokens = sum(map(len, chunks[:num_known]))
        ms_per_token = self._ms_per_token(cached_tokens, sum(map(len, chunks)) - cached_tokens)
        spans = chunk_spans(len(self.prefix_ids), [len(ids) for ids in chunks])
        for depth in range(num_known, len(chunks)):
            ids, slots = chunks[depth], slice(spans[depth].start, spans[depth].stop)
            kv = ChunkKV(buffer.keys[:, :, slots].clone(), buffer.values[:, :, slots].clone(), slots.start)
            parent = keys[depth - 1] if depth else None
            record = Record(self.chunk_key(ids), parent, len(ids), family=self.fingerprint)
            if self.tree.insert(keys[depth], record, kv, ms_per_token) is None:
                return
            if not depth:
                with self._lock:
                    self._unreplicated.append(keys[0])

    def flush(self) -> None:
        """Copy KV that was computed or became hot since the last call to the slowest and to the remote tier."""
        with self._lock:
            pending, self._unreplicated = self._unreplicated, []
            unshared, self._unshared = self._unshared, {}
        if self.remote:
            for key, kv in unshared.items():
                self.remote.put(self._remote_namespace, key, kv)
        pending = [key for key in pending if not self.tree.replicate(key) and key in self.tree]
        if self.tree.tiers[-1].budget_bytes:  # without a budget, replication never succeeds
            with self._lock:
                self._unreplicated += pending
        if "without_prefix" in self.__dict__:
            self.without_prefix.flush()

    def compute(self, ids: TokenIds, cancel: Event | None = None) -> ChunkKV:
        """Prefill one chunk after the shared prefix. Raises Cancelled once `cancel` is set."""
        return prefill_chunk(self.decoder, self.prefix, ids, cancel)

    def delete(self, ids: TokenIds) -> tuple[str, str]:
        """Delete a chunk's KV, and every path through it, from all tiers; return `all_chunk_keys`."""
        keys = self.all_chunk_keys(ids)
        self.delete_keys(keys)
        if self.remote:
            self.remote.delete(self._remote_namespace, keys)
        return keys

    def _get_or_compute(
        self, ids: TokenIds, cancel: Event | None, touched_nodes: TouchedNodes | None, fetch: Fetch
    ) -> tuple[ChunkKV, str]:
        key = self.chunk_key(ids)
        with self._lock, self.tree.pinned_while([key]) as nodes:
            if nodes and (hit := self._read(nodes[0], 0, len(ids))) is not None:
                if touched_nodes is not None:
                    touched_nodes += nodes
                return hit
            tier = "remote"
            kv = fetch.take(key)
            if kv is None or not self._fits(kv, ids):
                tier = "computed"
                kv = self.compute(ids, cancel)
                if self.remote:
                    self._unshared[key] = kv
                    while len(self._unshared) > MAX_UNSHARED:  # questions were stopped before their first token
                        del self._unshared[next(iter(self._unshared))]
            record = Record(key, None, len(ids), family=self.fingerprint)
            self.tree.insert(key, record, kv, self._ms_per_token(0, len(ids)))
            self._unreplicated.append(key)
        return kv.to(self.decoder.device), tier

    def _fetch_remote(self, chunks: Sequence[TokenIds]) -> Fetch:
        """Start to read the chunks that no tier of this process has from the remote tier, if there is one."""
        if self.remote is None:
            return Fetch()
        missing = {key: len(ids) for ids in chunks if (key := self.chunk_key(ids)) not in self.tree}
        compute_ms = inf
        if self.costs is not None:
            compute_ms = sum(self.costs.estimate_ms(len(self.prefix_ids), tokens) for tokens in missing.values())
        element_bytes = self.decoder.dtype.itemsize
        sizes = {key: self.decoder.spec.kv_bytes(tokens, element_bytes) for key, tokens in missing.items()}
        return self.remote.fetch(self._remote_namespace, sizes, compute_ms)

    def _fits(self, kv: ChunkKV, ids: TokenIds) -> bool:
        """Return whether KV from elsewhere has the shape of this chunk's."""
        spec = self.decoder.spec
        shape = (spec.num_layers, spec.num_kv_heads, len(ids), spec.head_dim)
        tensors = (kv.keys, kv.values)
        return kv.start == len(self.prefix_ids) and all(
            tensor.shape == shape and tensor.dtype == self.decoder.dtype for tensor in tensors
        )

    @property
    def _remote_namespace(self) -> str:
        return f"{FORMAT_VERSION}:{self._model}"

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete chunks from this process."""
        for key in keys:
            self.tree.delete(key)
            with self._lock:
                self._unshared.pop(key, None)
        if "without_prefix" in self.__dict__:
            self.without_prefix.delete_keys(keys)

    def _key(self, prefix_ids: TokenIds, ids: TokenIds) -> str:
        digest = hashlib.sha256(f"{self._model} {len(prefix_ids)} ".encode())
        digest.update(np.asarray([*prefix_ids, *ids], dtype=np.int64).tobytes())
        return digest.hexdigest()

    def _read(self, node: Node, cached_tokens: int, tokens: int) -> tuple[ChunkKV, str] | None:
        """Read a node's KV and tier; None if computing its tokens after `cached_tokens` others is faster."""
        compute_ms = inf
        if self.costs is not None:
            compute_ms = self.costs.estimate_ms(len(self.prefix_ids) + cached_tokens, tokens)
        hit = self.tree.read(node, compute_ms)
        return None if hit is None else (hit[0].to(self.decoder.device), hit[1])

    def _is_quantized(self, node: Node) -> bool:
        """Return whether a node's KV in memory was restored from 8 bits."""
        tier = self.tree.tiers[node.level]
        return tier.name != "disk" and tier.store.get(node.key).quantized

    def _ms_per_token(self, cached_tokens: int, computed_tokens: int) -> float:
        return self.costs.ms_per_token(len(self.prefix_ids) + cached_tokens, computed_tokens) if self.costs else 1.0


@torch.inference_mode()
def model_fingerprint(decoder: Decoder) -> str:
    """Return 16 hex digits that identify a model's weights, configuration, dtype and device type, not its location."""
    spec, device = decoder.spec, decoder.device.type
    config = f"{FORMAT_VERSION} {decoder.dtype} {device} {spec.forward_config} {spec.inv_freq.tolist()}"
    digest = hashlib.sha256(config.encode())
    for name, weight in decoder.model.state_dict().items():
        flat = weight.flatten()
        sample = flat[:: max(1, len(flat) // SAMPLES_PER_WEIGHT)][:SAMPLES_PER_WEIGHT].float().cpu().numpy()
        digest.update(f"{name} {tuple(weight.shape)}".encode() + sample.tobytes())
    return digest.hexdigest()[:16]


def prefill_chunk(decoder: Decoder, prefix: ChunkKV, ids: TokenIds, cancel: Event | None = None) -> ChunkKV:
    """Compute the KV of one chunk after the shared prefix. Raises Cancelled once `cancel` is set."""
    start = prefix.tokens
    buffer = decoder.new_buffer(start + len(ids))
    assemble(buffer, prefix, (), decoder.spec.inv_freq)
    decoder.forward_rows(torch.tensor(ids), buffer, torch.arange(start, start + len(ids)), cancel)
    return ChunkKV(buffer.keys[:, :, start:].contiguous(), buffer.values[:, :, start:].contiguous(), start)


def chunk_spans(prefix_tokens: int, lengths: list[int]) -> tuple[range, ...]:
    """Return the consecutive slots of chunks with these token `lengths`, after the prefix."""
    bounds = accumulate(lengths, initial=prefix_tokens)
    return tuple(range(start, end) for start, end in pairwise(bounds))


@torch.inference_mode()
def assemble(
    buffer: KVBuffer,
    prefix: ChunkKV,
    chunks: Sequence[ChunkKV],
    inv_freq: torch.Tensor,
    placement: Placement = Placement.CONCATENATED,
    ops: LayerOps | None = None,
) -> None:
    """Write prefix and chunks, computed as the placement requires; keys are re-rotated only if it is CONCATENATED."""
    rotate = rerotate_keys if ops is None else ops.rerotate
    spans = chunk_spans(prefix.tokens, [chunk.tokens for chunk in chunks])
    buffer.keys[:, :, : prefix.tokens] = prefix.keys
    buffer.values[:, :, : prefix.tokens] = prefix.values
    for chunk, span in zip(chunks, spans, strict=True):
        slots = slice(span.start, span.stop)
        shift = span.start - chunk.start if placement is Placement.CONCATENATED else 0
        rotate(chunk.keys, shift, inv_freq, buffer.keys[:, :, slots])
        buffer.values[:, :, slots] = chunk.values
    buffer.length = spans[-1].stop if spans else prefix.tokens
