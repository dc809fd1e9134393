"""The backend on the real embedded model, with a data folder of its own."""

from pathlib import Path

import pytest

from backend.local import LocalBackend
from settings import Settings


@pytest.fixture(scope="session")
def data(models, tmp_path_factory) -> Path:
    """A data folder of its own, whose models are those above."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "models").symlink_to(models)
    return folder


@pytest.fixture
def start(data):
    """Open the backend on the data folder as `app.py` does, and close it when the test ends."""
    opened = []

    def open_backend() -> LocalBackend:
        for earlier in opened:
            earlier.close()
        backend = LocalBackend(Settings(data=data))
        backend.start()
        backend.wait(300)
        assert backend.status().ready and "Reading" not in backend.status().line, backend.status().line
        opened.append(backend)
        return backend

    yield open_backend
    opened[-1].close()
