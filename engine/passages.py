"""Everything that is cached per passage: chunk KV of all models, token ids, and the token selector's keys."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

from engine.kv.chunk_cache import ChunkCache
from engine.prompt.template import PromptTemplate
from engine.scheduler.scheduler import Scheduler
from engine.scoring.trained_selector import TokenSelector


@dataclass
class PassageCache:
    kv_caches: Sequence[tuple[ChunkCache, PromptTemplate]]  # the main model's, then the auxiliary's if it has its own
    selector: TokenSelector | None
    scheduler: Scheduler  # computing waits for its turn on the main model
    on_deleted: Callable[[Sequence[str]], None] | None = None  # told the chunk keys of each deleted passage

    def warm(self, text: str, cancel: Event | None = None) -> None:
        """Compute and cache everything for one passage. Raises Cancelled."""
        main_cache, main_template = self.kv_caches[0]
        passage = main_template.passage(text)
        turn = self.scheduler.acquire(lambda: main_cache.count_cached_tokens([passage.ids]), cancel or Event())
        with self.track_deletions(), turn:
            for cache, template in self.kv_caches:
                cache.get_or_compute(template.passage(text).ids, cancel)
            if self.selector:
                self.selector.warm(text, passage)
            self.flush()

    def flush(self) -> None:
        """Write newly computed KV to the slower tiers."""
        for cache, _ in self.kv_caches:
            cache.flush()

    def delete(self, text: str) -> list[str]:
        """Delete everything cached for one passage; return its chunk keys."""
        keys: list[str] = []
        for cache, template in self.kv_caches:
            keys += cache.delete(template.encode_passage(text).ids)
            template.passage.evict(text)
        if self.selector:
            self.selector.evict(text)
        if self.on_deleted:
            self.on_deleted(keys)
        return keys

    @contextmanager
    def track_deletions(self) -> Iterator[None]:
        """Enclose work on passages; what it caches for a passage that is deleted meanwhile is dropped at the end."""
        with self.kv_caches[0][0].tree.track_deletions() as deleted:
            try:
                yield
            finally:
                if deleted:
                    self.clear_encodings()

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete chunks by the keys that `delete` returned elsewhere, and all encodings, whose texts are not known."""
        for cache, _ in self.kv_caches:
            cache.delete_keys(keys)
        self.clear_encodings()

    def clear_encodings(self) -> None:
        """Forget token ids and encodings of all passages."""
        for _, template in self.kv_caches:
            template.passage.clear()
        if self.selector:
            self.selector.clear()

    def delete_other_models(self) -> None:
        """Delete the KV of all models that are not loaded, because its passages cannot be told from its keys."""
        main_cache, _ = self.kv_caches[0]
        caches = [*(cache for cache, _ in self.kv_caches), main_cache.without_prefix]
        main_cache.tree.delete_except([cache.fingerprint for cache in caches])
