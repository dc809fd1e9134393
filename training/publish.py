"""A better run replaces what is shipped, and only if the reports say that it is better."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from training.data.corpus import BadCorpus

REPORT = "report.json"


def publish(out: Path, target: Path, files: Sequence[str], merit: Callable[[dict[str, Any]], float]) -> bool:
    """Copy `files` and the report from `out` to `target` if theirs is the better report; return whether it was.

    merit  of a report, higher is better

    Raises BadMaterial if the two were judged by different questions or are for different models, so that nobody can
    say.
    """
    new = json.loads((out / REPORT).read_text())
    if (target / REPORT).exists():
        old = json.loads((target / REPORT).read_text())
        if old["model"] != new["model"]:
            raise BadCorpus(f"What lies in {target} is for {old['model']}, and not for {new['model']}.")
        if old["judged_by"] != new["judged_by"]:
            raise BadCorpus(f"What lies in {target} was judged by other questions; delete it to replace it.")
        if merit(old) >= merit(new):
            return False
    target.mkdir(parents=True, exist_ok=True)
    for name in (*files, REPORT):
        shutil.copy(out / name, target / name)
    return True
