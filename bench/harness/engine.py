"""An engine without a library: the bench brings the passages itself, and nothing is written to disk."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence

from bench.data.item import Cut
from engine.builder import ModelConfig, build_engine, load_models
from engine.cache.tiers.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.cache.tiers.quantize import restored, stored
from engine.engine import Engine
from store.ingest.chunker import ChunkConfig, split
from store.types import Chunk, Document, Hit

HOST_BYTES = 3 * 2**30


class NoLibrary:
    """Finds nothing."""

    def stages(self, question: str, top: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        yield []

    def documents(self) -> list[Document]:
        return []

    def chunks(self, document_id: str) -> list[Chunk]:
        return []

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        return {}


def model_config(arguments: Namespace) -> ModelConfig:
    """Return which models the command line names, and where they run."""
    return ModelConfig.of(arguments.data / "models", arguments)


def open_engine(config: ModelConfig, kv_bits: int = 16, grounding: str = "auto") -> Engine:
    """Return an engine that keeps chunk KV in memory.

    kv_bits    8: chunk KV is rounded as the disk would keep it
    grounding  'off': answers are the likeliest tokens, whatever the passages say
    """
    models = load_models(config)
    tiers = CacheHierarchy(CacheHierarchyConfig(HOST_BYTES, disk_bytes=0), None, models.primary.device)
    engine = build_engine(models, lambda tokenizer: NoLibrary(), tiers)
    if grounding == "off":
        engine.grounding = None
    if kv_bits == 8:
        compute = engine.cache.compute
        rounded = lambda ids, cancel=None: restored(stored(compute(ids, cancel), 8))  # noqa: E731
        engine.cache.compute = rounded  # type: ignore[method-assign]
    return engine


def cutter(engine: Engine, tokens: int) -> Cut:
    """Return a function that cuts a text into chunks of at most `tokens`, without overlap: joined they are the text."""
    tokenizer = engine.prompt.tokens.data

    def cut(text: str) -> list[str]:
        return [text[start:end] for start, end in split(text, tokenizer, ChunkConfig(tokens, 0))]

    return cut


def measurer(engine: Engine) -> Callable[[str], int]:
    """Return a function that counts a passage's tokens as it stands in the prompt."""
    tokens = engine.prompt.tokens
    return lambda text: len(tokens.encode(text.strip() + "\n\n").ids)
