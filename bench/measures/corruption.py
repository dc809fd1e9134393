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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from assets import ASSETS
from bench.arguments import positive_int
from bench.harness.engine import model_config
from bench.harness.workload import GIB, open_library
from bench.tables import columns_of, progress
from engine.builder import Models, build_engine, load_models
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.request import Request
from store.errors import KVScopeError
from store.kv.blobs import DiskBlobs
from store.library.library import DocumentLibrary
from store.preferences import Preferences

TITLE = "damaged files of the data folder"
COLUMNS = columns_of("file damage cases opened refused notices lost wrong")
QUESTION = Request("How much does the island card cost a year?", passages=1)
SAMPLES = ASSETS / "samples"
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
    models = load_models(model_config(arguments))
    with tempfile.TemporaryDirectory(prefix="kvscope-corruption-") as folder:
        original = Path(folder) / "original"
        Preferences(original).write({"eviction_policy": "lru"})
        with _opened(models, original, arguments.dtype) as engine:
            library = engine.finder
            assert isinstance(library, DocumentLibrary)
            for path in sorted(SAMPLES.iterdir()):
                for _ in library.add(path, path.name):
                    pass
            _answer(engine)  # computes the KV that the next answers read from disk
        texts, _, answer = _read(models, original, arguments.dtype)  # makes a copy of the database
        rows = []
        for path in progress(_files(original), "Files"):
            for name, damage in DAMAGES.items():
                row: dict[str, Any] = defaultdict(int, file=str(path), damage=name)
                for place in range(arguments.places if name in REPEATED else 1):
                    rng = random.Random(f"{arguments.seed} {path} {name} {place}")
                    copy = original.with_name("copy")
                    damaged = _damage_copy(original, copy, path, damage, rng)
                    try:
                        found, notice, found_answer = _read(models, copy, arguments.dtype)
                    except KVScopeError:
                        row["cases"] += 1
                        row["refused"] += 1
                        continue
                    lost = texts.keys() - found.keys()
                    wrong = any(texts.get(each) != text for each, text in found.items()) or (lost and not notice)
                    wrong = wrong or (not lost and found_answer != answer)
                    if notice and str(path) == DATABASE and damaged is not None:
                        kept = [each.read_bytes() for each in (copy / DATABASE).parent.glob("*.damaged-*")]
                        wrong = wrong or damaged not in kept
                    if wrong:
                        print(
                            f"{path}, {name} {place}: {sorted(lost)} lost, notice {notice!r}, answer {found_answer!r}"
                        )
                    counts = {"cases": 1, "opened": 1, "notices": notice, "lost": len(lost), "wrong": wrong}
                    for key, count in counts.items():
                        row[key] += count if key == "lost" else bool(count)
                rows.append(dict(row))
    return rows


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


def _read(models: Models, data: Path, dtype: str) -> tuple[dict[str, str], str, str]:
    """Open a folder; return the documents' texts by name, the notice, and the answer to the question."""
    with _opened(models, data, dtype) as engine:
        library = engine.finder
        assert isinstance(library, DocumentLibrary)
        Preferences(data).read()
        for _ in library.embed_missing():
            pass
        documents = library.documents()
        texts = {each.name: "".join(chunk.text for chunk in library.chunks(each.id)) for each in documents}
        return texts, library.notice, _answer(engine)


def _answer(engine: Engine) -> str:
    *_, last = engine.ask(QUESTION)
    return last.text


@contextmanager
def _opened(models: Models, data: Path, dtype: str) -> Iterator[Engine]:
    """Open library and chunk KV of a folder as the application does."""
    with ExitStack() as files:
        blobs = files.enter_context(closing(DiskBlobs(data / "kv")))
        config = CacheHierarchyConfig(GIB, GIB)
        tiers = files.enter_context(closing(CacheHierarchy(config, blobs, models.primary.device)))

        def open_documents(tokenizer: Tokenizer) -> DocumentLibrary:
            return files.enter_context(closing(open_library(data, tokenizer, dtype)))

        yield build_engine(models, open_documents, tiers, data)
