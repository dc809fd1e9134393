"""Models of the user's choice for retrieval: a folder, or a name on the Hugging Face hub; no pickled weights."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from huggingface_hub import snapshot_download

FILE_PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.model"]  # to download
Model = TypeVar("Model")


def download(name: str) -> None:
    """Download a model's files without loading them. Raises what the hub client raises."""
    if not Path(name).expanduser().is_dir():
        snapshot_download(name, allow_patterns=FILE_PATTERNS)


def load(name: str, load_folder: Callable[[str], Model]) -> Model:
    """Load a model from its folder, the hub's cache or the hub. Raises what `load_folder` and the hub client raise."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return load_folder(str(folder))
    try:
        return load_folder(snapshot_download(name, allow_patterns=FILE_PATTERNS, local_files_only=True))
    except OSError:  # not in the hub's cache, or incomplete there
        return load_folder(snapshot_download(name, allow_patterns=FILE_PATTERNS))


def reason_of(error: Exception) -> str:
    """Return the first line of an error for a sentence; the loaders raise many types on foreign files."""
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__
