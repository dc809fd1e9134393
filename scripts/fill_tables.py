"""Fill the tables of README.md and docs/results from the rows in `docs/measured`.

A table is written between two comments, the first of which describes it:

    <!-- table method quality n: FILE -->              a line for each row of the file, with these of its fields
    <!-- pivot kl by task: FILE, FILE -->              a line for each method, a column for each RULER task, their mean
    <!-- pivot kl: LABEL=FILE, FILE, LABEL=FILE -->    a line for each method, a column for each label: its files' mean
    <!-- end -->

`FILE?task=a&length=4096` takes only the rows where that is so, `FILE!quality` another field than the pivot's.
`python -m scripts.fill_tables` rewrites all tables.
"""

import json
import re
import statistics
from pathlib import Path
from typing import Any

from bench.reporting.report import columns_for
from bench.ruler.generate import TASKS
from bench.tables import markdown

HERE = Path(__file__).parents[1] / "docs"
PAGES = [HERE.parent / "README.md", HERE / "cluster.md", *sorted((HERE / "results").glob("*.md"))]
LABELS = {"answer_kl_gap": "less CacheClip's", "context_tokens": "context tokens"}  # in addition to the bench's own
TABLE = re.compile(r"(<!-- (table|pivot) ([^:>]*): (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
SOURCE = re.compile(r"(?:([^=?]+)=)?([\w.-]+)(?:\?([^!]+))?(?:!(\w+))?")
BUDGETED = re.compile(r"epic:tokens=\d+")  # as many tokens per passage as give the budget of the others

Rows = list[dict[str, Any]]
Columns = dict[str, tuple[str, Rows]]  # by head: the field, and the rows whose means it shows


def filled(page: str) -> str:
    """Return a page with its tables rewritten. Raises LookupError for a field or rows that do not exist."""
    return TABLE.sub(lambda match: f"{match[1]}{_table(match[2], match[3], match[4])}\n{match[5]}", page)


def _table(kind: str, what: str, sources: str) -> str:
    value, _, key = what.partition(" by ")
    columns: Columns = {}
    head = ""
    for source in sources.split(", "):
        label, field, rows = _source(source, value)
        head = label or head  # a file without a label belongs to the label before it
        columns.setdefault(head, (field, []))[1].extend(rows)
    if kind == "table":
        labels = columns_for([dict.fromkeys(what.split())]) | LABELS
        return markdown({key: labels[key] for key in what.split()}, columns[""][1])
    return _pivot(_split(*columns[""], key) if key else columns)


def _source(source: str, value: str) -> tuple[str, str, Rows]:
    """Return a source's label, its field and its rows. Raises LookupError if there are no rows."""
    match = SOURCE.fullmatch(source)
    if not match:
        raise LookupError(source)
    label, name, conditions, field = match.groups()
    rows = json.loads((HERE / "measured" / name).read_text(encoding="utf-8"))
    for condition in conditions.split("&") if conditions else ():
        key, _, wanted = condition.partition("=")
        rows = [row for row in rows if str(row.get(key)) == wanted]
    if not rows:
        raise LookupError(source)
    return label or "", field or value, rows


def _split(field: str, rows: Rows, key: str) -> Columns:
    """Return a column for each ratio, or for each RULER task and their mean."""
    groups = {row[key]: [other for other in rows if other.get(key) == row[key]] for row in rows if key in row}
    if key == "ratio":
        return {f"{ratio:.0%}": (field, groups[ratio]) for ratio in sorted(groups)}
    tasks = {task.removeprefix("niah_").replace("_", " "): (field, groups[task]) for task in TASKS if task in groups}
    return {**tasks, "mean": (field, rows)}


def _pivot(columns: Columns) -> str:
    """Return a line per method, and a last one with the smallest n of each column."""
    lines: Rows = []
    for method in dict.fromkeys(_method(row) for _, rows in columns.values() for row in rows):
        line: dict[str, Any] = {"method": method}
        for head, (field, rows) in columns.items():
            if values := [row[field] for row in rows if _method(row) == method]:
                line[head] = statistics.fmean(values)
        lines.append(line)
    lines.append({"method": "n"} | {head: min(row["n"] for row in rows) for head, (_, rows) in columns.items()})
    return markdown({head: head for head in ("method", *columns)}, lines)


def _method(row: dict[str, Any]) -> str:
    return BUDGETED.sub("epic, same budget", row["method"])


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
