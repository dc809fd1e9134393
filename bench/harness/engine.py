"""An engine without a library: the bench brings the passages itself, and nothing is written to disk."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.data.item import Splitter
from engine.builder import ModelConfig, build_engine, load_models
from engine.cache.tiers.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.cache.tiers.quantize import from_tensors, to_tensors
from engine.engine import Engine
from store.ingest.chunker import ChunkConfig, split
from store.types import Chunk, Document, Hit

HOST_BYTES = 3 * 2**30


class EmptyFinder:
    """Finds nothing."""

    def retrieve_stages(self, question: str, top: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        yield []

    def documents(self) -> list[Document]:
        return []

    def chunks(self, document_id: str) -> list[Chunk]:
        return []

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        return {}


def model_config(arguments: Namespace) -> ModelConfig:
    """Return which models the command line names, and where they run."""
    return ModelConfig(
        folder=Path(arguments.data) / "models",
        model=arguments.model,
        auxiliary_model=arguments.auxiliary,
        device=arguments.device,
        dtype=arguments.dtype,
        lora_adapter=arguments.reader,
        span_scorer=arguments.pointer,
        token_selector=arguments.selector,
    )


def open_engine(config: ModelConfig, kv_bits: int = 16, grounding: str = "auto") -> Engine:
    """Return an engine that keeps chunk KV in memory.

    kv_bits    8: chunk KV is rounded as the disk would keep it
    grounding  'off': answers are the likeliest tokens, whatever the passages say
    """
    models = load_models(config)
    tiers = CacheHierarchy(CacheHierarchyConfig(HOST_BYTES, disk_bytes=0), None, models.primary.device)
    engine = build_engine(models, lambda tokenizer: EmptyFinder(), tiers)
    if grounding == "off":
        engine.grounding = None
    if kv_bits == 8:
        compute = engine.cache.compute
        rounded = lambda ids, cancel=None: from_tensors(to_tensors(compute(ids, cancel), 8))  # noqa: E731
        engine.cache.compute = rounded  # type: ignore[method-assign]
    return engine


def make_splitter(engine: Engine, tokens: int) -> Splitter:
    """Return a function that cuts a text into chunks of at most `tokens`, without overlap: joined they are the text."""
    tokenizer = engine.prompt.tokenizer.data

    def cut(text: str) -> list[str]:
        return [text[start:end] for start, end in split(text, tokenizer, ChunkConfig(tokens, 0))]

    return cut


def make_token_counter(engine: Engine) -> Callable[[str], int]:
    """Return a function that counts a passage's tokens as it stands in the prompt."""
    tokens = engine.prompt.tokenizer
    return lambda text: len(tokens.encode(text.strip() + "\n\n").ids)
