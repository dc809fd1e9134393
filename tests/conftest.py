"""Fixtures shared by all tests."""

import gc
import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from engine.model.loading.bundled import BUNDLED_MODEL
from engine.model.loading.resolve import resolve
from store.data_folder import default_data_folder
from tests.support import tiny

# The default profile draws the same examples in every run. HYPOTHESIS_PROFILE=nightly draws other ones each time.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("nightly", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_finish():
    """Leave what was imported and collected out of garbage collection, which would look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=tiny.FAMILIES, ids=lambda build: build.__name__)
def family(request):
    """A builder of one supported kind of model; `tiny.model(family)` twice gives equal models."""
    return request.param


@pytest.fixture(autouse=True)
def _threads():
    """Share two cores among the test processes."""
    torch.set_num_threads(max(1, 2 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))


@pytest.fixture(scope="session", autouse=True)
def _own_uploads(tmp_path_factory):
    """Give each process its own upload folder: Gradio names uploads by content and removes them after reading."""
    os.environ["GRADIO_TEMP_DIR"] = str(tmp_path_factory.mktemp("gradio"))


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of the bundled model, unpacked once into the user's own data folder, as the app does."""
    return resolve(BUNDLED_MODEL, default_data_folder() / "models").parent
