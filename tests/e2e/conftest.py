"""The backend on the real bundled model, with a data folder of its own."""

from pathlib import Path

import pytest

from backend.local import LocalBackend
from backend.runtime.settings import Settings


@pytest.fixture(scope="session")
def data(models, tmp_path_factory) -> Path:
    """A data folder of its own, whose models are those above."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "models").symlink_to(models)
    return folder


class App:
    """The backend as `app.py` opens it, one at a time on its folder."""

    def __init__(self, data: Path) -> None:
        self._data, self._backend = data, None

    def running(self) -> LocalBackend:
        """Return the backend that is open, whatever was asked of it before."""
        return self._backend or self.restarted()

    def restarted(self) -> LocalBackend:
        """Close what is open, and open the folder again."""
        self.close()
        self._backend = LocalBackend(Settings(data=self._data, idle_calibration=False))
        self._backend.start()
        self._backend.loader.wait(300)
        status = self._backend.status()
        assert status.ready and "Reading" not in status.message, status.message
        return self._backend

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
            self._backend = None


@pytest.fixture(scope="session")
def app(data):
    """Every start loads the models: tests share what is running, but where the start is what they are about."""
    app = App(data)
    yield app
    app.close()
