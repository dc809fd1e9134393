"""Settings in a dataclass: a change takes a few steps, fails where it is told to, and is remembered nowhere."""

import time
from dataclasses import replace
from threading import Event, Thread

from backend.interface.models import MemoryEstimate, ModelInfo, ReloadStatus, SettingsChange, StaleChunking, SystemInfo
from engine.errors import HubUnreachable, ModelNotFound
from engine.selftest_result import SelfTestResult
from store.errors import KVScopeError

EMBEDDED = "SmolLM2-135M-Instruct"
WANTED = SettingsChange(
    model=EMBEDDED,
    auxiliary_model=EMBEDDED,
    lora_adapter="auto",
    span_scorer="auto",
    token_selector="auto",
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
    SMALL, name="Qwen/Qwen3-8B", num_parameters=8_190_735_360, weights_bytes=16_381_470_720, download_bytes=16_397_000_000
)
TIGHT = replace(SMALL, name="Qwen/Qwen3-1.7B", weights_bytes=7_400_000_000)
ABOUT = SystemInfo(
    versions=(("Python", "3.11.7"), ("torch", "2.13.0"), ("transformers", "5.23.0"), ("gradio", "6.31.0")),
    data_folder="~/.local/share/kvscope",
    disk_usage=(("Documents and their index", 4_200_000), ("Keys and values", 412_000_000), ("Embedded model", 271_000_000)),
)


class FakeModels:
    """`broken` is why the next change fails; `unhurried` holds it until it is set."""

    def __init__(self, pace_s: float = 0.02) -> None:
        self.pace_s = pace_s
        self.now, self.flags, self.cut = WANTED, dict[str, str](), list[StaleChunking]()
        self.known = {found.name: found for found in (SMALL, LARGE, TIGHT, replace(SMALL, name=EMBEDDED))}
        self.broken, self.asked = "", list[SettingsChange]()
        self.unhurried = Event()
        self.unhurried.set()
        self._change, self._stopped, self._thread = ReloadStatus(), Event(), Thread()

    def loaded(self) -> list[ModelInfo]:
        proof = SelfTestResult(0.00412, 0.0163, 0.25, 38.2)
        answers = ModelInfo(
            "primary", self.now.model, 134_515_008, "bf16", "CPU", 8192, 269_030_016, proof, "with LoRA adapter"
        )
        return [
            answers,
            replace(answers, role="auxiliary", memory_bytes=0, note="shares the weights of the main model"),
            ModelInfo("embedder", "all-MiniLM-L6-v2", 22_713_216, "fp32", "CPU", 256, 90_852_864),
        ]

    def suggestions(self) -> list[str]:
        return [EMBEDDED, SMALL.name, LARGE.name]

    def devices(self) -> list[str]:
        return ["auto", "cpu"]

    def current(self) -> SettingsChange:
        return self.now

    def overrides(self) -> dict[str, str]:
        return dict(self.flags)

    def estimate_memory(self, name: str, role: str, settings: SettingsChange) -> MemoryEstimate:
        if name == "offline/model":
            raise HubUnreachable(f"{name!r} is not on this machine, and the hub cannot be reached.")
        if name not in self.known:
            raise ModelNotFound(f"{name!r} is neither a folder nor a name on the hub.")
        return self.known[name]

    def apply(self, settings: SettingsChange) -> None:
        if settings == self.now:
            raise KVScopeError("These settings are already in use.")
        self.asked.append(settings)
        self._change = ReloadStatus(running=True, message="Beginning")
        self._stopped.clear()
        self._thread = Thread(target=self._run, args=[settings], daemon=True)
        self._thread.start()

    def reload_status(self) -> ReloadStatus:
        return self._change

    def cancel_download(self) -> None:
        self._stopped.set()

    def system_prompt(self) -> str:
        return "Answer the question from the passages. Be short and exact: one or two sentences."

    def stale_documents(self) -> list[StaleChunking]:
        return list(self.cut)

    def system_info(self) -> SystemInfo:
        return ABOUT

    def _run(self, wanted: SettingsChange) -> None:
        for step in range(8):
            line = f"Downloading {wanted.model} (1519 MB)" if step < 5 else f"Loading {wanted.model}"
            self._change = ReloadStatus(True, step < 5, line, (step + 1) / 10)
            while step == 2 and not self.unhurried.wait(0.01) and not self._stopped.is_set():
                pass
            if self._stopped.is_set():
                self._change = ReloadStatus(error="The download was stopped.")
                return
            time.sleep(self.pace_s)
        if not self.broken:
            cut = (wanted.chunk_size, wanted.chunk_overlap) != (self.now.chunk_size, self.now.chunk_overlap)
            if cut:
                self.cut = [
                    StaleChunking(self.now.chunk_size, self.now.chunk_overlap, ("a" * 64, "b" * 64, "c" * 64))
                ]
            self.now = wanted
        self._change = ReloadStatus(error=self.broken)
