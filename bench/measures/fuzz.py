"""Damaged files: every one must be read or refused with a message, in bounded time and memory.

Each file is a random damage to a random file of FOLDER: flipped bits, bytes that are cut out, repeated or replaced, or
a torn end; in zip-based formats also within one member. It is read as in the application, in a process of its own.
"""

import io
import random
import resource
import time
import zipfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import psutil

from bench.arguments import positive_int
from bench.tables import columns_of, progress
from store.errors import KVScopeError
from store.ingest.document import finish
from store.ingest.isolated import parse_isolated

TITLE = "damaged files"
COLUMNS = columns_of("files accepted refused app_crashes worst_s rss_growth_mb worst_rss_mb")
HERE = Path(__file__).parents[1] / "documents" / "files"
MAX_DAMAGES = 8  # of one file
MAX_PIECE = 4096  # bytes that are cut out, repeated or replaced at a time


def add_arguments(parser: ArgumentParser) -> None:
    """Add the folder and the number of damaged files."""
    parser.add_argument(
        "folder", type=Path, nargs="?", default=HERE, metavar="FOLDER", help="default: bench's own files"
    )
    parser.add_argument("--files", type=positive_int, default=500, help="damaged files")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row; `worst_rss_mb` is the largest reading process's, `rss_growth_mb` this process's growth."""
    generator = random.Random(arguments.seed)
    originals = [(path.name, path.read_bytes()) for path in sorted(arguments.folder.iterdir()) if path.is_file()]
    counts = {"accepted": 0, "refused": 0, "app_crashes": 0}
    worst_s, before = 0.0, psutil.Process().memory_info().rss
    for number in progress(range(arguments.files), "Files"):
        name, data = generator.choice(originals)
        damaged = damage(data, generator)
        start = time.perf_counter()
        try:
            finish(parse_isolated(damaged, name))
            counts["accepted"] += 1
        except KVScopeError as error:
            counts["refused" if str(error).strip() else "app_crashes"] += 1
        except Exception as error:  # noqa: BLE001  counted
            counts["app_crashes"] += 1
            print(f"file {number}, a damaged {name}: {type(error).__name__}: {error}")
        worst_s = max(worst_s, time.perf_counter() - start)
    growth = (psutil.Process().memory_info().rss - before) / 2**20
    worst_rss_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return [
        {"files": arguments.files, **counts, "worst_s": worst_s, "rss_growth_mb": growth, "worst_rss_mb": worst_rss_mb}
    ]


def damage(data: bytes, generator: random.Random) -> bytes:
    """Return the bytes with random damage, of a zip archive half of the time within one of its members."""
    if data[:2] == b"PK" and generator.random() < 0.5:
        return _damage_member(data, generator)
    damaged = bytearray(data)
    for _ in range(generator.randint(1, MAX_DAMAGES)):
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
        if not damaged:
            break
    return bytes(damaged)


def _damage_member(data: bytes, generator: random.Random) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as target:
        chosen = generator.choice(source.namelist())
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, damage(content, generator) if name == chosen and content else content)
    return sink.getvalue()
