"""The compiled kernels of this machine, for tests."""

from functools import cache
from pathlib import Path

import pytest

from engine.model.kernels import load
from store.data_folder import default_data_folder


def why_unavailable() -> str:
    try:
        load._find_compiler()
    except load.KernelUnavailable as reason:
        return str(reason)
    return ""


needs_kernel = pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable())


@cache
def compiled_library() -> Path:
    """Return the library, compiled once in the app's own folder."""
    compiler = load._find_compiler()
    folder = default_data_folder() / "models" / "kernels"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the app uses no folder that others can write to
    library = folder / f"kernels-{load._machine_key(compiler)}.so"
    if not library.is_file():
        load._compile(compiler, library, load.TIMEOUT_S)
    return library
