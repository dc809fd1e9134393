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
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from backend.local import LocalBackend
from backend.runtime.loader import RuntimeLoader, model_config
from backend.runtime.settings import Settings
from backend.runtime.tasks import TaskRegistry
from bench.arguments import positive_int
from bench.tables import columns_of, progress
from engine.builder import Models, load_models
from engine.request import Request
from store.errors import KVScopeError

TITLE = "damaged files of the data folder"
COLUMNS = columns_of("file damage cases opened refused notices lost wrong")
QUESTION = Request("How much does the island card cost a year?", passages=1)
DATABASE = "library/library.sqlite3"
MAX_ALIKE = 2  # files of chunk KV that are damaged
PAGE = 4096
Damage = Callable[[bytes, random.Random], bytes | None]


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
    with tempfile.TemporaryDirectory(prefix="kvscope-corruption-") as folder:
        original = Path(folder) / "original"
        original.mkdir()
        (original / "models").symlink_to((arguments.data / "models").absolute())
        backend = LocalBackend(Settings(data=original, idle_calibration=False))
        backend.start()
        backend.loader.wait(600)
        *_, reference = backend.ask(QUESTION, Event())
        backend.close()
        loader = RuntimeLoader(Settings(data=original), TaskRegistry(), {})
        models = load_models(model_config(loader.settings))
        texts, _, _ = _open(loader, models, original)  # makes a copy of the database
        rows = []
        for path in progress(_files(original), "Files"):
            for name, damage in DAMAGES.items():
                row: dict[str, Any] = defaultdict(int, file=str(path), damage=name)
                for place in range(arguments.places if name in REPEATED else 1):
                    rng = random.Random(f"{arguments.seed} {path} {name} {place}")
                    for key, count in _try(loader, models, original, path, damage, rng, texts, reference.text).items():
                        row[key] += count
                rows.append(dict(row))
    return rows


def _files(folder: Path) -> list[Path]:
    """Return the files to damage, relative to the data folder."""
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    blobs = [path for path in paths if path.suffix == ".safetensors"]
    return [path for path in paths if path.parts[0] != "models" and path not in blobs[MAX_ALIKE:]]


def _try(
    loader: RuntimeLoader,
    models: Models,
    original: Path,
    path: Path,
    damage: Damage,
    rng: random.Random,
    texts: dict[str, str],
    answer: str,
) -> dict[str, int]:
    """Damage a file in a copy of the folder and open it; return what to count."""
    copy = original.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy, symlinks=True)
    damaged = damage((copy / path).read_bytes(), rng)
    (copy / path).unlink() if damaged is None else (copy / path).write_bytes(damaged)
    try:
        found, notice, found_answer = _open(loader, models, copy)
    except KVScopeError:
        return {"cases": 1, "refused": 1}
    lost = texts.keys() - found.keys()
    kept = [each.read_bytes() for each in (copy / DATABASE).parent.glob("*.damaged-*")]
    wrong = any(texts.get(name) != text for name, text in found.items())
    wrong |= bool(lost) and not notice
    wrong |= not lost and found_answer != answer
    wrong |= bool(notice) and str(path) == DATABASE and damaged is not None and damaged not in kept
    if wrong:
        print(f"{path}: {sorted(lost)} lost, notice {notice!r}, answer {found_answer!r}")
    return {"cases": 1, "opened": 1, "notices": bool(notice), "lost": len(lost), "wrong": int(wrong)}


def _open(loader: RuntimeLoader, models: Models, data: Path) -> tuple[dict[str, str], str, str]:
    """Open a data folder; return the documents' texts by name, the notice, and the answer to the question."""
    loader.settings = loader.settings.updated({"data": data})
    loader.open(models)
    runtime = loader.ready()
    try:
        for _ in runtime.library.embed_missing():
            pass
        documents = runtime.library.documents()
        texts = {each.name: "".join(chunk.text for chunk in runtime.library.chunks(each.id)) for each in documents}
        *_, last = runtime.engine.ask(QUESTION)
        return texts, runtime.library.notice, last.text
    finally:
        loader.release()
