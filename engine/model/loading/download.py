"""Download a model from the Hugging Face Hub into its local cache, so that an interrupted download continues.

huggingface_hub deletes a file that is incomplete. So the weights are fetched here to where huggingface_hub looks for
complete files: `blobs/SHA-256` in the cache. It then links them and fetches the small files.
"""

import hashlib
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from threading import current_thread
from typing import Any

from filelock import FileLock
from huggingface_hub import constants, hf_hub_url, model_info, snapshot_download
from huggingface_hub.file_download import http_get, repo_folder_name
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import build_hf_headers
from tqdm import TMonitor
from tqdm.auto import tqdm

from engine.errors import ModelNotFound
from engine.model.loading.bundled import ProgressCallback

MODEL_FILE_PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]  # no pickled weights
TIMEOUT_S = 10.0


def download(name: str, report: ProgressCallback) -> Path:
    """Return the folder of a model after downloading it. Raises ModelNotFound if a file is damaged, and Hub errors."""
    report(f"Downloading {name}", 0.0)
    info = model_info(name, files_metadata=True, timeout=TIMEOUT_S)
    weights = [file for file in info.siblings or () if file.rfilename.endswith(".safetensors") and file.lfs]
    bar_class = progress_bar_class(name, report)
    with bar_class(total=sum(file.size or 0 for file in weights), unit="B") as bar:
        for file in weights:
            _download_weights(name, file, info.sha, bar)
    return Path(snapshot_download(name, allow_patterns=MODEL_FILE_PATTERNS, tqdm_class=bar_class))


def _download_weights(name: str, file: RepoSibling, revision: str | None, bar: tqdm) -> None:
    """Download one file of weights, or the rest of it, and check it. Raises ModelNotFound if it is damaged."""
    assert file.lfs is not None
    cache, folder = Path(constants.HF_HUB_CACHE), repo_folder_name(repo_id=name, repo_type="model")
    blob = cache / folder / "blobs" / file.lfs.sha256
    part, lock = blob.with_suffix(".incomplete"), cache / ".locks" / folder / f"{blob.name}.lock"
    one_bar: Any = lambda **_: nullcontext(bar)  # noqa: E731
    blob.parent.mkdir(parents=True, exist_ok=True)
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):  # other programs that download the file wait
        if blob.exists():
            bar.update(file.size or 0)
            return
        with part.open("ab") as sink:
            bar.update(sink.tell())
            http_get(
                hf_hub_url(name, file.rfilename, revision=revision),
                sink,
                resume_size=sink.tell(),
                headers=build_hf_headers(),
                expected_size=file.size,
                tqdm_class=one_bar,
            )
        with part.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
        if digest != file.lfs.sha256:
            part.unlink()
            raise ModelNotFound(f"{file.rfilename} of {name!r} was damaged during the download. Download it again.")
        part.replace(blob)


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
                report(f"Downloading {name} ({total / 2**20:,.0f} MiB)", 0.75 * min(1.0, done / total))

        def display(self, *args: Any, **kwargs: Any) -> None:
            """Draw nothing."""

    return ReportingBar
