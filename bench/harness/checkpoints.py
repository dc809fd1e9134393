"""Finished samples on disk, one JSON line each, so that an interrupted run can be resumed.

The first line holds the settings of the run. Each other line holds the outcomes of one sample for some variants; lines
of the same sample are merged, so that a method can be added to a finished run.
"""

import json
from pathlib import Path
from typing import Any

from bench.errors import InvalidArgument

_HEADER = b'{"made_with"'


class SampleFile:
    """Samples by name; the file is created with its folder, and an incomplete last line of a killed run is dropped.

    Raises InvalidArgument if it is damaged, or was written with other settings: all that influences an outcome.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))
        self._path = path
        self._samples: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        *lines, torn = path.read_bytes().split(b"\n") if path.exists() else [b""]  # finished lines end with a newline
        if not lines and _HEADER.startswith(torn[: len(_HEADER)]):
            path.write_text(json.dumps({"made_with": settings}, sort_keys=True) + "\n", encoding="utf-8")
            return
        (stored,) = self._parse(1, [*lines, torn][0], made_with=dict)
        if stored != self.settings:
            changed = [name for name, value in self.settings.items() if stored.get(name) != value]
            what = f"samples of another {', '.join(changed) or 'program'}"
            raise InvalidArgument(f"{path} holds {what}. Choose another --json or delete that file.")
        if torn:
            path.write_bytes(b"\n".join(lines) + b"\n")
        for number, line in enumerate(lines[1:], 2):
            self._merge(*self._parse(number, line, sample=str, about=dict, arms=dict))

    def missing(self, sample: str, keys: list[str]) -> list[str]:
        """Return the variant keys that have no outcome for this sample."""
        outcomes = self._samples.get(sample, {"arms": {}})["arms"]
        return [key for key in keys if key not in outcomes]

    def add(self, sample: str, about: dict[str, Any], outcomes: dict[str, dict[str, Any]]) -> None:
        """Write the outcomes of a sample by variant key, and its description `about`."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"sample": sample, "about": about, "arms": outcomes}, ensure_ascii=False) + "\n")
        self._merge(sample, about, outcomes)

    def get(self, sample: str) -> dict[str, Any]:
        """Return {'about': ..., 'arms': {key: outcome}}."""
        return self._samples[sample]

    def _parse(self, number: int, line: bytes, **kinds: type) -> list[Any]:
        """Return the values of a line's fields, which have these names and types."""
        try:
            fields = json.loads(line)
            values = [fields[name] for name in kinds]
            if not all(map(isinstance, values, kinds.values())):
                raise TypeError
        except (ValueError, TypeError, KeyError) as error:
            message = f"{self._path}, line {number}, is damaged. Delete that line, or choose another --json."
            raise InvalidArgument(message) from error
        return values

    def _merge(self, sample: str, about: dict[str, Any], outcomes: dict[str, dict[str, Any]]) -> None:
        merged = self._samples.setdefault(sample, {"about": about, "arms": {}})
        merged["arms"] = {**outcomes, **merged["arms"]}  # keep the first full prefill as the reference
