"""Fixtures shared by all tests."""

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

MEMORY = Path("/dev/shm")
MIN_MEMORY = 4 * 2**30
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "yarn")  # functions of tests.support.tiny

# The default profile draws the same examples in every run. HYPOTHESIS_PROFILE=nightly draws other ones each time.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("nightly", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def _has_memory_folder() -> bool:
    """Return whether there is a folder in memory that is large enough and from which kernels can be loaded."""
    try:
        is_executable = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
        return is_executable and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MIN_MEMORY
    except (OSError, AttributeError):  # not on Linux
        return False


if _has_memory_folder():  # SQLite and Chroma wait for a disk after each change
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_finish():
    """Leave what was imported and collected out of garbage collection, which would look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=FAMILIES)
def family(request):
    """A builder of one supported kind of model; `tiny.model(family)` twice gives equal models."""
    from tests.support import tiny

    return getattr(tiny, request.param)


@pytest.fixture(autouse=True)
def _threads():
    """Share two cores among the test processes."""
    import torch

    torch.set_num_threads(max(1, 2 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))


@pytest.fixture(scope="session", autouse=True)
def _own_uploads(tmp_path_factory):
    """Give each process its own upload folder: Gradio names uploads by content and removes them after reading."""
    os.environ["GRADIO_TEMP_DIR"] = str(tmp_path_factory.mktemp("gradio"))


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of the bundled model, unpacked once into the user's own data folder, as the app does."""
    from engine.model.loading.bundled import BUNDLED_MODEL
    from engine.model.loading.resolve import resolve
    from store.data_folder import default_data_folder

    return resolve(BUNDLED_MODEL, default_data_folder() / "models").parent
