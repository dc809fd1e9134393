"""A fake model service: a change of settings takes a few steps and can be made to fail or to wait."""

import time
from dataclasses import replace
from threading import Event, Thread

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
from engine.errors import HubUnreachable, ModelNotFound
from engine.model.loading.presets import PRESETS
from engine.model.spec import SelfTestResult
from store.errors import KVScopeError

EMBEDDED = "SmolLM2-135M-Instruct"
WANTED = SettingsChange(
    model=EMBEDDED,
    auxiliary_model=EMBEDDED,
    lora_adapter="auto",
    span_scorer="auto",
    token_selector="auto",
    embedding_model="auto",
    reranker="off",
    device="auto",
    dtype="auto",
    gpu_cache_gib=2.0,
    cpu_cache_gib=1.5,
    disk_cache_gib=8.0,
    disk_kv_bits=16,
    eviction_policy="pgdsf",
    chunk_size=512,
    chunk_overlap=50,
)
SMALL = MemoryEstimate(
    name="Qwen/Qwen3-0.6B",
    model_type="qwen3",
    num_parameters=596_049_920,
    dtype="bf16",
    device="CPU",
    max_context_tokens=40_960,
    weights_bytes=1_192_099_840,
    max_kv_bytes=4_697_620_480,
    typical_kv_bytes=587_202_560,
    download_bytes=1_519_000_000,
    free_bytes=11_800_000_000,
)
LARGE = replace(
    SMALL,
    name="Qwen/Qwen3-8B",
    num_parameters=8_190_735_360,
    weights_bytes=16_381_470_720,
    download_bytes=16_397_000_000,
)
TIGHT = replace(SMALL, name="Qwen/Qwen3-1.7B", weights_bytes=7_400_000_000)
ABOUT = SystemInfo(
    versions=(("Python", "3.11.7"), ("torch", "2.13.0"), ("transformers", "5.23.0"), ("gradio", "6.31.0")),
    data_folder="~/.local/share/kvscope",
    disk_usage=(
        ("Documents and their index", 4_200_000),
        ("Keys and values", 412_000_000),
        ("Bundled model", 271_000_000),
    ),
)


class FakeModels:
    """Tests may set `failure`, the error of the next change, and clear `proceed`, which pauses it.

    settings, flags  current settings, and the flags that override them
    estimates        memory estimates by model name
    applied          the changes so far
    """

    def __init__(self, pace_s: float = 0.02) -> None:
        self.reset(pace_s)

    def reset(self, pace_s: float = 0.02) -> None:
        """Return to the initial state."""
        self.pace_s = pace_s
        self.settings = WANTED
        self.flags: dict[str, str] = {}
        self.stale: list[StaleChunking] = []
        self.estimates = {each.name: each for each in (SMALL, LARGE, TIGHT, replace(SMALL, name=EMBEDDED))}
        self.failure = ""
        self.fidelity_status = FidelityStatus(total=24)
        self.applied: list[SettingsChange] = []
        self.proceed = Event()
        self.proceed.set()
        self._status = ReloadStatus()
        self._stopped = Event()
        self._thread = Thread()

    def loaded(self) -> list[ModelInfo]:
        selftest = SelfTestResult(0.00412, 0.0163, 0.25, 38.2)
        answers = ModelInfo(
            "primary", self.settings.model, 134_515_008, "bf16", "CPU", 8192, 269_030_016, selftest, "with LoRA adapter"
        )
        answers = replace(answers, kv_token_bytes=23_040)
        return [
            replace(answers, tokens_per_second=31.4),
            replace(answers, role="auxiliary", memory_bytes=0, note="shares the weights of the main model"),
            ModelInfo("embedder", "all-MiniLM-L6-v2", 22_713_216, "fp32", "CPU", 256, 90_852_864),
        ]

    def presets(self) -> list[PresetInfo]:
        infos = []
        for preset in PRESETS:
            is_loaded = preset.name == self.settings.model
            speed = 31.4 if is_loaded else 31.4 * 134_515_008 / preset.num_parameters
            infos.append(PresetInfo(preset, is_loaded, is_loaded or preset.name == EMBEDDED, speed))
        return infos

    def fidelity(self) -> FidelityStatus:
        return self.fidelity_status

    def suggestions(self) -> list[str]:
        return [EMBEDDED, SMALL.name, LARGE.name]

    def devices(self) -> list[str]:
        return ["auto", "cpu"]

    def current(self) -> SettingsChange:
        return self.settings

    def overrides(self) -> dict[str, str]:
        return dict(self.flags)

    def estimate_memory(self, name: str, role: str, settings: SettingsChange) -> MemoryEstimate:
        if name == "offline/model":
            raise HubUnreachable(f"{name!r} is not on this machine, and the hub cannot be reached.")
        if name not in self.estimates:
            raise ModelNotFound(f"{name!r} is neither a folder nor a name on the hub.")
        return self.estimates[name]

    def apply(self, settings: SettingsChange) -> None:
        if settings == self.settings:
            raise KVScopeError("These settings are already in use.")
        self.applied.append(settings)
        self._status = ReloadStatus(running=True, message="Starting")
        self._stopped.clear()
        self._thread = Thread(target=self._run, args=[settings], daemon=True)
        self._thread.start()

    def reload_status(self) -> ReloadStatus:
        return self._status

    def cancel_download(self) -> None:
        self._stopped.set()

    def system_prompt(self) -> str:
        return "Answer the question from the passages. Be short and exact: one or two sentences."

    def stale_documents(self) -> list[StaleChunking]:
        return list(self.stale)

    def system_info(self) -> SystemInfo:
        return ABOUT

    def _run(self, settings: SettingsChange) -> None:
        for step in range(8):
            message = f"Downloading {settings.model} (1449 MiB)" if step < 5 else f"Loading {settings.model}"
            self._status = ReloadStatus(True, step < 5, message, (step + 1) / 10)
            while step == 2 and not self.proceed.wait(0.01) and not self._stopped.is_set():
                pass
            if self._stopped.is_set():
                self._status = ReloadStatus(error="The download was cancelled.")
                return
            time.sleep(self.pace_s)
        if not self.failure:
            before = (self.settings.chunk_size, self.settings.chunk_overlap)
            if (settings.chunk_size, settings.chunk_overlap) != before:
                self.stale = [StaleChunking(*before, ("a" * 64, "b" * 64, "c" * 64))]
            self.settings = settings
        self._status = ReloadStatus(error=self.failure)
