"""Finished samples on disk, one JSON line each, so that an interrupted run goes on where it stopped.

The first line names what the samples were made with. A line holds the outcome of one sample through some arms; lines of
one sample add up, so that a method can be added to a finished run.
"""

import json
from pathlib import Path
from typing import Any

from bench.errors import InvalidArgument

_HEAD = b'{"made_with"'


class SampleFile:
    """Samples by name.

    path  created with its folder; a torn last line, as a killed run leaves it, is dropped
    made  settings that change what comes out of a sample: model, trained weights, seed; its text is in its name

    Raises BadArgument if the file was made with other settings, or is damaged.
    """

    def __init__(self, path: Path, made: dict[str, Any]) -> None:
        self.settings, self._path, self._held = made, path, dict[str, dict[str, Any]]()
        path.parent.mkdir(parents=True, exist_ok=True)
        *whole, torn = path.read_bytes().split(b"\n") if path.exists() else [b""]  # finished lines end with a newline
        if not whole and _HEAD.startswith(torn[: len(_HEAD)]):
            path.write_text(json.dumps({"made_with": made}, sort_keys=True) + "\n", encoding="utf-8")
            return
        (found,) = self._parsed(1, [*whole, torn][0], made_with=dict)
        if found != json.loads(json.dumps(made)):
            other = [name for name in made if found.get(name) != json.loads(json.dumps(made[name]))]
            raise InvalidArgument(
                f"{path} holds samples made with another {', '.join(other) or 'program'}. Choose another --json, or "
                "delete that file."
            )
        if torn:
            path.write_bytes(b"\n".join(whole) + b"\n")
        for number, line in enumerate(whole[1:], 2):
            sample, about, arms = self._parsed(number, line, sample=str, about=dict, arms=dict)
            self._merge(sample, about, arms)

    def missing(self, sample: str, keys: list[str]) -> list[str]:
        """Return those of the arms' keys that the sample has no outcome for."""
        held = self._held.get(sample, {"arms": {}})["arms"]
        return [key for key in keys if key not in held]

    def add(self, sample: str, about: dict[str, Any], outcomes: dict[str, dict[str, Any]]) -> None:
        """Write what came out of a sample: `about` it, and for each arm's key."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"sample": sample, "about": about, "arms": outcomes}, ensure_ascii=False) + "\n")
        self._merge(sample, about, outcomes)

    def get(self, sample: str) -> dict[str, Any]:
        """Return {'about': ..., 'arms': {key: outcome}}."""
        return self._held[sample]

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
        held = self._held.setdefault(sample, {"about": about, "arms": {}})
        held["arms"] = {**outcomes, **held["arms"]}  # all arms are compared with the full prefill that was there first
