"""Which chunk and model each KV in the knowledge tree belongs to.

The tree's keys follow from a chunk's token ids. Tokenizing a long document takes seconds, so each call spends a limited
time on it and the keys are remembered.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic

from engine.engine import Engine
from store.types import Chunk, Document

MAX_CALL_S = 0.15
ReadChunks = Callable[[str], list[Chunk]]  # document id -> chunks
KeyRoles = tuple[tuple[str, str], ...]  # (key in the tree, role) of one chunk's KV; see CachedPassage for the roles


class ChunkOwners:
    """Tree keys of all chunks, by document and chunk id; reset when other models are loaded. Thread-safe.

    clock  seconds, monotonic
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._models: tuple[str, ...] = ()  # fingerprints
        self._keys: dict[str, dict[str, KeyRoles]] = {}  # document id -> chunk id -> keys

    def chunk_keys(
        self, engine: Engine, documents: Sequence[Document], read_chunks: ReadChunks, wait: bool = False
    ) -> dict[str, list[str] | None]:
        """Return the tree keys of each document's chunks; None if it takes another call.

        wait  take as long as all documents need
        """
        known = self._tokenize(engine, documents, read_chunks)
        while wait and None in known.values():
            known = self._tokenize(engine, documents, read_chunks)
        return {
            document_id: None if chunks is None else [key for keys in chunks.values() for key, _ in keys]
            for document_id, chunks in known.items()
        }

    def owners(
        self, engine: Engine, documents: Sequence[Document], read_chunks: ReadChunks
    ) -> tuple[dict[str, tuple[str, str]], bool]:
        """Return the chunk id and role of each tree key, and whether all keys are known or it takes another call."""
        known = self._tokenize(engine, documents, read_chunks)
        owners: dict[str, tuple[str, str]] = {}
        for chunks in known.values():
            for chunk_id, keys in (chunks or {}).items():
                for key, role in keys:
                    owners.setdefault(key, (chunk_id, role))
        return owners, None not in known.values()

    def retain(self, documents: Sequence[Document]) -> None:
        """Discard the keys of all other documents."""
        with self._lock:
            ids = {document.id for document in documents}
            self._keys = {document_id: keys for document_id, keys in self._keys.items() if document_id in ids}

    def discard(self, document_id: str) -> None:
        """Discard the keys of a document whose chunks change."""
        with self._lock:
            self._keys.pop(document_id, None)

    def _tokenize(
        self, engine: Engine, documents: Sequence[Document], read_chunks: ReadChunks
    ) -> dict[str, dict[str, KeyRoles] | None]:
        """Tokenize chunks for at most MAX_CALL_S; return the keys of each document, or None if some are missing."""
        remaining_s = MAX_CALL_S
        known: dict[str, dict[str, KeyRoles] | None] = {}
        with self._lock:
            self._reset_for_other_models(engine)
            for document in documents:
                keys = self._keys.setdefault(document.id, {})
                is_complete = len(keys) >= document.num_chunks
                if not is_complete and remaining_s > 0:
                    pending = [chunk for chunk in read_chunks(document.id) if chunk.id not in keys]
                    start = self._clock()  # reading the chunks is not counted
                    while pending and self._clock() - start < remaining_s:
                        chunk = pending.pop(0)
                        keys[chunk.id] = _keys_of(engine, chunk.text)
                    is_complete = not pending
                    remaining_s -= self._clock() - start
                known[document.id] = dict(keys) if is_complete else None
        return known

    def _reset_for_other_models(self, engine: Engine) -> None:
        others = [engine.auxiliary.cache] if engine.auxiliary else []
        models = tuple(cache.fingerprint for cache in (engine.cache, *others))
        if models != self._models:
            self._models = models
            self._keys = {}


def _keys_of(engine: Engine, text: str) -> KeyRoles:
    """Return the tree keys of one chunk's KV, for the primary model and for a separate auxiliary model."""
    keys: list[tuple[str, str]] = []
    for role, (cache, prompt) in zip(("primary", "auxiliary"), engine.passages.kv_caches, strict=False):
        after_prefix, without_prefix = cache.all_chunk_keys(prompt.encode_passage(text).ids)
        keys += [(after_prefix, role), (without_prefix, "alone")]
    return tuple(keys)
