"""Implementation of the Settings page's interface: loaded models, memory estimates, and changes of settings."""

import platform
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch

from backend.interface.models import (
    FidelityStatus,
    MemoryEstimate,
    ModelInfo,
    PresetInfo,
    ReloadStatus,
    SettingsChange,
    StaleChunking,
    SystemInfo,
)
from backend.runtime.loader import RuntimeLoader
from backend.services.fidelity import IdleCalibration
from engine.errors import ModelNotFound
from engine.generation.span_scorer import SpanScorer
from engine.model.decoder import Decoder
from engine.model.encoder import MAX_PIECES, Encoder
from engine.model.loading.load import select_dtype
from engine.model.loading.presets import BUNDLED_MODEL, PRESETS
from engine.model.loading.resolve import estimate_footprint, find_local, free_bytes
from engine.prompt.template import SYSTEM
from engine.scoring.trained_selector import TokenSelector
from store.errors import LibraryUnavailable
from store.ingest.chunker import ChunkConfig, chunk_config_of
from store.library import LibraryInfo

TYPICAL_PASSAGES = 8  # of a typical question
TYPICAL_OTHER_TOKENS = 1024  # of a typical question: prefix, question and answer
RERANKER_TOKENS = 512
DATA_FOLDERS = {"library": "Documents and search index", "kv": "Chunk KV", "models": "Bundled model"}
PACKAGES = ("torch", "transformers", "gradio", "chromadb", "sentence-transformers")


@dataclass
class LocalModelService:
    loader: RuntimeLoader
    calibration: IdleCalibration

    def loaded(self) -> list[ModelInfo]:
        if (runtime := self.loader.runtime) is None:
            return []
        models, settings = runtime.models, self.loader.settings
        bundled = "with the bundled LoRA adapter" if settings.model == BUNDLED_MODEL else ""
        notes = {"auto": bundled, "plain": "with the LoRA adapter trained without reused KV", "off": ""}
        note = notes.get(settings.lora_adapter, f"with {settings.lora_adapter}")
        primary = replace(_decoder_info("primary", models.primary, models.attention), note=note)
        infos = [replace(primary, tokens_per_second=models.primary.tokens_per_second, decoding=models.decoding)]
        if models.auxiliary is models.primary:
            note = "shares the weights of the main model"
            infos.append(replace(primary, role="auxiliary", memory_bytes=0, note=note))
        else:
            infos.append(_decoder_info("auxiliary", models.auxiliary, models.attention))
        if (selector := models.token_selector) is not None:
            layers = f"over {max(selector.encoder.layers)} layers of all-MiniLM-L6-v2"
            infos.append(
                _encoder_info("token_selector", settings.token_selector, layers, selector, selector.encoder.dtype)
            )
        if models.grounding is not None and (scorer := models.grounding.span_scorer) is not None:
            finetuned = "finetuned from all-MiniLM-L6-v2"
            infos.append(_encoder_info("span_scorer", settings.span_scorer, finetuned, scorer, scorer.encoder.dtype))
            if (encoder := models.grounding.quote_encoder) is not None:
                infos.append(_encoder_info("quote_encoder", "auto", finetuned, encoder, encoder.dtype))
        with suppress(LibraryUnavailable):
            embedder = _embedder_info(runtime.documents.info(), select_dtype("cpu", settings.dtype)[1])
            infos.append(replace(embedder, note="runs where the library is") if settings.library else embedder)
        if settings.reranker != "off":
            infos.append(ModelInfo("reranker", settings.reranker, None, "fp32", "CPU", RERANKER_TOKENS, None))
        return infos

    def presets(self) -> list[PresetInfo]:
        runtime, settings = self.loader.runtime, self.loader.settings
        loaded = None if runtime is None else runtime.models.primary
        infos = []
        for preset in PRESETS:
            is_loaded = loaded is not None and preset.name == settings.model
            is_local, speed = False, None
            with suppress(ModelNotFound):  # there is a folder of this name without a model
                is_local = find_local(preset.name, settings.data / "models") is not None
            if loaded is not None and loaded.tokens_per_second is not None:
                # Decoding a token reads every weight once, and the weights would have the same dtype.
                relative_size = 1.0 if is_loaded else preset.num_parameters / loaded.spec.num_parameters
                speed = loaded.tokens_per_second / relative_size
            infos.append(PresetInfo(preset, is_loaded, is_local, speed))
        return infos

    def suggestions(self) -> list[str]:
        settings = self.loader.settings
        names = (preset.name for preset in PRESETS)
        return list(dict.fromkeys((*names, settings.model, settings.auxiliary_model)))

    def devices(self) -> list[str]:
        gpus = (f"cuda:{i}" for i in range(torch.cuda.device_count()))
        return list(dict.fromkeys(("auto", "cpu", *gpus, self.loader.settings.device)))  # --device takes others too

    def current(self) -> SettingsChange:
        return SettingsChange(**self.loader.settings.mutable_values())

    def overrides(self) -> dict[str, str]:
        return dict(self.loader.overrides)

    def estimate_memory(self, name: str, role: str, settings: SettingsChange) -> MemoryEstimate:
        device, dtype, _ = select_dtype("cpu" if role == "auxiliary" else settings.device, settings.dtype)
        footprint = estimate_footprint(name, self.loader.settings.data / "models")
        typical_tokens = TYPICAL_PASSAGES * settings.chunk_size + TYPICAL_OTHER_TOKENS
        token_bytes = footprint.kv_elements_per_token * dtype.itemsize
        return MemoryEstimate(
            name=name,
            model_type=footprint.model_type,
            num_parameters=footprint.num_parameters,
            dtype=_dtype_name(dtype),
            device=_device_name(device),
            max_context_tokens=footprint.max_context_tokens,
            weights_bytes=footprint.num_parameters * dtype.itemsize,
            max_kv_bytes=footprint.max_context_tokens * token_bytes,
            typical_kv_bytes=min(typical_tokens, footprint.max_context_tokens) * token_bytes,
            download_bytes=footprint.download_bytes,
            free_bytes=free_bytes(device) + self._reclaimable_bytes(role, device),
        )

    def apply(self, settings: SettingsChange) -> None:
        self.loader.apply(self.loader.settings.updated(asdict(settings)))

    def reload_status(self) -> ReloadStatus:
        loader, status = self.loader, self.loader.status
        if not loader.is_reloading:
            return ReloadStatus(error=loader.error)
        return ReloadStatus(True, loader.is_downloading, status.message, status.progress, loader.error)

    def cancel_download(self) -> None:
        self.loader.cancel_download()

    def fidelity(self) -> FidelityStatus:
        return self.calibration.status()

    def system_prompt(self) -> str:
        return SYSTEM

    def stale_documents(self) -> list[StaleChunking]:
        settings = self.loader.settings
        current = ChunkConfig(settings.chunk_size, settings.chunk_overlap)
        stale: dict[ChunkConfig, list[str]] = {}
        for document in self.loader.documents():
            if (config := chunk_config_of(document)) != current:
                stale.setdefault(config, []).append(document.id)
        return [StaleChunking(config.tokens, config.overlap, tuple(ids)) for config, ids in stale.items()]

    def system_info(self) -> SystemInfo:
        versions = [("Python", platform.python_version()), *((name, version(name)) for name in PACKAGES)]
        folder = self.loader.settings.data
        usage = [(label, _size_bytes(folder / name)) for name, label in DATA_FOLDERS.items()]
        other_bytes = sum(_size_bytes(path) for path in folder.iterdir() if path.name not in DATA_FOLDERS)
        usage.append(("Settings and cost measurements", other_bytes))
        return SystemInfo(tuple(versions), str(folder), tuple(usage))

    def _reclaimable_bytes(self, role: str, device: torch.device) -> int:
        """Return the bytes on a device of the model that another would replace; 0 if it has a second role."""
        runtime = self.loader.runtime
        if runtime is None or runtime.models.primary is runtime.models.auxiliary:
            return 0
        replaced = runtime.models.primary if role == "primary" else runtime.models.auxiliary
        return _weights_bytes(replaced) if replaced.device.type == device.type else 0


def _weights_bytes(decoder: Decoder) -> int:
    """Return the bytes of a model's weights, counting tied ones once."""
    return sum(weight.nbytes for weight in decoder.model.parameters())


def _encoder_info(
    role: str, source: str, description: str, network: TokenSelector | SpanScorer | Encoder, dtype: torch.dtype
) -> ModelInfo:
    name = f"{'bundled' if source == 'auto' else source}, {description}"
    return ModelInfo(role, name, network.num_parameters, _dtype_name(dtype), "CPU", MAX_PIECES, network.size_bytes)


def _embedder_info(library: LibraryInfo, dtype: torch.dtype) -> ModelInfo:
    size, dtype_name, num_tokens = library.embedder_parameters, _dtype_name(dtype), library.embedder_max_tokens
    return ModelInfo("embedder", library.embedder, size, dtype_name, "CPU", num_tokens, size * dtype.itemsize)


def _decoder_info(role: str, decoder: Decoder, attention: str) -> ModelInfo:
    return ModelInfo(
        role=role,
        name=decoder.name,
        num_parameters=decoder.spec.num_parameters,
        dtype=_dtype_name(decoder.dtype),
        device=_device_name(decoder.device),
        max_context_tokens=decoder.spec.max_positions,
        memory_bytes=_weights_bytes(decoder),
        selftest=decoder.selftest_result,
        attention=attention if decoder.device.type == "cpu" else "",
        kv_token_bytes=decoder.spec.kv_bytes(1, decoder.dtype.itemsize),
    )


def _dtype_name(dtype: torch.dtype) -> str:
    return "bf16" if dtype == torch.bfloat16 else "fp32"


def _device_name(device: torch.device) -> str:
    return "GPU" if device.type == "cuda" else "CPU"


def _size_bytes(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; files that disappear meanwhile are skipped."""
    total = 0
    for each in (path, *path.rglob("*")):
        with suppress(OSError):
            total += each.stat().st_size if each.is_file() else 0
    return total
