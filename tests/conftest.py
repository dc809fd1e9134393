"""Fixtures that several folders share."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from engine.model.loading.bundled import NAME
from engine.model.loading.resolve import resolve
from store.data_folder import default_data_folder
from tests.support import tiny

# A busy machine is no failure, and every run draws the same examples.
settings.register_profile("unhurried", deadline=None, derandomize=True)
settings.load_profile("unhurried")


@pytest.fixture(params=tiny.FAMILIES, ids=lambda build: build.__name__)
def family(request):
    """A builder of one supported kind of model; `tiny.model(family)` twice gives equal models."""
    return request.param


@pytest.fixture(autouse=True)
def _threads():
    """Share two cores among the processes that test."""
    torch.set_num_threads(max(1, 2 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))


@pytest.fixture(scope="session", autouse=True)
def _own_uploads(tmp_path_factory):
    """Gradio files an upload under its content, and what was read is removed: no two processes may share the folder."""
    os.environ["GRADIO_TEMP_DIR"] = str(tmp_path_factory.mktemp("gradio"))


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of the embedded model, unpacked once into the user's own data folder, as the app does."""
    return resolve(NAME, default_data_folder() / "models").parent
