"""Questions while a document is added: time to first token, relative to the same question when nothing is added.

The whole application runs in a process of its own, with the sample documents and a temporary data folder; the added
text is `--words` random words of them. Each question is measured with nothing else running, then while the document
is embedded or its chunk KV is computed, `--pause` seconds apart.
"""

import json
import random
import tempfile
import time
from argparse import ArgumentParser, Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gradio_client import Client, handle_file

from assets import ASSETS
from bench.arguments import positive_int
from bench.bootstrap import median_interval, medians
from bench.errors import InvalidArgument
from bench.harness.app_process import AppProcess
from bench.tables import columns_of, progress
from engine.analysis.calibration import QUESTIONS_FILE
from engine.model.loading.resolve import resolve

TITLE = "questions while a document is added"
COLUMNS = columns_of("ttft_ms idle_ttft_ms ttft_ratio max_ttft_ms added_ms added_alone_ms n")
SAMPLE_FILE = ASSETS / "samples" / "harbour-handbook.md"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the size of the document, and the time between two questions."""
    parser.add_argument("--words", type=positive_int, default=12000, help="words of the document that is added")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds from an answer to the next question")
    parser.set_defaults(samples=24)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row: medians of both times and of their paired ratio; questions after the end are left out."""
    models = arguments.data / "models"
    resolve(arguments.model, models)
    questions = json.loads(QUESTIONS_FILE.read_text(encoding="utf-8"))["questions"][: arguments.samples]
    with tempfile.TemporaryDirectory(prefix="kvscope-uploads-") as folder, ThreadPoolExecutor(1) as pool:
        data = Path(folder)
        (data / "models").symlink_to(models.absolute())
        with AppProcess(data) as app:
            app.wait_for_samples()
            client = Client(app.url, verbose=False)
            added_alone_ms = _add(client, _document(data, arguments.words, arguments.seed))
            for question in questions:
                app.ask(question)  # its passages' KV is in memory from here on
            idle = [app.ask(question)["ttft_ms"] for question in progress(questions, "Nothing added")]
            adding = pool.submit(_add, client, _document(data, arguments.words, arguments.seed + 1))
            samples = []
            for question, idle_ms in zip(progress(questions, "Adding"), idle, strict=True):
                time.sleep(arguments.pause)
                ttft_ms = app.ask(question)["ttft_ms"]
                if adding.done():
                    break
                samples.append({"ttft_ms": ttft_ms, "idle_ttft_ms": idle_ms, "ttft_ratio": ttft_ms / idle_ms})
            added_ms = adding.result()
    if not samples:
        raise InvalidArgument("The document was added before a question was answered. Add more with --words.")
    low, high = median_interval([sample["ttft_ratio"] for sample in samples])
    row = medians(samples) | {"ttft_ratio_low": low, "ttft_ratio_high": high}
    times = {"added_ms": added_ms, "added_alone_ms": added_alone_ms}
    return [row | times | {"max_ttft_ms": max(sample["ttft_ms"] for sample in samples)}]


def _document(folder: Path, words: int, seed: int) -> Path:
    path = folder / f"added-{seed}.txt"
    path.write_text(" ".join(random.Random(seed).choices(SAMPLE_FILE.read_text(encoding="utf-8").split(), k=words)))
    return path


def _add(client: Client, path: Path) -> float:
    start = time.perf_counter()
    result = client.predict(handle_file(path), api_name="/add_document")[0]
    if result["stage"] != "done":
        raise InvalidArgument(f"The document was not added: {result['message']}")
    return 1e3 * (time.perf_counter() - start)
