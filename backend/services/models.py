"""Implementation of the Settings page's interface: loaded models, memory estimates, and changes of settings."""

import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import torch

from backend.interface.models import MemoryEstimate, ModelInfo, ReloadStatus, SettingsChange, StaleChunking, SystemInfo
from backend.runtime.loader import RuntimeLoader
from backend.runtime.reload import Reloader
from backend.runtime.settings import Settings, read_preferences
from backend.runtime.tasks import TaskRegistry
from engine.errors import BadRequest
from engine.model.decoder import Decoder
from engine.model.encoder import MAX_PIECES
from engine.model.loading.bundled import BUNDLED_MODEL
from engine.model.loading.dtype import select_dtype
from engine.model.loading.footprint import estimate_footprint, free_bytes
from engine.prompt.template import SYSTEM
from store.ingest.chunker import ChunkConfig, chunk_config_of
from store.preferences import Preferences

SUGGESTED_MODELS = (BUNDLED_MODEL, "Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-360M-Instruct")
TYPICAL_PASSAGES = 8  # of a typical question
TYPICAL_OTHER_TOKENS = 1024  # of a typical question: prefix, question and answer
EMBEDDER_PARAMETERS = 22_713_216
EMBEDDER_TOKENS = 256
RERANKER_TOKENS = 512
DATA_FOLDERS = {"library": "Documents and search index", "kv": "Chunk KV", "models": "Bundled model"}
PACKAGES = ("torch", "transformers", "gradio", "chromadb", "sentence-transformers")


class LocalModelService:
    """Shows and changes the models and settings of a loader; see `backend.interface.models`.

    overrides  the flag or variable that sets a setting, by the setting's name; such settings cannot be changed
    """

    def __init__(self, loader: RuntimeLoader, tasks: TaskRegistry, overrides: Mapping[str, str]) -> None:
        self._loader = loader
        self._overrides = dict(overrides)
        self.reloader = Reloader(loader, tasks, self._save, self._overrides)

    def loaded(self) -> list[ModelInfo]:
        if (runtime := self._loader.runtime) is None:
            return []
        models, settings = runtime.models, self._loader.settings
        primary, auxiliary = models.primary, models.auxiliary
        notes = {"auto": "with the bundled LoRA adapter" if settings.model == BUNDLED_MODEL else "", "off": ""}
        infos = [_decoder_info("primary", primary, notes.get(settings.lora_adapter, f"with {settings.lora_adapter}"))]
        if auxiliary is primary:
            infos.append(_decoder_info("auxiliary", auxiliary, "shares the weights of the main model", memory_bytes=0))
        else:
            infos.append(_decoder_info("auxiliary", auxiliary))
        span_scorer = models.grounding.span_scorer if models.grounding else None
        for role, model, source in (
            ("token_selector", models.token_selector, settings.token_selector),
            ("span_scorer", span_scorer, settings.span_scorer),
        ):
            if model is not None:
                name = "bundled" if source == "auto" else source
                name += f", over {max(model.encoder.layers)} layers of all-MiniLM-L6-v2"
                dtype_name = _dtype_name(model.encoder.dtype)
                infos.append(
                    ModelInfo(role, name, model.num_parameters, dtype_name, "CPU", MAX_PIECES, model.size_bytes)
                )
        dtype = select_dtype("cpu", settings.dtype)[1]
        infos.append(
            ModelInfo(
                role="embedder",
                name="all-MiniLM-L6-v2",
                num_parameters=EMBEDDER_PARAMETERS,
                dtype=_dtype_name(dtype),
                device="CPU",
                max_context_tokens=EMBEDDER_TOKENS,
                memory_bytes=EMBEDDER_PARAMETERS * dtype.itemsize,
            )
        )
        if settings.reranker != "off":
            infos.append(ModelInfo("reranker", settings.reranker, None, "fp32", "CPU", RERANKER_TOKENS, None))
        return infos

    def suggestions(self) -> list[str]:
        settings = self._loader.settings
        return list(dict.fromkeys((*SUGGESTED_MODELS, settings.model, settings.auxiliary_model)))

    def devices(self) -> list[str]:
        gpus = (f"cuda:{i}" for i in range(torch.cuda.device_count()))
        return list(dict.fromkeys(("auto", "cpu", *gpus, self._loader.settings.device)))  # --device takes others too

    def current(self) -> SettingsChange:
        return SettingsChange(**self._loader.settings.mutable_values())

    def overrides(self) -> dict[str, str]:
        return dict(self._overrides)

    def estimate_memory(self, name: str, role: str, settings: SettingsChange) -> MemoryEstimate:
        try:
            device, dtype, _ = select_dtype("cpu" if role == "auxiliary" else settings.device, settings.dtype)
        except ValueError as error:
            raise BadRequest(f"The {error}.") from error
        footprint = estimate_footprint(name, self._loader.settings.data / "models")
        typical_tokens = TYPICAL_PASSAGES * settings.chunk_size + TYPICAL_OTHER_TOKENS
        return MemoryEstimate(
            name=name,
            model_type=footprint.model_type,
            num_parameters=footprint.num_parameters,
            dtype=_dtype_name(dtype),
            device=_device_name(device),
            max_context_tokens=footprint.max_context_tokens,
            weights_bytes=footprint.weights_bytes(dtype),
            max_kv_bytes=footprint.kv_bytes(footprint.max_context_tokens, dtype),
            typical_kv_bytes=footprint.kv_bytes(typical_tokens, dtype),
            download_bytes=footprint.download_bytes,
            free_bytes=free_bytes(device) + self._reclaimable_bytes(role, device),
        )

    def apply(self, settings: SettingsChange) -> None:
        self.reloader.start(self._loader.settings.updated(asdict(settings)))

    def reload_status(self) -> ReloadStatus:
        reloader, status = self.reloader, self._loader.status
        if not reloader.is_running:
            return ReloadStatus(error=reloader.error)
        return ReloadStatus(True, reloader.is_downloading, status.message, status.progress, reloader.error)

    def cancel_download(self) -> None:
        self.reloader.cancel_download()

    def system_prompt(self) -> str:
        return SYSTEM

    def stale_documents(self) -> list[StaleChunking]:
        settings = self._loader.settings
        current = ChunkConfig(settings.chunk_size, settings.chunk_overlap)
        stale: dict[ChunkConfig, list[str]] = {}
        for document in self._loader.documents():
            if (config := chunk_config_of(document)) != current:
                stale.setdefault(config, []).append(document.id)
        return [StaleChunking(config.tokens, config.overlap, tuple(ids)) for config, ids in stale.items()]

    def system_info(self) -> SystemInfo:
        versions = [("Python", platform.python_version()), *((name, version(name)) for name in PACKAGES)]
        folder = self._loader.settings.data
        usage = [(label, _size_bytes(folder / name)) for name, label in DATA_FOLDERS.items()]
        other_bytes = sum(_size_bytes(path) for path in folder.iterdir() if path.name not in DATA_FOLDERS)
        usage.append(("Settings and cost measurements", other_bytes))
        return SystemInfo(tuple(versions), str(folder), tuple(usage))

    def _save(self, settings: Settings) -> None:
        """Save values that differ from the defaults. Saved values of overridden settings stay as they are."""
        data = settings.data
        saved = {name: value for name, value in read_preferences(data).items() if name in self._overrides}
        for name, value in settings.mutable_values().items():
            if name not in self._overrides and value != Settings.model_fields[name].default:
                saved[name] = value
        Preferences(data).write(saved)

    def _reclaimable_bytes(self, role: str, device: torch.device) -> int:
        """Return the bytes on a device of the model that another would replace; 0 if it has a second role."""
        runtime = self._loader.runtime
        if runtime is None or runtime.models.primary is runtime.models.auxiliary:
            return 0
        replaced = runtime.models.primary if role == "primary" else runtime.models.auxiliary
        return weights_bytes(replaced) if replaced.device.type == device.type else 0


def weights_bytes(decoder: Decoder) -> int:
    """Return the bytes of a model's weights, counting tied ones once."""
    return sum(weight.nbytes for weight in decoder.model.parameters())


def _decoder_info(role: str, decoder: Decoder, note: str = "", memory_bytes: int | None = None) -> ModelInfo:
    return ModelInfo(
        role=role,
        name=decoder.name,
        num_parameters=decoder.spec.num_parameters,
        dtype=_dtype_name(decoder.dtype),
        device=_device_name(decoder.device),
        max_context_tokens=decoder.spec.max_positions,
        memory_bytes=weights_bytes(decoder) if memory_bytes is None else memory_bytes,
        selftest=decoder.selftest_result,
        note=note,
    )


def _dtype_name(dtype: torch.dtype) -> str:
    return "bf16" if dtype == torch.bfloat16 else "fp32"


def _device_name(device: torch.device) -> str:
    return "GPU" if device.type == "cuda" else "CPU"


def _size_bytes(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; files that disappear meanwhile are skipped."""
    total = 0
    for each in (path, *path.rglob("*")):
        try:
            total += each.stat().st_size if each.is_file() else 0
        except OSError:
            continue
    return total
