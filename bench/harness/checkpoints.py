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
    """Samples by name.

    path      created with its folder; an incomplete last line of a killed run is dropped
    settings  everything that influences a sample's outcome: model, trained weights, seed

    Raises InvalidArgument if the file was written with other settings, or is damaged.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.settings, self._path, self._samples = settings, path, dict[str, dict[str, Any]]()
        path.parent.mkdir(parents=True, exist_ok=True)
        *complete, torn = (
            path.read_bytes().split(b"\n") if path.exists() else [b""]
        )  # finished lines end with a newline
        if not complete and _HEADER.startswith(torn[: len(_HEADER)]):
            path.write_text(json.dumps({"made_with": settings}, sort_keys=True) + "\n", encoding="utf-8")
            return
        (stored,) = self._parsed(1, [*complete, torn][0], made_with=dict)
        if stored != json.loads(json.dumps(settings)):
            changed = [name for name in settings if stored.get(name) != json.loads(json.dumps(settings[name]))]
            raise InvalidArgument(
                f"{path} holds samples of another {', '.join(changed) or 'program'}. Choose another --json or "
                "delete that file."
            )
        if torn:
            path.write_bytes(b"\n".join(complete) + b"\n")
        for number, line in enumerate(complete[1:], 2):
            sample, about, arms = self._parsed(number, line, sample=str, about=dict, arms=dict)
            self._merge(sample, about, arms)

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

    def _parsed(self, number: int, line: bytes, **kinds: type) -> list[Any]:
        damaged = InvalidArgument(
            f"{self._path}, line {number}, is damaged. Delete that line, or choose another --json."
        )
        try:
            read = json.loads(line)
            values = [read[name] for name in kinds]
        except (ValueError, TypeError, KeyError) as error:
            raise damaged from error
        if not all(isinstance(value, kind) for value, kind in zip(values, kinds.values(), strict=True)):
            raise damaged
        return values

    def _merge(self, sample: str, about: dict[str, Any], outcomes: dict[str, dict[str, Any]]) -> None:
        merged = self._samples.setdefault(sample, {"about": about, "arms": {}})
        merged["arms"] = {**outcomes, **merged["arms"]}  # keep the first full prefill as the reference
