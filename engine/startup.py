"""From settings to a working engine: which models, in which format, with which caches."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

from engine.model.decoder import Decoder
from engine.model.embedded import NAME, Report
from engine.model.load import load
from engine.model.precision import pick
from engine.model.resolve import resolve
from engine.pipeline import Engine
from engine.prompt import Prompt
from engine.reuse.auxiliary import Auxiliary
from engine.reuse.chunks import ChunkCache, HostTier
from store.types import BlobStore, Finder

READER = Path(__file__).parent.parent / "assets" / "reader"  # an adapter that we trained, for the embedded model


@dataclass(frozen=True)
class ModelConfig:
    """Which models answer and select, and where they run.

    model, auxiliary  a folder, a name on the hub, or the embedded model's name
    folder            where the embedded model is unpacked
    device            of the primary: 'auto', 'cpu', 'cuda'; the auxiliary always runs on the CPU
    dtype             'auto', 'bf16' or 'fp32'
    reader            adapter that is merged into the primary: 'auto' (ours, for the embedded model), 'off', or a folder
    """

    folder: Path
    model: str = NAME
    auxiliary: str = NAME
    device: str = "auto"
    dtype: str = "auto"
    reader: str = "auto"

    @property
    def adapter(self) -> Path | None:
        """The folder of the adapter that is merged into the primary."""
        if self.reader == "auto":
            return READER if self.model == NAME else None
        return None if self.reader == "off" else Path(self.reader).expanduser()


@dataclass(frozen=True)
class Models:
    """Loaded models; `auxiliary is primary` when both are the same weights in the same place."""

    primary: Decoder
    auxiliary: Decoder
    precision: str  # 'bf16 on the CPU (AVX-512 BF16)'


def load_models(config: ModelConfig, report: Report = lambda said, share: None) -> Models:
    """Find, load and self-test both models. Raises ModelNotFound or UnsupportedModel."""
    device, dtype, precision = pick(config.device, config.dtype)
    place = resolve(config.model, config.folder, report)
    report(f"Loading {Path(config.model).name}", 0.8)
    primary = load(place, device, dtype, Path(config.model).name, config.adapter)
    if config.auxiliary == config.model and device.type == "cpu":
        return Models(primary, primary, precision)
    place = resolve(config.auxiliary, config.folder, report)
    report(f"Loading {Path(config.auxiliary).name}", 0.9)
    _, dtype, _ = pick("cpu", config.dtype)
    adapter = config.adapter if config.auxiliary == config.model else None
    beside = load(place, torch.device("cpu"), dtype, Path(config.auxiliary).name, adapter)
    return Models(primary, beside, precision)


def build_engine(
    models: Models, open_library: Callable[[Tokenizer], Finder], blobs: BlobStore, host_bytes: int
) -> Engine:
    """Return the engine over a library and a store of chunk KV.

    open_library  given the primary's tokenizer, which measures chunks
    host_bytes    chunk KV kept in memory, for both models together
    """
    prompt, host = Prompt(models.primary.tokenizer), HostTier(host_bytes)
    cache = ChunkCache(models.primary, prompt.prefix, host, blobs)
    auxiliary = Auxiliary(cache, prompt)
    if models.auxiliary is not models.primary:
        own = Prompt(models.auxiliary.tokenizer)
        auxiliary = Auxiliary(ChunkCache(models.auxiliary, own.prefix, host, blobs), own)
    return Engine(open_library(prompt.tokens.data), cache, prompt, auxiliary)
