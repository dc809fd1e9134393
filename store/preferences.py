"""Settings, saved in the data folder as small JSON files: the user's, and those of collections by their names.

The caller validates the values.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from store.atomic import copy_aside, write_atomic
from store.disk_full import disk_full_as_store_full

FILE_NAME = "preferences.json"
COLLECTIONS = "collections.json"
log = logging.getLogger(__name__)


class Preferences:
    """The settings of one data folder, which need not exist yet."""

    def __init__(self, folder: Path, file_name: str = FILE_NAME) -> None:
        self._path = folder / file_name

    def read(self) -> dict[str, Any]:
        """Return the values by name; empty if the file is missing or, with a warning in the log, damaged."""
        values, damage = self._load()
        if damage:
            log.warning("%s %s and is ignored", self._path, damage)
        return values

    def find_damage(self) -> str:
        """Return what is wrong with the file, as the end of a sentence; empty if nothing is, or it is missing."""
        return self._load()[1]

    def _load(self) -> tuple[dict[str, Any], str]:
        """Return the values, and what is wrong with the file; one of them is empty."""
        try:
            values = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}, ""
        except (OSError, ValueError, RecursionError) as error:
            return {}, f"cannot be read ({error})"
        return (values, "") if isinstance(values, dict) else ({}, "contains no settings by name")

    def write(self, values: Mapping[str, Any]) -> None:
        """Replace all values; a damaged file is kept under a dated name. Raises StoreFull, with the file unchanged."""
        data = json.dumps(dict(values), indent=2, sort_keys=True) + "\n"
        with disk_full_as_store_full("save the settings"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self.find_damage() and self._path.is_file():
                copy_aside(self._path)
            write_atomic(self._path, data.encode())
