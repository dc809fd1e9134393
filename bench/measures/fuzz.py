"""Damaged and hostile files: each must be read or refused with a sentence, in bounded time and memory.

Half of the files are random damage to a random file of FOLDER: flipped bits, bytes that are cut out, repeated or
replaced, or a torn end; in zip-based formats also within one member. The other half is generated: zip bombs, deep
nesting, huge pages, wrong encodings (`bench.hostile`). Each is read as in the application, in a process of its own.
A file follows from the seed and its number alone: `--first` continues a run, or repeats one file with `--files 1`.
"""

import io
import random
import re
import resource
import time
import zipfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench.arguments import positive_int
from bench.hostile import KINDS, epub
from bench.hostile.archives import member_info
from bench.tables import columns_of, progress
from store.errors import KVScopeError
from store.ingest.chunker import sections
from store.ingest.document import ParsedDocument, finish
from store.ingest.isolated import parse_isolated
from store.ingest.language import language_warning
from store.markdown import contexts_at

TITLE = "damaged and hostile files"
COLUMNS = columns_of(
    "files accepted refused app_crashes not_sentences reader_failures worst_s rss_growth_mb worst_rss_mb"
)
HERE = Path(__file__).parents[1] / "documents" / "files"
MAX_DAMAGES = 8  # of one file
MAX_PIECE = 4096  # bytes that are cut out, repeated or replaced at a time
SLOW_S = 30.0  # from which a file is named
READER_FAILURE = "its reader"  # in messages about errors that no parser expects
NO_SENTENCE = re.compile(r"Traceback|\bat 0x[0-9a-f]+|<(?:class|function|module)\b|[\x00-\x1f]|\bNone\b")


@dataclass(frozen=True, slots=True)
class _Outcome:
    kind: str  # a column of the row
    seconds: float
    note: str  # about the file


def add_arguments(parser: ArgumentParser) -> None:
    """Add the folder, and the number of files."""
    parser.add_argument(
        "folder", type=Path, nargs="?", default=HERE, metavar="FOLDER", help="default: bench's own files"
    )
    parser.add_argument("--files", type=positive_int, default=500, help="damaged and hostile files")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--jobs", type=positive_int, default=1, help="files that are read at a time")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row; `worst_rss_mb` is the largest reading process's, `rss_growth_mb` this process's growth.

    `not_sentences` counts refusals that are no sentence; `reader_failures` those for errors that no parser expects.
    """
    originals = [(path.name, path.read_bytes()) for path in sorted(arguments.folder.iterdir()) if path.is_file()]
    read = partial(_read, [*originals, ("Book.epub", epub())], arguments.seed)
    numbers = range(arguments.first, arguments.first + arguments.files)
    counts, worst_s, before = Counter[str](), 0.0, psutil.Process().memory_info().rss
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for number, outcome in zip(progress(numbers, "Files"), pool.map(read, numbers), strict=True):
            counts[outcome.kind] += 1
            worst_s = max(worst_s, outcome.seconds)
            if outcome.kind not in ("accepted", "refused") or outcome.seconds > SLOW_S:
                print(f"file {number}, {outcome.kind} in {outcome.seconds:.1f} s: {outcome.note}")
    growth = (psutil.Process().memory_info().rss - before) / 2**20
    return [
        {
            "files": arguments.files,
            "accepted": counts["accepted"],
            "refused": counts["refused"] + counts["not_sentences"] + counts["reader_failures"],
            **{key: counts[key] for key in ("app_crashes", "not_sentences", "reader_failures")},
            "worst_s": worst_s,
            "rss_growth_mb": growth,
            "worst_rss_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        }
    ]


def make_file(originals: Sequence[tuple[str, bytes]], seed: int, number: int) -> tuple[str, bytes]:
    """Return name and bytes of a file: of the even numbers a damaged one, of the odd ones a hostile one."""
    generator = random.Random(f"{seed}/{number}")
    if number % 2:
        return generator.choice(KINDS)(generator)
    name, data = generator.choice(originals)
    return name, damage(data, generator)


def is_sentence(message: str, name: str) -> bool:
    """Return whether a message about a file is for users: it has a start and an end, and shows no object or trace."""
    text = message.replace(name, "File")
    return text[:1].isupper() and text.endswith((".", "!", "?")) and not NO_SENTENCE.search(text)


def _read(originals: Sequence[tuple[str, bytes]], seed: int, number: int) -> _Outcome:
    name, data = make_file(originals, seed, number)
    start = time.perf_counter()
    kind, note = "accepted", name
    try:
        _prepare(finish(parse_isolated(data, name)))
    except KVScopeError as error:
        note = str(error)
        kind = (
            "reader_failures" if READER_FAILURE in note else "refused" if is_sentence(note, name) else "not_sentences"
        )
    except Exception as error:  # noqa: BLE001  counted
        kind, note = "app_crashes", f"{name}: {type(error).__name__}: {error}"
    return _Outcome(kind, time.perf_counter() - start, note)


def _prepare(document: ParsedDocument) -> None:
    """Do with a text what the application does in its own process before it embeds chunks."""
    language_warning(document.text)
    contexts_at(document.text, [start for start, _ in sections(document.text)])


def damage(data: bytes, generator: random.Random) -> bytes:
    """Return the bytes with random damage, of a zip archive half of the time within one of its members."""
    if data[:2] == b"PK" and generator.random() < 0.5:
        return _damage_member(data, generator)
    damaged = bytearray(data)
    for _ in range(generator.randint(1, MAX_DAMAGES)):
        if not damaged:
            break
        at, size = generator.randrange(len(damaged) + 1), generator.randint(1, MAX_PIECE)
        match generator.randrange(5):
            case 0:
                for _ in range(size % 64):
                    damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
            case 1:
                del damaged[at : at + size]
            case 2:
                damaged[at:at] = damaged[at : at + size] * generator.randint(1, 50)
            case 3:
                damaged[at : at + size] = generator.randbytes(size)
            case 4:
                del damaged[at:]
    return bytes(damaged)


def _damage_member(data: bytes, generator: random.Random) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as target:
        chosen = generator.choice(source.namelist())
        for name in source.namelist():
            content = source.read(name)
            target.writestr(member_info(name), damage(content, generator) if name == chosen else content)
    return sink.getvalue()
