"""From settings to a working engine: which models, in which format, with which caches."""

import gc
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from tokenizers import Tokenizer

from assets import ASSETS
from engine.cache.cost_model import CostModel, kept, measured
from engine.cache.hit_stats import CacheStats
from engine.cache.tiers.hierarchy import CacheHierarchy
from engine.engine import Engine
from engine.errors import AdapterUnusable, SelectorUnusable, SpanScorerUnusable, UnsupportedModel
from engine.generation.grounded_sampler import GroundingModel
from engine.generation.span_scorer import SPAN_SCORER_FILE, load_span_scorer
from engine.kv import fingerprint
from engine.kv.chunk_cache import ChunkCache
from engine.model.decoder import Decoder
from engine.model.encoder import MEANING, WORD, packaged
from engine.model.loading.bundled import NAME, Report
from engine.model.loading.dtype import select_dtype
from engine.model.loading.footprint import footprint, of_folder
from engine.model.loading.load import load
from engine.model.loading.lora import WEIGHTS
from engine.model.loading.resolve import resolve
from engine.prompt.template import Prompt
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.scoring.trained_selector import FILE, TokenSelector, load_token_selector
from store.types import Finder

READER, SELECTOR, POINTER = ASSETS / "reader", ASSETS / "selector", ASSETS / "pointer"  # made by training


class Named(Protocol):
    """Settings that name models: the app's, or a bench's arguments. See ModelConfig for what each may be."""

    model: str
    auxiliary: str
    device: str
    reader: str
    pointer: str
    selector: str

    @property
    def dtype(self) -> str: ...


@dataclass(frozen=True)
class ModelConfig:
    """Which models answer and select, and where they run.

    model, auxiliary  a folder, a name on the hub, or the embedded model's name
    folder            where the embedded model is unpacked
    device            of the primary: 'auto', 'cpu', 'cuda'; the auxiliary always runs on the CPU
    dtype             'auto', 'bf16' or 'fp32'
    reader            adapter that is merged into the primary: 'auto' (ours, for the embedded model), 'off', or a folder
    pointer           tells the reader where to look: 'auto' (ours, for any reader), 'off', or a folder
    selector          of CacheClip trained: 'auto' (ours, for the embedded model with our reader), 'off', or a folder
    """

    folder: Path
    model: str = NAME
    auxiliary: str = NAME
    device: str = "auto"
    dtype: str = "auto"
    reader: str = "auto"
    pointer: str = "auto"
    selector: str = "auto"

    @classmethod
    def of(cls, folder: Path, named: Named) -> "ModelConfig":
        """Return what settings say about models."""
        trained = named.reader, named.pointer, named.selector
        return cls(folder, named.model, named.auxiliary, named.device, named.dtype, *trained)

    @property
    def adapter(self) -> Path | None:
        """The folder of the adapter that is merged into the primary."""
        if self.reader == "auto":
            return READER if self.model == NAME else None
        return None if self.reader == "off" else Path(self.reader).expanduser()

    @property
    def layers(self) -> Path | None:
        """The folder of the trained pointer's layers; without a reader nothing asks them."""
        if self.pointer == "auto":
            return POINTER if self.adapter else None
        return None if self.pointer == "off" else Path(self.pointer).expanduser()

    @property
    def heads(self) -> Path | None:
        """The folder of the trained selector's heads."""
        if self.selector == "auto":
            ours = self.model == NAME and self.reader == "auto"
            return SELECTOR if ours else None
        return None if self.selector == "off" else Path(self.selector).expanduser()


@dataclass(frozen=True)
class Models:
    """Loaded models; `auxiliary is primary` when both are the same weights in the same place.

    grounds  of a primary that was finetuned to answer in the passages' words
    """

    primary: Decoder
    auxiliary: Decoder
    precision: str  # 'bf16 on the CPU (AVX-512 BF16)'
    selector: TokenSelector | None = None
    grounds: GroundingModel | None = None


def load_models(config: ModelConfig, report: Report = lambda said, share: None) -> Models:
    """Find, load and self-test both models. Raises ModelNotFound or UnsupportedModel."""
    device, dtype, precision = select_dtype(config.device, config.dtype)
    trained = _selector(config), _grounds(config)
    place = resolve(config.model, config.folder, report)
    report(f"Loading {Path(config.model).name}", 0.8)
    primary = load(place, device, dtype, Path(config.model).name, config.adapter)
    if config.auxiliary == config.model and device.type == "cpu":
        return Models(primary, primary, precision, *trained)
    place = resolve(config.auxiliary, config.folder, report)
    report(f"Loading {Path(config.auxiliary).name}", 0.9)
    _, dtype, _ = select_dtype("cpu", config.dtype)
    adapter = config.adapter if config.auxiliary == config.model else None
    beside = load(place, torch.device("cpu"), dtype, Path(config.auxiliary).name, adapter)
    return Models(primary, beside, precision, *trained)


def fetch_models(config: ModelConfig, report: Report = lambda said, share: None) -> None:
    """Bring both models' files to this machine, and check what their configurations tell; nothing is loaded.

    Raises what `load_models` would raise of it, and HubUnreachable, all before anything is downloaded in vain.
    """
    try:
        select_dtype(config.device, config.dtype)
    except ValueError as error:
        raise UnsupportedModel(f"The {error}.") from error
    if config.adapter is not None and not (config.adapter / WEIGHTS).is_file():
        raise AdapterUnusable(f"There is no {WEIGHTS} in {config.adapter}.")
    if config.heads is not None and not (config.heads / FILE).is_file():
        raise SelectorUnusable(f"There is no {FILE} in {config.heads}.")
    if config.layers is not None and not (config.layers / SPAN_SCORER_FILE).is_file():
        raise SpanScorerUnusable(f"There is no {SPAN_SCORER_FILE} in {config.layers}.")
    names = dict.fromkeys((config.model, config.auxiliary))
    for name in names:
        footprint(name, config.folder)
    for name in names:
        of_folder(resolve(name, config.folder, report))


def release_memory() -> None:
    """Give back the memory of models that nobody holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _selector(config: ModelConfig) -> TokenSelector | None:
    return (
        None
        if config.heads is None
        else load_token_selector(config.heads, packaged(select_dtype("cpu", config.dtype)[1]))
    )


def _grounds(config: ModelConfig) -> GroundingModel | None:
    if config.adapter is None:
        return None
    if config.layers is None:
        return GroundingModel()
    return GroundingModel(
        load_span_scorer(config.layers, packaged(select_dtype("cpu", config.dtype)[1], (WORD, MEANING)))
    )


def build_engine(
    models: Models,
    open_library: Callable[[Tokenizer], Finder],
    tiers: CacheHierarchy,
    costs: Path | None = None,
    served: CacheStats | None = None,
) -> Engine:
    """Return the engine over a library and tiers of chunk KV.

    open_library  given the primary's tokenizer, which measures chunks
    tiers         of both models together
    costs         folder that keeps what computing costs on this machine, measured once for each model; None leaves
                  it unmeasured: every token then costs the same
    served        counts how questions are served, where that shall go on from an engine before
    """
    prompt = Prompt(models.primary.tokenizer)
    cache = ChunkCache(models.primary, prompt.prefix, tiers.tree, costs_of(models.primary, costs))
    auxiliary = AuxiliaryScorer(cache, prompt, models.selector)
    if models.auxiliary is not models.primary:
        own = Prompt(models.auxiliary.tokenizer)
        beside = ChunkCache(models.auxiliary, own.prefix, tiers.tree, costs_of(models.auxiliary, costs))
        auxiliary = AuxiliaryScorer(beside, own, models.selector)
        if beside.fingerprint != cache.fingerprint:
            tiers.keep_off_device(beside.fingerprint)
    finder = open_library(prompt.tokens.data)
    trouble = lambda: tiers.disk_error  # noqa: E731
    return Engine(finder, cache, prompt, auxiliary, disk_error=trouble, stats=served, grounding=models.grounds)


def costs_of(decoder: Decoder, folder: Path | None) -> CostModel | None:
    """Return what computing costs a model on this machine, kept in `folder`; None without a folder."""
    if folder is None:
        return None
    on_gpu = decoder.device.type == "cuda"
    kind = torch.cuda.get_device_name(decoder.device) if on_gpu else torch.backends.cpu.get_cpu_capability()
    machine = re.sub(r"\W+", "-", f"{platform.machine()} {kind} {torch.get_num_threads()}")
    name = f"costs-{fingerprint.model_fingerprint(decoder)}-{machine}.json"
    return kept(folder / name, lambda: measured(decoder))
