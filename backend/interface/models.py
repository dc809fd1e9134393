"""Interface of the Settings page: the loaded models, memory estimates, and the settings that can be changed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.fidelity import FidelityCurve
from engine.model.loading.presets import Preset

if TYPE_CHECKING:  # torch-free at run time
    from engine.model.spec import SelfTestResult


@dataclass(frozen=True, slots=True)
class ModelInfo:
    role: str  # 'primary', 'auxiliary', 'token_selector', 'span_scorer', 'quote_encoder', 'embedder' or 'reranker'
    name: str
    num_parameters: int | None
    dtype: str  # 'bf16' or 'fp32'
    device: str  # 'CPU' or 'GPU'
    max_context_tokens: int | None
    memory_bytes: int | None  # of its weights; 0 if it shares another model's
    selftest: "SelfTestResult | None" = None
    note: str = ""  # such as 'with the bundled LoRA adapter'
    tokens_per_second: float | None = None  # of decoding, measured at load; of the main model only
    attention: str = ""  # of a decoder on the CPU: KVScope's kernel or torch's, and why; a sentence
    decoding: str = ""  # likewise, of the main model
    kv_token_bytes: int = 0  # of the keys and values that a decoder stores for each token


@dataclass(frozen=True, slots=True)
class PresetInfo:
    """A preset, and what is known about it on this machine."""

    preset: Preset
    is_loaded: bool  # as the main model
    is_local: bool  # already downloaded
    tokens_per_second: float | None  # measured if loaded, else estimated from the loaded main model; None without one


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """All settings that can be changed at run time. `python app.py --help` describes their values."""

    model: str
    auxiliary_model: str
    lora_adapter: str
    span_scorer: str
    token_selector: str
    embedding_model: str
    reranker: str
    device: str
    dtype: str
    gpu_cache_gib: float
    cpu_cache_gib: float
    disk_cache_gib: float
    disk_kv_bits: int
    eviction_policy: str
    chunk_size: int
    chunk_overlap: int


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Memory that one model would need, and memory available for it."""

    name: str
    model_type: str
    num_parameters: int
    dtype: str
    device: str
    max_context_tokens: int
    weights_bytes: int
    max_kv_bytes: int  # of a full context
    typical_kv_bytes: int  # of a typical question
    download_bytes: int  # 0 if the model is already on this machine
    free_bytes: int  # including the memory of the model it would replace

    @property
    def exceeds_memory(self) -> bool:
        """Whether even a typical question does not fit into memory."""
        return self.weights_bytes + self.typical_kv_bytes > self.free_bytes


@dataclass(frozen=True, slots=True)
class ReloadStatus:
    """Progress of the latest change of settings."""

    running: bool = False
    can_stop: bool = False  # a download is running
    message: str = ""
    progress: float | None = None  # 0 to 1
    error: str = ""  # why the change failed; empty if it did not


@dataclass(frozen=True, slots=True)
class FidelityStatus:
    """How far the calibration of the loaded main model has come (`engine.analysis.calibration`)."""

    measured: int = 0
    total: int = 0  # questions; 0 until the models are loaded
    curve: FidelityCurve | None = None  # None while too few questions have been measured
    is_enabled: bool = True  # whether it is measured in idle time
    is_running: bool = False
    error: str = ""  # why it ended early; empty if it did not


@dataclass(frozen=True, slots=True)
class StaleChunking:
    """Documents that were chunked with the same, no longer current settings."""

    chunk_size: int
    chunk_overlap: int
    document_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SystemInfo:
    """Library versions, and the bytes of each part of the data folder, both in display order."""

    versions: tuple[tuple[str, str], ...]
    data_folder: str
    disk_usage: tuple[tuple[str, int], ...]


class ModelService(Protocol):
    """Shows and changes models and settings. Every error with a message for users is a KVScopeError."""

    def loaded(self) -> list[ModelInfo]: ...  # empty until the models are loaded
    def presets(self) -> list[PresetInfo]: ...  # the bundled model first
    def suggestions(self) -> list[str]: ...  # names of models, the bundled one first
    def devices(self) -> list[str]: ...  # values of `SettingsChange.device` on this machine
    def current(self) -> SettingsChange: ...

    def overrides(self) -> dict[str, str]:
        """Return the settings that cannot be changed and the flag or variable of each: {'model': '--model'}."""

    def estimate_memory(self, name: str, role: str, settings: SettingsChange) -> MemoryEstimate:
        """Estimate the memory of a model, a folder or a name on the hub, in the role 'primary' or 'auxiliary'."""

    def apply(self, settings: SettingsChange) -> None:
        """Start to change settings. Raises KVScopeError if one is invalid or set by a flag, or if nothing changes."""

    def reload_status(self) -> ReloadStatus: ...  # of the latest change of settings
    def cancel_download(self) -> None: ...  # of a running change

    def fidelity(self) -> FidelityStatus: ...

    def system_prompt(self) -> str: ...  # precedes the passages in every prompt
    def stale_documents(self) -> list[StaleChunking]: ...  # chunked with other settings than the current ones
    def system_info(self) -> SystemInfo: ...
