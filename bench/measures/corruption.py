"""Damage to every file of a data folder: the library opens with whole documents, or says what is lost.

A folder with the sample documents and their KV is copied; in the copy one file is deleted, emptied, truncated, or gets
a flipped bit or an overwritten page at a random place. The library is opened with it, missing vectors are computed,
and a question is answered. Wrong is a document with another text, one that is missing without a notice, another answer
from the same documents, or a damaged database that was not kept.
"""

import random
import shutil
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets import ASSETS
from bench.arguments import positive_int
from bench.harness.engine import model_config
from bench.harness.workload import GIB, open_library
from bench.tables import columns_of, progress
from engine.builder import Models, build_engine, load_models
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.prompt.template import PromptTemplate
from engine.request import Request
from store.errors import KVScopeError
from store.kv.blobs import DiskBlobs
from store.preferences import Preferences

TITLE = "damaged files of the data folder"
COLUMNS = columns_of("file damage cases opened refused notices lost wrong")
QUESTION = Request("How much does the island card cost a year?", passages=1)
SAMPLES = ASSETS / "samples"
DATABASE = "library/library.sqlite3"
MAX_ALIKE = 2  # files of chunk KV that are damaged
PAGE = 4096
Damage = Callable[[bytes, random.Random], bytes | None]


@dataclass(frozen=True)
class _Found:
    """What a folder holds."""

    texts: dict[str, str]  # of the documents, by name
    notice: str
    answer: str


def _flip(data: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(data)
    damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def _overwrite(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(0, len(data), PAGE)
    return data[:start] + rng.randbytes(min(PAGE, len(data) - start)) + data[start + PAGE :]


DAMAGES: dict[str, Damage] = {
    "deleted": lambda data, rng: None,
    "emptied": lambda data, rng: b"",
    "truncated": lambda data, rng: data[: rng.randrange(len(data))],
    "bit flipped": _flip,
    "page overwritten": _overwrite,
}
REPEATED = ("bit flipped", "page overwritten")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the number of random places."""
    parser.add_argument("--places", type=positive_int, default=20, help="random places of a flipped bit or a page")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row for each file and damage; `wrong` must be 0."""
    models = load_models(model_config(arguments))
    with tempfile.TemporaryDirectory(prefix="kvscope-corruption-") as folder:
        original = Path(folder) / "original"
        Preferences(original).write({"eviction_policy": "lru"})
        _read(models, original, arguments.dtype, sorted(SAMPLES.iterdir()))  # writes the KV of the answer's passages
        sound = _read(models, original, arguments.dtype)  # makes a copy of the database
        return [
            _count(models, sound, original, path, name, arguments)
            for path in progress(_files(original), "Files")
            for name in DAMAGES
        ]


def _count(
    models: Models, sound: _Found, original: Path, path: Path, damage: str, arguments: Namespace
) -> dict[str, Any]:
    """Damage a file at one or more places, each in a copy of its own; return the row."""
    counts = dict.fromkeys(("cases", "opened", "refused", "notices", "lost", "wrong"), 0)
    for place in range(arguments.places if damage in REPEATED else 1):
        rng = random.Random(f"{arguments.seed} {path} {damage} {place}")
        copy = original.with_name("copy")
        damaged = _damage_copy(original, copy, path, DAMAGES[damage], rng)
        counts["cases"] += 1
        try:
            found = _read(models, copy, arguments.dtype)
        except KVScopeError:
            counts["refused"] += 1
            continue
        kept = [each.read_bytes() for each in (copy / DATABASE).parent.glob("*.damaged-*")]
        lost = sound.texts.keys() - found.texts.keys()
        is_wrong = (
            not found.texts.items() <= sound.texts.items()
            or (bool(lost) and not found.notice)
            or (not lost and found.answer != sound.answer)
            or (bool(found.notice) and str(path) == DATABASE and damaged is not None and damaged not in kept)
        )
        if is_wrong:
            print(f"{path}, {damage} {place}: {found.notice!r}, lost {sorted(lost)}, answer {found.answer!r}")
        counts["opened"] += 1
        counts["notices"] += bool(found.notice)
        counts["lost"] += len(lost)
        counts["wrong"] += is_wrong
    return {"file": str(path), "damage": damage, **counts}


def _files(folder: Path) -> list[Path]:
    """Return the files to damage, relative to the data folder."""
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    blobs = [path for path in paths if path.suffix == ".safetensors"]
    return [path for path in paths if path not in blobs[MAX_ALIKE:]]


def _damage_copy(original: Path, copy: Path, path: Path, damage: Damage, rng: random.Random) -> bytes | None:
    """Copy the folder and damage a file of the copy; return the file's new content, or None if it was deleted."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    damaged = damage((copy / path).read_bytes(), rng)
    if damaged is None:
        (copy / path).unlink()
    else:
        (copy / path).write_bytes(damaged)
    return damaged


def _read(models: Models, data: Path, dtype: str, added: Sequence[Path] = ()) -> _Found:
    """Open library and chunk KV of a folder as the application does, add files, and answer the question."""
    Preferences(data).read()  # must not fail
    tokenizer = PromptTemplate(models.primary.tokenizer).tokenizer.data
    with (
        closing(DiskBlobs(data / "kv")) as blobs,
        closing(CacheHierarchy(CacheHierarchyConfig(GIB, GIB), blobs, models.primary.device)) as tiers,
        closing(open_library(data, tokenizer, dtype)) as library,
    ):
        for path in added:
            for _ in library.add(path, path.name):
                pass
        for _ in library.embed_missing():
            pass
        *_, last = build_engine(models, lambda tokenizer: library, tiers, data).ask(QUESTION)
        documents = library.documents()
        texts = {each.name: "".join(chunk.text for chunk in library.chunks(each.id)) for each in documents}
        return _Found(texts, library.notice, last.text)
