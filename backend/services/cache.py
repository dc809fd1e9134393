"""Implementation of the interface of the cache details: the knowledge tree with the passages behind its keys."""

import shutil
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from time import monotonic

import torch

from backend.interface.cache import CachedPassage, CacheView, KVServerUsage
from backend.runtime.loader import Runtime, RuntimeLoader
from engine.cache.admin import CacheAdmin, EvictionResult, NodeInfo, TierInfo
from engine.engine import Engine
from engine.model.loading.resolve import total_bytes
from store.types import Document

MAX_MEMORY_FRACTION = 0.75  # of the machine's memory, for one tier
MAX_TOKENIZING_S = 0.15
DocumentKeys = dict[str, dict[str, str]]  # chunk id -> key in the tree -> role, as in CachedPassage


class ChunkOwners:
    """Which chunk and model each KV in the tree belongs to. Thread-safe.

    Keys follow from token ids. Tokenizing a long document takes seconds, so each call spends a limited time on it, and
    the keys are remembered until other models are loaded.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._fingerprints: list[str] = []  # of the loaded models
        self._keys: dict[Document, DocumentKeys] = {}  # by document as it is chunked, see `_chunked`

    def keys(
        self, runtime: Runtime, document_ids: Collection[str] | None = None, max_s: float = MAX_TOKENIZING_S
    ) -> dict[str, DocumentKeys | None]:
        """Return the tree keys of each document's chunks, or None if tokenizing takes longer than `max_s`."""
        engine, library = runtime.engine, runtime.documents
        documents = library.documents()
        fingerprints = [cache.fingerprint for cache, _ in engine.passages.kv_caches]
        known: dict[str, DocumentKeys | None] = {}
        with self._lock:
            earlier = self._keys if fingerprints == self._fingerprints else {}
            self._fingerprints = fingerprints
            self._keys = {each: earlier.get(each, {}) for each in map(_chunked, documents)}
            for document in documents:
                if document_ids is not None and document.id not in document_ids:
                    continue
                keys = self._keys[_chunked(document)]
                is_complete = len(keys) >= document.num_chunks
                if not is_complete and max_s > 0:
                    start = monotonic()
                    pending = [chunk for chunk in library.chunks(document.id) if chunk.id not in keys]
                    while pending and monotonic() - start < max_s:
                        chunk = pending.pop(0)
                        keys[chunk.id] = _chunk_keys(engine, chunk.passage)
                    is_complete = not pending
                    max_s -= monotonic() - start
                known[document.id] = dict(keys) if is_complete else None
        return known

    def discard(self, document_id: str) -> None:
        with self._lock:
            self._keys = {document: keys for document, keys in self._keys.items() if document.id != document_id}


@dataclass
class LocalCacheService:
    loader: RuntimeLoader
    chunk_owners: ChunkOwners

    def snapshot(self) -> CacheView:
        with self.loader.borrow() as runtime:
            tree = CacheAdmin(runtime.tiers.tree).snapshot()
            passages, is_complete = self._passages(runtime, tree.nodes)
            device, data = runtime.models.primary.device, self.loader.settings.data
            return CacheView(
                tiers=tree.tiers,
                max_budget_bytes=tuple(_max_budget(tier, device, data) for tier in tree.tiers),
                passages=passages,
                policy=tree.policy,
                recent_queries=runtime.engine.stats.recent(),
                totals=runtime.engine.stats.totals(),
                kv_server=kv_server_usage(runtime),
                is_complete=is_complete,
            )

    def pin(self, key: str, pinned: bool) -> None:
        with self.loader.borrow() as runtime:
            CacheAdmin(runtime.tiers.tree).pin(key, pinned)

    def evict(self, key: str, tier: str | None = None) -> EvictionResult:
        with self.loader.borrow() as runtime:
            return CacheAdmin(runtime.tiers.tree).evict(key, tier)

    def set_budget(self, tier: str, budget_bytes: int) -> EvictionResult:
        return self.loader.set_budgets({tier: budget_bytes})

    def _passages(self, runtime: Runtime, nodes: Sequence[NodeInfo]) -> tuple[tuple[CachedPassage, ...], bool]:
        """Return each node with its passage, and whether the chunks of all documents have been considered."""
        all_keys = self.chunk_owners.keys(runtime)
        owners: dict[str, tuple[str, str]] = {}  # key -> chunk id, role
        for document_keys in all_keys.values():
            for chunk_id, roles in (document_keys or {}).items():
                for key, role in roles.items():
                    owners.setdefault(key, (chunk_id, role))
        chunks = runtime.documents.chunks_by_id(list({owners[node.chunk][0] for node in nodes if node.chunk in owners}))
        passages = []
        for node in nodes:
            chunk_id, role = owners.get(node.chunk, ("", "other"))
            chunk = chunks.get(chunk_id)
            passages.append(CachedPassage(node, chunk, role if chunk else "other"))
        return tuple(passages), None not in all_keys.values()


def _chunked(document: Document) -> Document:
    """Return a document without what can change while its chunks stay: a library server may re-index it for others."""
    return replace(document, name="", collections=())


def kv_server_usage(runtime: Runtime) -> KVServerUsage | None:
    """Return the use of the KV server; None without one."""
    remote = runtime.tiers.remote
    return KVServerUsage(remote.address, remote.error, **asdict(remote.stats)) if remote else None


def _max_budget(tier: TierInfo, device: torch.device, data: Path) -> int:
    """Return the bytes that this machine allows for a tier, at least its current budget."""
    if tier.name == "disk":
        limit = tier.size_bytes + shutil.disk_usage(data).free
    elif tier.name == "device":
        limit = int(MAX_MEMORY_FRACTION * torch.cuda.get_device_properties(device).total_memory)
    else:
        limit = int(MAX_MEMORY_FRACTION * total_bytes())
    return max(tier.budget_bytes, limit)


def _chunk_keys(engine: Engine, text: str) -> dict[str, str]:
    """Return the tree keys of one chunk's KV and their roles, for the primary and a separate auxiliary model."""
    roles: dict[str, str] = {}
    for role, (cache, prompt) in zip(("primary", "auxiliary"), engine.passages.kv_caches, strict=False):
        after_prefix, without_prefix = cache.all_chunk_keys(prompt.encode_passage(text).ids)
        roles.setdefault(after_prefix, role)
        roles.setdefault(without_prefix, "alone")
    return roles
