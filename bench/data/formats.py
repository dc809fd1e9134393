"""Read questions from a file or a hub data set, in the formats of published question-answering data sets.

A file holds JSON lines, a JSON list of rows, or SQuAD's JSON object; rows are recognised by their fields:

passages + question + answers   titled passages (converted HotpotQA, 2WikiMultihopQA, MuSiQue)
context + qas                   a paragraph and its questions: SQuAD
input + context + answers       LongBench: a long text
context + question + answer     HotpotQA, 2WikiMultihopQA: [[title, [sentences]]], or the hub's title and sentences
context + question + answers    a long text; with the hub's answers.text a paragraph of SQuAD
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.errors import DatasetsMissing, InvalidDataset

NAME = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]*){0,2}")
SPLITS = ("validation", "test", "train")  # the first that exists, if none is named
Fields = Mapping[str, Any]
Row = tuple[str, Any]  # where it stands, for messages; its fields, not checked yet


@dataclass(frozen=True)
class RawQuestion:
    """One question of a row, with either passages of its own or a gold paragraph, to be mixed with others."""

    id: str  # '' if the row has none
    question: str
    answers: tuple[str, ...]
    passages: tuple[str, ...] = ()
    paragraph: str = ""


def read_questions(source: str) -> tuple[str, list[RawQuestion]]:
    """Return the name and the questions of a path, or of `owner/name` or `owner/name:config:split` on the hub.

    Questions without an answer (SQuAD 2's impossible ones) are left out. Raises InvalidDataset and DatasetsMissing.
    """
    path = Path(source)
    if path.exists():
        group, rows = path.stem, _file_rows(path)
    elif NAME.fullmatch(source) and path.suffix not in (".json", ".jsonl") and not path.parent.is_dir():
        name, config, split = [*source.split(":"), "", ""][:3]
        group, rows = name.split("/")[1] + (f":{config}" if config else ""), _hub_rows(source, name, config, split)
    else:
        raise InvalidDataset(f"There is no file {source}.")
    return group, [question for where, fields in rows for question in _parse_row(where, fields)]


def _file_rows(path: Path) -> Iterable[Row]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDataset(f"{path} cannot be read: {error}.") from error
    if not text.strip():
        raise InvalidDataset(f"{path} is empty.")
    try:
        whole = _parse_json(text, str(path))
    except InvalidDataset:
        if text.lstrip().startswith("[") or text.split("\n", 1)[0].strip() == "{":  # a damaged list or object
            raise
        lines = enumerate(text.split("\n"), 1)  # not splitlines: JSON strings may contain other line ends
        places = ((f"{path} line {number}", line) for number, line in lines if line.strip())
        return ((where, _parse_json(line, where)) for where, line in places)
    if isinstance(whole, list):
        return ((f"{path} row {number}", fields) for number, fields in enumerate(whole, 1))
    if isinstance(whole, dict) and "data" in whole:
        return _squad_rows(whole["data"], str(path))
    return [(str(path), whole)]


def _squad_rows(articles: Any, where: str) -> Iterator[Row]:
    try:
        for article in articles:
            for number, paragraph in enumerate(article["paragraphs"], 1):
                title = article.get("title", "")
                yield f"{where}, paragraph {number} of {title!r}", {"title": title, **paragraph}
    except (TypeError, KeyError, AttributeError) as error:
        raise InvalidDataset(f"{where} has data, but not SQuAD's data[].paragraphs[].") from error


def _hub_rows(source: str, name: str, config: str, split: str) -> Iterable[Row]:
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
    return ((f"{source} row {number}", fields) for number, fields in enumerate(loaded, 1))


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if "\n" in text.strip() else f"column {error.colno}"
        raise InvalidDataset(f"{where} is not JSON: {error.msg} at {at}.") from error


def _parse_row(where: str, fields: Any) -> list[RawQuestion]:
    if not isinstance(fields, dict):
        raise InvalidDataset(f"{where} is not a JSON object.")
    for names, parse in FORMATS.items():
        if fields.keys() >= set(names.split(" + ")):
            try:
                return [question for question in parse(fields) if question.question and question.answers]
            except (TypeError, KeyError, ValueError, AttributeError) as error:
                message = f"{where} looks like {names}, but one of its fields has another type or content."
                raise InvalidDataset(message) from error
    known = ", ".join(map(str, fields)) or "none"
    raise InvalidDataset(f"{where} has an unknown format: its fields are {known}; known formats: {'; '.join(FORMATS)}.")


def _with_passages(fields: Fields) -> list[RawQuestion]:
    passages = [_titled(one.get("title"), one["text"]) for one in fields["passages"]]
    return [_question(fields, fields["question"], fields["answers"], passages)]


def _hotpot(fields: Fields) -> list[RawQuestion]:
    context = fields["context"]
    pairs = zip(context["title"], context["sentences"], strict=True) if isinstance(context, Mapping) else context
    passages = [_titled(title, _join(sentences)) for title, sentences in pairs]
    return [_question(fields, fields["question"], fields["answer"], passages)]


def _join(sentences: Iterable[str]) -> str:
    """Return the text of sentences: HotpotQA's begin with a space, 2WikiMultihopQA's do not."""
    text = ""
    for sentence in filter(None, sentences):
        needs_space = text and not text[-1].isspace() and not sentence[0].isspace()
        text += f" {sentence}" if needs_space else sentence
    return text


def _longbench(fields: Fields) -> list[RawQuestion]:
    return [_question(fields, fields["input"], fields["answers"], [fields["context"].strip()])]


def _squad(fields: Fields) -> list[RawQuestion]:
    text = fields["context"].strip()
    paragraph = _titled(str(fields.get("title") or "").replace("_", " "), text) if text else ""
    return [
        _question(asked, asked["question"], asked["answers"], paragraph=paragraph)
        for asked in fields["qas"]
        if not asked.get("is_impossible")
    ]


def _long_or_hub_squad(fields: Fields) -> list[RawQuestion]:
    if isinstance(fields["answers"], Mapping):
        return _squad({**fields, "qas": [fields]})
    return _longbench({**fields, "input": fields["question"]})


FORMATS: dict[str, Callable[[Fields], list[RawQuestion]]] = {
    "passages + question + answers": _with_passages,
    "context + qas": _squad,
    "input + context + answers": _longbench,
    "context + question + answers": _long_or_hub_squad,
    "context + question + answer": _hotpot,
}


def _question(
    fields: Fields, question: Any, answers: Any, passages: Sequence[str] = (), paragraph: str = ""
) -> RawQuestion:
    if not paragraph and not any(passages):
        raise ValueError("no text")
    name = str(fields.get("id") or fields.get("_id") or "")
    return RawQuestion(name, question.strip(), _answers(answers), tuple(passages), paragraph)


def _titled(title: Any, text: str) -> str:
    return f"{title}\n{text.strip()}" if title else text.strip()


def _answers(value: Any) -> tuple[str, ...]:
    """Return the distinct answers of a string, a list, SQuAD's list of {text}, or the hub's {text: [...]}."""
    if isinstance(value, Mapping):
        value = value["text"]
    values = [value] if isinstance(value, str) else value
    texts = ((one["text"] if isinstance(one, Mapping) else one).strip() for one in values)
    return tuple(dict.fromkeys(filter(None, texts)))
