"""Kill -9 at random moments: what was acknowledged must be there after the restart, and nothing else.

The whole application runs with a temporary data folder and, for many kills in little time, a tiny random model; it is
forked from a process that has imported its modules. A client adds, renames, re-indexes and deletes documents and
asks about them, until the process is killed at a random moment: while it starts, between two operations or within
one. After each restart the documents are compared with what was acknowledged; an operation that was interrupted may
have happened or not. Each document is also searched by a code that only it has.
"""

import random
import tempfile
import time
from argparse import ArgumentParser, Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer
from typing import Any

from gradio_client import Client

from bench.arguments import positive_int
from bench.errors import InvalidArgument
from bench.harness.app_process import ForkedAppProcess
from bench.harness.changed_documents import (
    KnownDocuments,
    change_documents,
    compare_documents,
    save_tiny_model,
    tiny_model_flags,
)
from bench.tables import columns_of, progress
from engine.model.loading.resolve import resolve

TITLE = "kill -9 at random moments"
COLUMNS = columns_of("kills acknowledged lost wrong failed_starts")
START_FRACTION = 0.15  # of kills: while the application starts
START_S = 2.0  # a kill while it starts comes within this time
WORK_S = 4.0  # other kills come within this time after it is ready


def add_arguments(parser: ArgumentParser) -> None:
    """Add the number of kills."""
    parser.add_argument("--kills", type=positive_int, default=20, help="how often the application is killed")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row; the last three values must be 0."""
    rng = random.Random(arguments.seed)
    models = arguments.data / "models"
    counts = {"lost": 0, "wrong": 0, "failed_starts": 0}
    library = KnownDocuments()
    with tempfile.TemporaryDirectory(prefix="kvscope-faults-") as folder, ThreadPoolExecutor(1) as pool:
        data = Path(folder)
        (data / "models").symlink_to(models.absolute())
        save_tiny_model(resolve(arguments.model, models), data / "tiny")
        flags = tiny_model_flags(data / "tiny")
        for number in progress(range(arguments.kills + 1), "Kills"):
            with ForkedAppProcess(data, *flags) as app:
                is_last = number == arguments.kills
                if not is_last and rng.random() < START_FRACTION:
                    time.sleep(rng.uniform(0, START_S))
                    app.kill()
                    continue
                try:
                    app.wait_for("/healthz", '"ok"')
                except InvalidArgument as error:
                    counts["failed_starts"] += 1
                    print(f"start {number}: {error}")
                    break
                client = Client(app.url, verbose=False)
                lost, wrong = compare_documents(app, client, library, rng)
                counts["lost"] += lost
                counts["wrong"] += wrong
                if not is_last:
                    killer = Timer(rng.uniform(0, WORK_S), app.kill)
                    killer.start()
                    ended_by = pool.submit(_work, client, library, data, rng).exception()
                    if not app.is_killed:
                        counts["wrong"] += 1
                        print(f"start {number}: {ended_by!r}")
                    killer.join()
    return [{"kills": arguments.kills, "acknowledged": library.num_acknowledged, **counts}]


def _work(client: Client, library: KnownDocuments, folder: Path, rng: random.Random) -> None:
    """Change documents until a call fails because the process was killed."""
    while True:
        change_documents(client, library, folder, rng)
