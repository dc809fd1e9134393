"""What a person has chosen on the page, kept in the data folder as one small JSON file.

The file knows names and plain values, not what they mean: whoever reads it checks each value. It is written beside
itself and moved into place, so that a reader finds the old choices or the new ones, never half of them.
"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from store.disk_full import full_becomes_store_full

FILE = "preferences.json"
log = logging.getLogger(__name__)


class Preferences:
    """The choices of one data folder, which need not be there yet."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

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
        """Keep these values and no others. Raises StoreFull, with the file as it was."""
        draft = self._path.with_name(f"{FILE}.draft")
        with full_becomes_store_full("keep the settings"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("w", encoding="utf-8") as file:
                json.dump(dict(values), file, indent=2, sort_keys=True)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
