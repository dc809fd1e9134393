"""The Settings page's desk: what is loaded, what a model would take, and changes that are remembered."""

import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from backend.interface.models import MemoryEstimate, ModelInfo, ReloadStatus, SettingsChange, StaleChunking, SystemInfo
from backend.runtime.loader import RuntimeLoader
from backend.runtime.reload import Reloader
from backend.runtime.settings import MUTABLE_SETTINGS, Settings
from backend.runtime.tasks import TaskRegistry
from engine.errors import BadRequest
from engine.model.decoder import Decoder
from engine.model.encoder import READS
from engine.model.loading.bundled import NAME
from engine.model.loading.dtype import select_dtype
from engine.model.loading.footprint import footprint, free_bytes
from engine.prompt.template import SYSTEM
from store.ingest.chunker import ChunkConfig, cut_of
from store.preferences import Preferences

OFFERED = (NAME, "Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-360M-Instruct")
PASSAGES, AROUND = 8, 1024  # a usual question: passages, and tokens of prefix, question and answer
EMBEDDER_WEIGHTS = 22_713_216
PARTS = {"library": "Documents and their index", "kv": "Keys and values", "models": "Embedded model"}
SHOWN = ("torch", "transformers", "gradio", "chromadb", "sentence-transformers")


class LocalModelService:
    """The desk over a loader. `fixed` are the choices that a flag or a variable has made, by name."""

    def __init__(self, loader: RuntimeLoader, work: TaskRegistry, fixed: Mapping[str, str]) -> None:
        self._loader, self._fixed = loader, dict(fixed)
        self._preferences = Preferences(loader.settings.data)
        self.reloader = Reloader(loader, work, self._keep, self._fixed)

    def loaded(self) -> list[ModelInfo]:
        if (house := self._loader.runtime) is None:
            return []
        primary, auxiliary, settings = house.models.primary, house.models.auxiliary, self._loader.settings
        shared = auxiliary is primary
        adapted = {"auto": "with the shipped reader" if settings.model == NAME else "", "off": ""}
        reader = adapted.get(settings.reader, f"with the reader {settings.reader}")
        beside = "shares the weights of the model that answers" if shared else ""
        found = [
            _info("primary", primary, weights_bytes(primary), reader),
            _info("auxiliary", auxiliary, 0 if shared else weights_bytes(auxiliary), beside),
        ]
        pointer = house.models.grounds.pointer if house.models.grounds else None
        for role, one in (("selector", house.models.selector), ("pointer", pointer)):
            if one is not None:
                chosen, layers = getattr(settings, role), max(one.encoder.layers)
                whose = "KVScope's" if chosen == "auto" else chosen
                name = f"{whose}, over {layers} layers of all-MiniLM-L6-v2"
                kind = _format(one.encoder.dtype)
                found.append(ModelInfo(role, name, one.parameters, kind, "CPU", READS, one.size_bytes))
        dtype = select_dtype("cpu", settings.dtype)[1]
        size = EMBEDDER_WEIGHTS * dtype.itemsize
        found.append(ModelInfo("embedder", "all-MiniLM-L6-v2", EMBEDDER_WEIGHTS, _format(dtype), "CPU", 256, size))
        if settings.reranker != "off":
            found.append(ModelInfo("reranker", settings.reranker, None, "fp32", "CPU", 512, None))
        return found

    def suggestions(self) -> list[str]:
        settings = self._loader.settings
        return list(dict.fromkeys((*OFFERED, settings.model, settings.auxiliary)))

    def devices(self) -> list[str]:
        found = (f"cuda:{number}" for number in range(torch.cuda.device_count()))
        return list(dict.fromkeys(("auto", "cpu", *found, self._loader.settings.device)))  # --device takes others too

    def wanted(self) -> SettingsChange:
        return SettingsChange(**self._loader.settings.choices())

    def overridden(self) -> dict[str, str]:
        return dict(self._fixed)

    def check(self, name: str, role: str, wanted: SettingsChange) -> MemoryEstimate:
        settings = self._loader.settings
        try:
            device, dtype, _ = select_dtype("cpu" if role == "auxiliary" else wanted.device, wanted.dtype)
        except ValueError as error:
            raise BadRequest(f"The {error}.") from error
        found = footprint(name, settings.data / "models")
        tokens = PASSAGES * wanted.chunk_tokens + AROUND
        return MemoryEstimate(
            name=name,
            family=found.family,
            parameters=found.parameters,
            dtype=_format(dtype),
            device=_place(device),
            context=found.context,
            weights_bytes=found.weights_bytes(dtype),
            kv_bytes=found.kv_bytes(found.context, dtype),
            question_bytes=found.kv_bytes(tokens, dtype),
            fetch_bytes=found.fetch_bytes,
            free_bytes=free_bytes(device) + self._given_back(role, device),
        )

    def change(self, wanted: SettingsChange) -> None:
        self.reloader.begin(self._loader.settings.with_choices(asdict(wanted)))

    def changing(self) -> ReloadStatus:
        running, status = self.reloader.running, self._loader.status
        line, share = (status.line, status.share) if running else ("", None)
        return ReloadStatus(running, running and self.reloader.fetching, line, share, self.reloader.trouble)

    def stop(self) -> None:
        self.reloader.stop()

    def prompt(self) -> str:
        return SYSTEM

    def stale_documents(self) -> list[StaleChunking]:
        settings, found = self._loader.settings, dict[ChunkConfig, list[str]]()
        today = ChunkConfig(settings.chunk_tokens, settings.chunk_overlap)
        for document in self._loader.listed():
            if (cut := cut_of(document)) != today:
                found.setdefault(cut, []).append(document.id)
        return [StaleChunking(cut.tokens, cut.overlap, tuple(ids)) for cut, ids in found.items()]

    def system_info(self) -> SystemInfo:
        versions = [("Python", platform.python_version()), *((name, version(name)) for name in SHOWN)]
        folder = self._loader.settings.data
        rest = sum(_size(path) for path in folder.iterdir() if path.name not in PARTS)
        parts = [*((PARTS[part], _size(folder / part)) for part in PARTS), ("Settings, measured costs", rest)]
        return SystemInfo(tuple(versions), str(folder), tuple(parts))

    def _keep(self, settings: Settings) -> None:
        """Remember what was chosen here; what a flag has fixed leaves an earlier choice as it was."""
        chosen: dict[str, Any] = settings.choices()
        usual = {name: Settings.model_fields[name].default for name in MUTABLE_SETTINGS}
        earlier = {name: value for name, value in self._preferences.read().items() if name in self._fixed}
        free = {name: value for name, value in chosen.items() if name not in self._fixed and value != usual[name]}
        self._preferences.write({**earlier, **free})

    def _given_back(self, role: str, device: torch.device) -> int:
        """Return the bytes on a device of the model that another would replace, unless a second role needs it too."""
        house = self._loader.runtime
        if house is None or house.models.primary is house.models.auxiliary:
            return 0
        replaced = house.models.primary if role == "primary" else house.models.auxiliary
        return weights_bytes(replaced) if replaced.device.type == device.type else 0


def weights_bytes(decoder: Decoder) -> int:
    """Return the bytes of a model's weights, each counted once."""
    return sum(weight.nbytes for weight in decoder.model.parameters())


def _info(role: str, decoder: Decoder, memory_bytes: int, note: str) -> ModelInfo:
    proof = decoder.selftest_result
    return ModelInfo(
        role,
        decoder.name,
        decoder.spec.parameters,
        _format(decoder.dtype),
        _place(decoder.device),
        decoder.spec.max_positions,
        memory_bytes,
        proof,
        note,
    )


def _format(dtype: torch.dtype) -> str:
    return "bf16" if dtype == torch.bfloat16 else "fp32"


def _place(device: torch.device) -> str:
    return "GPU" if device.type == "cuda" else "CPU"


def _size(folder: Path) -> int:
    """Return the bytes of a file, or of all files under a folder; those that vanish meanwhile count as none."""
    total = 0
    for path in (folder, *folder.rglob("*")):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
