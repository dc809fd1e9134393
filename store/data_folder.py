"""The folder for a user's documents, indexes, chunk KV and models: where it is, and who may read it."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

import platformdirs

TEMPORARY = "kvscope-temporary"
OWN_NAMES = (  # patterns of what KVScope creates in the folder
    *(
        ".lock",
        ".holder.json",
        "preferences.json*",
        "collections.json*",
        "library.cursor*",
        "samples-added",
        "feedback.jsonl*",
        "watched.json*",
        "watched-changes.json*",
        "costs-*.json*",
        "fidelity-*.json*",
    ),
    *("library", "kv", "models", "models.lock", "bench", "audit", "replaced", TEMPORARY),
    *("cluster.pid", "chroma", "front"),  # of python -m cluster up
)
log = logging.getLogger("kvscope")


def default_data_folder() -> Path:
    """Return the operating system's folder for this application's data, without creating it."""
    return platformdirs.user_data_path("kvscope", appauthor=False)


def restrict_access(root: Path) -> None:
    """Let only this user read a folder in which there is nothing but KVScope's own. Without effect on Windows."""
    try:
        if all(any(fnmatch(entry.name, pattern) for pattern in OWN_NAMES) for entry in root.iterdir()):
            root.chmod(0o700)
    except OSError as error:
        log.warning("other users may be able to read %s (%s)", root, error.strerror)


@contextmanager
def temporary_folder(root: Path) -> Iterator[Path]:
    """Create an empty folder for temporary files, also after a crash; delete it at the end. Hold a FolderLock."""
    folder = root / TEMPORARY
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
