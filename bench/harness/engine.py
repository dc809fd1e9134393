"""Build an engine without a library: the benchmark supplies the passages, and nothing is written to disk."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from threading import Event

from bench.data.item import Splitter, TokenCounter
from engine.analysis.calibration import Calibration, calibrate, calibration_engine
from engine.builder import ModelConfig, Models, build_engine, load_models
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.cache.quantize import from_tensors, to_tensors
from engine.engine import Engine, PrefillResult
from engine.model.sampling import TokenSampler
from engine.prompt.pack import PreparedPrompt
from engine.prompt.text_finder import TextFinder
from engine.strategies import Strategy
from engine.trace import Trace
from engine.types import ChunkKV
from store.ingest.chunker import ChunkConfig, split


def model_config(arguments: Namespace) -> ModelConfig:
    """Return the model configuration of the command line."""
    names = [field.name for field in fields(ModelConfig) if field.name != "folder"]
    return ModelConfig(Path(arguments.data) / "models", **{name: getattr(arguments, name) for name in names})


def open_engine(
    config: ModelConfig, kv_bits: int = 16, grounding: str = "auto", calibrated_method: str | None = None
) -> Engine:
    """Return an engine that keeps chunk KV in memory only; 8 `kv_bits` round it as an 8-bit disk tier would.

    With `calibrated_method`, the model's fidelity is measured first, with this method, as the app does in idle time.
    """
    models = load_models(config)
    fidelity = None if calibrated_method is None else measure_fidelity(models, calibrated_method).curve()
    if grounding == "off":
        models = replace(models, grounding=None)
    tiers = CacheHierarchy(CacheHierarchyConfig(host_bytes=3 * 2**30, disk_bytes=0), None, models.primary.device)
    engine = build_engine(models, lambda tokenizer: TextFinder(), tiers)
    if kv_bits == 8:
        compute = engine.cache.compute

        def compute_rounded(ids: Sequence[int], cancel: Event | None = None) -> ChunkKV:
            return from_tensors(to_tensors(compute(ids, cancel), 8))

        engine.cache.compute = compute_rounded  # type: ignore[method-assign]
    engine.fidelity = fidelity
    return engine


def measure_fidelity(models: Models, method: str, max_questions: int | None = None) -> Calibration:
    """Return a model's calibration with a method, over at most `max_questions` of the built-in questions."""
    calibration = Calibration(method)
    for _ in islice(calibrate(calibration_engine(models, calibration.passages), calibration, Event()), max_questions):
        pass
    return calibration


def engine_of(arguments: Namespace) -> Engine:
    """Return the engine of the command line, calibrated if a method adapts to the model."""
    adapts = any(method.partition(":")[0] == "cacheclip-adaptive" for method in arguments.methods)
    method = "cacheclip-trained" if adapts else None
    return open_engine(model_config(arguments), arguments.kv_bits, arguments.grounding, method)


def make_splitter(engine: Engine, tokens: int) -> Splitter:
    """Return a function that splits a text into chunks of at most `tokens` tokens, without overlap."""
    tokenizer = engine.template.tokenizer.data
    return lambda text: [text[start:end] for start, end in split(text, tokenizer, ChunkConfig(tokens, 0))]


def make_token_counter(engine: Engine) -> TokenCounter:
    """Return a function that counts a passage's tokens in the prompt."""
    return lambda passage: len(engine.template.encode_passage(passage).ids)


def first_token(
    engine: Engine, prompt: PreparedPrompt, strategy: Strategy, trace: Trace
) -> tuple[PrefillResult, float]:
    """Prefill a prompt and sample the first token, as the app does; return the prefill and the TTFT in ms."""
    result = engine.prefill(prompt, strategy, trace)
    engine.sampler(prompt, trace, TokenSampler()).sample(result.logits)
    trace.first_token()
    assert trace.ttft_ms is not None
    return result, trace.ttft_ms
