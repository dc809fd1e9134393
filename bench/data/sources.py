"""Read rows from a file, or from a data set on the hub.

A file holds JSON lines, a JSON list of rows, or SQuAD's JSON object; it is recognised by its content.
"""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.errors import DatasetsMissing, InvalidDataset

NAME = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]*){0,2}")
SPLITS = ("validation", "test", "train")  # the first that exists, if none is named
Row = tuple[str, Any]  # where it stands, for messages; its fields, not checked yet


def read_rows(source: str) -> tuple[str, Iterator[Row]]:
    """Return the group's name and the rows of a path, or of `owner/name` or `owner/name:config:split` on the hub.

    Raises InvalidDataset, also while iterating, and DatasetsMissing if a hub data set is named without `datasets`.
    """
    path = Path(source)
    if path.exists():
        return path.stem, _file_rows(path)
    if NAME.fullmatch(source) and path.suffix not in (".json", ".jsonl") and not path.parent.is_dir():
        name, config, split = [*source.split(":"), "", ""][:3]
        return name.split("/")[1] + (f":{config}" if config else ""), _hub_rows(source, name, config, split)
    raise InvalidDataset(f"There is no file {source}.")


def _file_rows(path: Path) -> Iterator[Row]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDataset(f"{path} cannot be read: {error}.") from error
    if not text.strip():
        raise InvalidDataset(f"{path} is empty.")
    try:
        whole = _parse(text, str(path))
    except InvalidDataset:
        if text.lstrip().startswith("[") or text.split("\n", 1)[0].strip() == "{":  # a damaged list or object
            raise
        whole = None
    if whole is None:
        for number, line in enumerate(text.split("\n"), 1):  # not splitlines: JSON strings may contain other line ends
            if line.strip():
                yield f"{path} line {number}", _parse(line, f"{path} line {number}")
    elif isinstance(whole, list):
        yield from ((f"{path} row {number}", fields) for number, fields in enumerate(whole, 1))
    elif isinstance(whole, dict) and "data" in whole:
        yield from _squad_rows(whole["data"], str(path))
    else:
        yield str(path), whole


def _squad_rows(articles: Any, where: str) -> Iterator[Row]:
    try:
        for article in articles:
            for number, paragraph in enumerate(article["paragraphs"], 1):
                title = article.get("title", "")
                yield f"{where}, paragraph {number} of {title!r}", {"title": title, **paragraph}
    except (TypeError, KeyError, AttributeError) as error:
        raise InvalidDataset(f"{where} has data, but not SQuAD's data[].paragraphs[].") from error


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if "\n" in text.strip() else f"column {error.colno}"
        raise InvalidDataset(f"{where} is not JSON: {error.msg} at {at}.") from error


def _hub_rows(source: str, name: str, config: str, split: str) -> Iterator[Row]:
    try:
        datasets = import_module("datasets")
    except ImportError as error:
        raise DatasetsMissing(f"There is no file {source}, and hub data sets need the datasets library.") from error
    try:
        loaded = datasets.load_dataset(name, config or None, split=split or None)
        if not split:
            loaded = loaded[next((one for one in SPLITS if one in loaded), next(iter(loaded)))]
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidDataset(f"{source} cannot be loaded from the hub: {error}.") from error
    yield from ((f"{source} row {number}", fields) for number, fields in enumerate(loaded, 1))
