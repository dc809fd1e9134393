"""What the Settings page asks of the house: the models, what others would take, and every choice it may change."""

from dataclasses import dataclass
from typing import Protocol

from engine.selftest_result import SelfTestResult


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One loaded model. `role`: primary, auxiliary, selector, pointer, embedder or reranker."""

    role: str
    name: str
    parameters: int | None
    dtype: str  # 'bf16' or 'fp32'
    device: str  # 'CPU' or 'GPU'
    context: int | None  # tokens it reads at once
    memory_bytes: int | None  # of its weights; 0 where it shares another's
    selftest: SelfTestResult | None = None
    note: str = ""  # 'with the shipped reader'


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """Every choice of the page. Ranges and words are those of the command line (`python app.py --help`)."""

    model: str
    auxiliary: str
    reader: str
    pointer: str
    selector: str
    reranker: str
    device: str
    dtype: str
    device_gib: float
    host_gib: float
    disk_gib: float
    kv_bits: int
    policy: str
    chunk_tokens: int
    chunk_overlap: int


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """What one model would take, and what is free for it.

    kv_bytes        of a whole context, the most there can be
    question_bytes  of the KV of a usual question
    fetch_bytes     to download first; 0 if it is on this machine
    free_bytes      with what it would replace given back
    """

    name: str
    family: str
    parameters: int
    dtype: str
    device: str
    context: int
    weights_bytes: int
    kv_bytes: int
    question_bytes: int
    fetch_bytes: int
    free_bytes: int

    @property
    def short(self) -> bool:
        """Whether not even a usual question fits."""
        return self.weights_bytes + self.question_bytes > self.free_bytes


@dataclass(frozen=True, slots=True)
class ReloadStatus:
    """How far the latest change of settings has come. `trouble` says, in sentences, why it was not made."""

    running: bool = False
    stoppable: bool = False
    line: str = ""
    progress: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class StaleChunking:
    """Documents whose passages were cut with other settings than today's, which they keep until they are cut anew."""

    tokens: int
    overlap: int
    documents: tuple[str, ...]  # ids


@dataclass(frozen=True, slots=True)
class SystemInfo:
    """versions, and the data folder's parts with their bytes, in the order to show them."""

    versions: tuple[tuple[str, str], ...]
    folder: str
    parts: tuple[tuple[str, int], ...]


class ModelService(Protocol):
    """The settings of the house. Every error meant for a person is a KVScopeError."""

    def loaded(self) -> list[ModelInfo]:
        """Return the models in use; empty until they are loaded."""
        ...

    def suggestions(self) -> list[str]:
        """Return names of models to offer, the embedded one first."""
        ...

    def devices(self) -> list[str]:
        """Return what `Wanted.device` may be on this machine."""
        ...

    def wanted(self) -> SettingsChange:
        """Return the choices in use."""
        ...

    def overridden(self) -> dict[str, str]:
        """Return the flag or variable that fixes a choice, by the choice's name: {'model': '--model'}."""
        ...

    def check(self, name: str, role: str, wanted: SettingsChange) -> MemoryEstimate:
        """Return what a model would take as `role` (primary or auxiliary) with the device and format of `wanted`.

        Raises the error that loading it would raise of its name or configuration.
        """
        ...

    def change(self, wanted: SettingsChange) -> None:
        """Begin to change to these choices; `changing` tells how far it is. Raises what is wrong with them."""
        ...

    def changing(self) -> ReloadStatus: ...

    def stop(self) -> None:
        """Stop a download that a change began with."""
        ...

    def prompt(self) -> str:
        """Return what every model is told to do, before the passages."""
        ...

    def stale_documents(self) -> list[StaleChunking]:
        """Return which documents are cut otherwise than the choices in use say."""
        ...

    def system_info(self) -> SystemInfo: ...
