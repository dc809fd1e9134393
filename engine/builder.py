"""Build an engine from a configuration: load the models, open the caches."""

import gc
import platform
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer

from assets import ASSETS
from engine.cache.cost_model import CostModel, load_or_measure, measure_costs
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.cache.hit_stats import CacheStats
from engine.engine import Engine
from engine.errors import BadRequest, LoraAdapterUnusable, SpanScorerUnusable, TokenSelectorUnusable
from engine.generation.grounding import GroundingModel
from engine.generation.span_scorer import SPAN_SCORER_FILE, SpanScorer
from engine.kv.chunk_cache import ChunkCache, model_fingerprint
from engine.model.decoder import Decoder
from engine.model.encoder import SEMANTIC_LAYER, load_encoder, load_minilm
from engine.model.kernels.load import KernelChoice, choose_kernels
from engine.model.loading.bundled import BUNDLED_MODEL, ProgressCallback
from engine.model.loading.decoding import choose_decoding
from engine.model.loading.load import fuse_layers, load_decoder, select_dtype
from engine.model.loading.lora import LORA_WEIGHTS_FILE
from engine.model.loading.resolve import estimate_footprint, folder_footprint, free_bytes, resolve
from engine.prompt.template import PromptTemplate
from engine.prompt.text_finder import TextFinder
from engine.scheduler.scheduler import MAX_DECODING, Scheduler
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.scoring.trained_selector import SELECTOR_FILE, TokenSelector
from store.data_folder import default_data_folder
from store.types import Finder
from store.weights_file import QUOTE_ENCODER, QUOTE_ENCODER_FILE, load_weights

LORA_ADAPTER = ASSETS / "reader"  # these are trained here: `python -m training`
PLAIN_ADAPTER = ASSETS / "plain"  # the same without reused KV in its training: reuse fails as on other models
TOKEN_SELECTOR = ASSETS / "selector"
SPAN_SCORER = ASSETS / "span_scorer"


@dataclass(frozen=True)
class ModelConfig:
    """Which models to load, and where they run. Adapters are 'auto' (ours, where it fits), 'off', or a folder."""

    folder: Path  # where the bundled model is unpacked
    model: str = BUNDLED_MODEL  # the main model: a folder, a name on the Hugging Face Hub, or the bundled model's name
    auxiliary_model: str = BUNDLED_MODEL  # likewise; it always runs on the CPU
    device: str = "auto"  # of the main model: 'auto', 'cpu' or 'cuda'
    dtype: str = "auto"  # 'auto', 'bf16' or 'fp32'
    lora_adapter: str = "auto"  # merged into the main model; ours and 'plain' fit the bundled model
    span_scorer: str = "auto"  # ours fits any main model
    quote_encoder: str = "auto"  # with a span scorer; 'off': the unchanged all-MiniLM-L6-v2 compares quotes
    token_selector: str = "auto"  # ours fits the bundled model with our LoRA adapter
    attention: str = "auto"  # on the CPU: 'auto' (our kernels, where they are faster), or 'torch'
    decode_weights: str = "auto"  # that our kernel decodes with: 'bf16', 'int8', or 'auto' (int8 if there is memory)

    @property
    def lora_folder(self) -> Path | None:
        if self.lora_adapter == "plain":
            return PLAIN_ADAPTER
        return _folder(self.lora_adapter, LORA_ADAPTER if self.model == BUNDLED_MODEL else None)

    @property
    def span_scorer_folder(self) -> Path | None:
        return _folder(self.span_scorer, SPAN_SCORER)

    @property
    def quote_encoder_folder(self) -> Path | None:
        return _folder(self.quote_encoder, QUOTE_ENCODER)

    @property
    def token_selector_folder(self) -> Path | None:
        is_default = self.model == BUNDLED_MODEL and self.lora_adapter in ("auto", "plain")
        return _folder(self.token_selector, TOKEN_SELECTOR if is_default else None)


def _folder(option: str, default: Path | None) -> Path | None:
    if option == "auto":
        return default
    return None if option == "off" else Path(option).expanduser()


@dataclass(frozen=True)
class Models:
    """Loaded models; `auxiliary is primary` if both are the same weights on the same device."""

    primary: Decoder
    auxiliary: Decoder
    precision: str  # for the user, such as 'bf16 on the CPU (AVX-512 BF16)'
    attention: str  # which attention the CPU uses, and why: a sentence for the user
    decoding: str  # what decodes on the CPU, and why; likewise
    token_selector: TokenSelector | None = None
    grounding: GroundingModel | None = None  # None without span scorer and LoRA adapter


def load_models(config: ModelConfig, report: ProgressCallback = lambda message, fraction: None) -> Models:
    """Resolve, load and self-test all models, and measure the main model's decode speed.

    Raises HubUnreachable, ModelNotFound, UnsupportedModel, or ...Unusable for an adapter.
    """
    device, dtype, precision = select_dtype(config.device, config.dtype)
    _, cpu_dtype, _ = select_dtype("cpu", config.dtype)
    kernels = _start_choosing_kernels(config, cpu_dtype)  # compiles meanwhile, at the first start
    token_selector = None
    if config.token_selector_folder is not None:
        token_selector = TokenSelector.load(config.token_selector_folder, load_encoder(cpu_dtype))
    grounding = load_grounding(config, cpu_dtype)

    def load(name: str, device: torch.device, dtype: torch.dtype, progress: float) -> Decoder:
        folder = resolve(name, config.folder, report)
        report(f"Loading {Path(name).name}", progress)
        adapter = config.lora_folder if name == config.model else None
        return load_decoder(folder, device, dtype, Path(name).name, adapter)

    primary = auxiliary = load(config.model, device, dtype, 0.8)
    if config.auxiliary_model != config.model or device.type != "cpu":
        auxiliary = load(config.auxiliary_model, torch.device("cpu"), cpu_dtype, 0.9)
    choice = kernels.result()
    for decoder in dict.fromkeys((primary, auxiliary)):
        decoder.use_kernel(choice.attention)
        fuse_layers(decoder, choice)
    if grounding is not None:
        grounding.use_kernel(choice.attention)
    decoding = choose_decoding(primary, choice, config.decode_weights)
    return Models(primary, auxiliary, precision, choice.reason, decoding, token_selector, grounding)


def _start_choosing_kernels(config: ModelConfig, cpu_dtype: torch.dtype) -> Future[KernelChoice]:
    """Return the kernels for the CPU, chosen in a thread of its own. Raises BadRequest."""
    if config.attention not in ("auto", "torch"):
        raise BadRequest(f"The attention is 'auto' or 'torch', got {config.attention!r}.")
    if config.decode_weights not in ("auto", "int8", "bf16"):
        raise BadRequest(f"The weights for decoding are 'auto', 'int8' or 'bf16', got {config.decode_weights!r}.")
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kernels")
    try:
        if config.attention == "torch":
            return executor.submit(KernelChoice, None, "torch's: requested.")
        if cpu_dtype != torch.bfloat16:
            return executor.submit(KernelChoice, None, "torch's: the kernel computes in bf16 only.")
        return executor.submit(choose_kernels, config.folder / "kernels")
    finally:
        executor.shutdown(wait=False)


def fetch_models(config: ModelConfig, report: ProgressCallback = lambda message, fraction: None) -> None:
    """Download both models and check their configurations, without loading them.

    Raises HubUnreachable and what `load_models` would raise for the configuration, before any download if possible.
    """
    select_dtype(config.device, config.dtype)
    for folder, file, error_class in (
        (config.lora_folder, LORA_WEIGHTS_FILE, LoraAdapterUnusable),
        (config.token_selector_folder, SELECTOR_FILE, TokenSelectorUnusable),
        (config.span_scorer_folder, SPAN_SCORER_FILE, SpanScorerUnusable),
    ):
        if folder is not None and not (folder / file).is_file():
            raise error_class(f"There is no {file} in {folder}.")
    names = dict.fromkeys((config.model, config.auxiliary_model))
    for name in names:
        estimate_footprint(name, config.folder)
    for name in names:
        folder_footprint(resolve(name, config.folder, report))


def release_memory() -> None:
    """Free the memory of models that are no longer referenced."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def load_grounding(config: ModelConfig, dtype: torch.dtype) -> GroundingModel | None:
    """Load the span scorer and the quote encoder; None without them and a LoRA adapter. Raises SpanScorerUnusable."""
    if config.span_scorer_folder is None:
        return GroundingModel() if config.lora_folder else None
    span_scorer = SpanScorer.load(config.span_scorer_folder, *load_minilm(dtype))
    encoder, quote_encoder = load_encoder(dtype, (SEMANTIC_LAYER,)), None
    if config.quote_encoder_folder is not None:
        path = config.quote_encoder_folder / QUOTE_ENCODER_FILE
        quote_encoder = load_encoder(dtype, (SEMANTIC_LAYER,))
        try:
            load_weights(path, quote_encoder.model)
        except (OSError, SafetensorError, ValueError) as error:
            raise SpanScorerUnusable(f"The quote encoder in {path} cannot be used ({error}).") from error
        quote_encoder.model.embeddings = encoder.model.embeddings  # they are not trained
    return GroundingModel(span_scorer, encoder, quote_encoder, config.lora_folder is not None)


def build_engine(
    models: Models,
    open_finder: Callable[[Tokenizer], Finder],
    tiers: CacheHierarchy,
    cost_folder: Path | None = None,
    stats: CacheStats | None = None,
    scheduler: Scheduler | None = None,
) -> Engine:
    """Return an engine over loaded models and the tiers of chunk KV, which both models share.

    open_finder  called with the main model's tokenizer, which measures chunks
    cost_folder  keeps the measured cost of prefill; None assumes equal cost per token
    stats        continues the counts of an earlier engine
    scheduler    of another engine on the same models, to take turns with it
    """

    def open_cache(decoder: Decoder) -> tuple[ChunkCache, PromptTemplate]:
        template = PromptTemplate(decoder.tokenizer)
        costs = load_cost_model(decoder, cost_folder)
        return ChunkCache(decoder, template.prefix_ids, tiers.tree, costs, tiers.remote), template

    main = auxiliary = open_cache(models.primary)
    if models.auxiliary is not models.primary:
        auxiliary = open_cache(models.auxiliary)
        if auxiliary[0].fingerprint != main[0].fingerprint:
            tiers.exclude_from_device(auxiliary[0].fingerprint)
    cache, template = main
    return Engine(
        open_finder(template.tokenizer.data),
        cache,
        template,
        AuxiliaryScorer(*auxiliary, models.token_selector),
        grounding=models.grounding,
        stats=stats,
        scheduler=scheduler or Scheduler(max_decoding=_max_decoding(models.primary)),
        disk_error=lambda: tiers.disk_error,
    )


def _max_decoding(decoder: Decoder) -> int:
    """Return how many answers may be decoded together: full contexts of them fit into half of the free memory."""
    buffer_bytes = decoder.spec.kv_bytes(decoder.spec.max_positions, decoder.dtype.itemsize)
    return max(1, min(MAX_DECODING, free_bytes(decoder.device) // (2 * buffer_bytes)))


def load_engine(
    model: str = BUNDLED_MODEL,
    texts: Sequence[str] = (),
    finder: Finder | None = None,
    *,
    folder: Path | None = None,
    cache_bytes: int = 4 * 2**30,
    **options: str,
) -> Engine:
    """Load models and return an engine over texts in memory; nothing but downloaded models is written to disk.

    Parameters
    ----------
    model
        The main model: a folder in Hugging Face format, a name on the Hub, or the bundled model.
    texts
        The passages. Each is one chunk, ranked by the words it shares with the question.
    finder
        Retrieves passages instead of `texts`; see `store.types.Finder`.
    folder
        Where the bundled model is unpacked; the application's model folder by default.
    cache_bytes
        Memory for chunk KV, in bytes.
    **options
        Further fields of `ModelConfig`: auxiliary_model, device, dtype, lora_adapter, span_scorer,
        token_selector, attention, decode_weights.

    Returns
    -------
    Engine
        Answers a `Request` with `ask`.

    Raises
    ------
    ModelNotFound, UnsupportedModel
        If the model cannot be loaded, or KV reuse is not exact on it.
    """
    models = load_models(ModelConfig(folder or default_data_folder() / "models", model, **options))
    config = CacheHierarchyConfig(host_bytes=cache_bytes, disk_bytes=0, device_bytes=cache_bytes)
    tiers = CacheHierarchy(config, None, models.primary.device)
    engine = build_engine(models, lambda tokenizer: finder or TextFinder(texts), tiers)
    engine.disk_error = lambda: ""  # there is no disk tier on purpose
    return engine


def load_cost_model(decoder: Decoder, folder: Path | None) -> CostModel | None:
    """Return the measured prefill cost of a model on this machine, cached in `folder`; None without a folder."""
    if folder is None:
        return None
    return load_or_measure(measurement_file(decoder, folder, "costs"), lambda: measure_costs(decoder))


def measurement_file(decoder: Decoder, folder: Path, name: str) -> Path:
    """Return the file of a measurement of a model on this machine."""
    on_gpu = decoder.device.type == "cuda"
    processor = torch.cuda.get_device_name(decoder.device) if on_gpu else torch.backends.cpu.get_cpu_capability()
    kernel = " kernel" if decoder.attention_kernel else ""
    machine = re.sub(r"\W+", "-", f"{platform.machine()} {processor} {torch.get_num_threads()}{kernel}")
    return folder / f"{name}-{model_fingerprint(decoder)}-{machine}.json"
