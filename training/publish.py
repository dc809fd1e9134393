"""Publish the result of a training run, unless the published one is better by its report."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from training.checkpoint import to_json
from training.data.corpus import BadCorpus

REPORT_FILE = "report.json"


def write_report(
    folder: Path, model: str, config: Any, eval_set: dict[str, Any], results: dict[str, Any]
) -> dict[str, Any]:
    """Write the report of a training run into its folder; return it."""
    report = {"model": model, "config": to_json(config), "judged_by": eval_set, **results}
    (folder / REPORT_FILE).write_text(json.dumps(report, indent=1) + "\n")
    return report


def publish(out: Path, target: Path, files: Sequence[str], selection_metric: Callable[[dict[str, Any]], float]) -> bool:
    """Copy `files` and the report from `out` to `target` if the new report has a higher metric; return whether it has.

    Raises BadCorpus if the two were evaluated on different questions or are for different models.
    """
    new = json.loads((out / REPORT_FILE).read_text())
    if (target / REPORT_FILE).exists():
        old = json.loads((target / REPORT_FILE).read_text())
        if old["model"] != new["model"]:
            raise BadCorpus(f"The published result in {target} is for {old['model']}, not for {new['model']}.")
        if old["judged_by"] != new["judged_by"]:
            raise BadCorpus(
                f"The published result in {target} was evaluated on other questions; delete it to replace it."
            )
        if selection_metric(old) >= selection_metric(new):
            return False
    target.mkdir(parents=True, exist_ok=True)
    for name in (*files, REPORT_FILE):
        shutil.copy(out / name, target / name)
    return True
