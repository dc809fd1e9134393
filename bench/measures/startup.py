"""Startup of the whole application: until the port answers, until the page is there, until the models answer.

The data folder is temporary, with the models of --data. The first start in it adds the sample documents and is not
counted, so the measured ones are second starts, with files in the disk cache.
"""

import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from bench.bootstrap import median_interval, medians
from bench.harness.app_process import AppProcess
from bench.tables import columns_of, progress
from engine.model.loading.resolve import resolve

TITLE = "startup of the application"
COLUMNS = columns_of("port_ms page_ms ready_ms n")


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row: medians over the starts, the last with its interval."""
    models = arguments.data / "models"
    resolve(arguments.model, models)
    with tempfile.TemporaryDirectory(prefix="kvscope-startup-") as folder:
        data = Path(folder)
        (data / "models").symlink_to(models.absolute())
        samples = [_start(data, is_first=not number) for number in progress(range(arguments.samples + 1), "Starts")]
    low, high = median_interval([sample["ready_ms"] for sample in samples[1:]])
    return [medians(samples[1:]) | {"ready_ms_low": low, "ready_ms_high": high}]


def _start(data: Path, is_first: bool) -> dict[str, float]:
    with AppProcess(data) as app:
        times = {
            "port_ms": app.wait_for("/", "<html"),
            "page_ms": app.wait_for("/", "gradio_config"),
            "ready_ms": app.wait_for("/healthz", '"ok"'),
        }
        if is_first:
            app.wait_for_samples()
    return times
