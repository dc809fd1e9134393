"""The user's settings, saved in the data folder as one small JSON file; the caller validates their values."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from store.atomic import write_atomic
from store.disk_full import disk_full_as_store_full

FILE_NAME = "preferences.json"
log = logging.getLogger(__name__)


class Preferences:
    """The settings of one data folder, which need not exist yet."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME

    def read(self) -> dict[str, Any]:
        """Return the values by name; empty if the file is missing or, with a warning in the log, unreadable."""
        try:
            values = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s cannot be read and is ignored: %s", self._path, error)
            return {}
        if not isinstance(values, dict):
            log.warning("%s contains no settings by name and is ignored", self._path)
            return {}
        return values

    def write(self, values: Mapping[str, Any]) -> None:
        """Replace all values. Raises StoreFull, with the file unchanged."""
        data = json.dumps(dict(values), indent=2, sort_keys=True) + "\n"
        with disk_full_as_store_full("save the settings"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self._path, data.encode())
