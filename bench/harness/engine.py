"""Build an engine without a library: the benchmark supplies the passages, and nothing is written to disk."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.data.item import Splitter
from engine.builder import ModelConfig, build_engine, load_models
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig, from_tensors, to_tensors
from engine.engine import Engine
from engine.prompt.text_finder import TextFinder
from store.ingest.chunker import ChunkConfig, split

HOST_BYTES = 3 * 2**30


def model_config(arguments: Namespace) -> ModelConfig:
    """Return the model configuration of the command line."""
    return ModelConfig(
        folder=Path(arguments.data) / "models",
        model=arguments.model,
        auxiliary_model=arguments.auxiliary_model,
        device=arguments.device,
        dtype=arguments.dtype,
        lora_adapter=arguments.lora_adapter,
        span_scorer=arguments.span_scorer,
        token_selector=arguments.token_selector,
    )


def open_engine(config: ModelConfig, kv_bits: int = 16, grounding: str = "auto") -> Engine:
    """Return an engine that keeps chunk KV in memory only.

    kv_bits    8: chunk KV is quantized and dequantized, as an 8-bit disk tier would do
    grounding  'off': decode without grounding
    """
    models = load_models(config)
    if grounding == "off":
        models = replace(models, grounding=None)
    tiers = CacheHierarchy(CacheHierarchyConfig(HOST_BYTES, disk_bytes=0), None, models.primary.device)
    engine = build_engine(models, lambda tokenizer: TextFinder(), tiers)
    if kv_bits == 8:
        compute = engine.cache.compute
        rounded = lambda ids, cancel=None: from_tensors(to_tensors(compute(ids, cancel), 8))  # noqa: E731
        engine.cache.compute = rounded  # type: ignore[method-assign]
    return engine


def make_splitter(engine: Engine, tokens: int) -> Splitter:
    """Return a function that splits a text into chunks of at most `tokens` tokens, without overlap."""
    tokenizer = engine.template.tokenizer.data

    def cut(text: str) -> list[str]:
        return [text[start:end] for start, end in split(text, tokenizer, ChunkConfig(tokens, 0))]

    return cut


def make_token_counter(engine: Engine) -> Callable[[str], int]:
    """Return a function that counts a passage's tokens in the prompt."""
    tokens = engine.template.tokenizer
    return lambda text: len(tokens.encode(text.strip() + "\n\n").ids)
