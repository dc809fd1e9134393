"""What a person has chosen on the page, kept in the data folder as one small JSON file.

The file knows names and plain values, not what they mean: whoever reads it checks each value. It is written beside
itself and moved into place, so that a reader finds the old choices or the new ones, never half of them.
"""

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
    """The choices of one data folder, which need not be there yet."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME

    def read(self) -> dict[str, Any]:
        """Return the values by name; empty where there is no file, or none that can be read, which the log says."""
        try:
            held = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s cannot be read and is left aside: %s", self._path, error)
            return {}
        if not isinstance(held, dict):
            log.warning("%s does not hold settings by name and is left aside", self._path)
            return {}
        return held

    def write(self, values: Mapping[str, Any]) -> None:
        """Replace all values. Raises StoreFull, with the file unchanged."""
        data = json.dumps(dict(values), indent=2, sort_keys=True) + "\n"
        with disk_full_as_store_full("save the settings"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self._path, data.encode())
