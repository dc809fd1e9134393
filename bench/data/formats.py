"""Parse rows of published question-answering data sets, recognised by their fields.

passages + question + answers   titled passages (converted HotpotQA, 2WikiMultihopQA, MuSiQue)
context + qas                   a paragraph and its questions: SQuAD, also nested in data[].paragraphs[]
input + context + answers       LongBench: a long text
context + question + answer     HotpotQA, 2WikiMultihopQA: [[title, [sentences]]], or the hub's title and sentences
context + question + answers    a long text; with the hub's answers.text a paragraph of SQuAD
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.errors import InvalidDataset


@dataclass(frozen=True)
class Row:
    """One row of a file; `where` names file and line in messages."""

    where: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class RawQuestion:
    """One question of a row, before its passages are assembled. Exactly one of the last three is not empty.

    id         '' if the row has none
    passages   used unchanged
    long       a text to split
    paragraph  the gold paragraph, to be mixed with others
    """

    id: str
    question: str
    answers: tuple[str, ...]
    passages: tuple[str, ...] = ()
    long: str = ""
    paragraph: str = ""


def parse_questions(row: Row) -> list[RawQuestion]:
    """Return the row's questions; those without an answer (SQuAD 2's impossible ones) are left out.

    Raises InvalidDataset for an unknown format, or a field that does not match its format.
    """
    for fields, parse in FORMATS.items():
        if row.fields.keys() >= set(fields.split(" + ")):
            try:
                return [question for question in parse(row.fields) if question.question and question.answers]
            except (TypeError, KeyError, ValueError, AttributeError) as error:
                raise InvalidDataset(
                    f"{row.where} looks like {fields}, but one of its fields has another type or content."
                ) from error
    names = ", ".join(map(str, row.fields)) or "none"
    raise InvalidDataset(
        f"{row.where} has an unknown format: its fields are {names}; known formats: {'; '.join(FORMATS)}."
    )


def squad_rows(fields: Mapping[str, Any], where: str) -> Iterator[Row]:
    """Yield the paragraphs of a SQuAD file as rows. Raises InvalidDataset if it is damaged."""
    try:
        for article in fields["data"]:
            for number, paragraph in enumerate(article["paragraphs"], 1):
                title = article.get("title", "")
                yield Row(f"{where}, paragraph {number} of {title!r}", {"title": title, **paragraph})
    except (TypeError, KeyError, AttributeError) as error:
        raise InvalidDataset(f"{where} has data, but not SQuAD's data[].paragraphs[].") from error


def _passages(fields: Mapping[str, Any]) -> list[RawQuestion]:
    passages = tuple(_titled(one.get("title"), _text(one["text"])) for one in fields["passages"])
    if not passages:
        raise ValueError("no passages")
    return [RawQuestion(_id(fields), _text(fields["question"]), _answers(fields["answers"]), passages=passages)]


def _paragraph(fields: Mapping[str, Any]) -> list[RawQuestion]:
    text = _titled(str(fields.get("title") or "").replace("_", " "), _non_empty_text(fields["context"]))
    return [
        RawQuestion(_id(asked), _text(asked["question"]), _answers(asked["answers"]), paragraph=text)
        for asked in fields["qas"]
        if not asked.get("is_impossible")
    ]


def _longbench(fields: Mapping[str, Any]) -> list[RawQuestion]:
    answers = _answers(fields["answers"])
    return [RawQuestion(_id(fields), _text(fields["input"]), answers, long=_non_empty_text(fields["context"]))]


def _hotpot(fields: Mapping[str, Any]) -> list[RawQuestion]:
    context = fields["context"]
    pairs = zip(context["title"], context["sentences"], strict=True) if isinstance(context, Mapping) else context
    passages = tuple(_titled(title, "".join(sentences)) for title, sentences in pairs)
    if not passages:
        raise ValueError("no passages")
    return [RawQuestion(_id(fields), _text(fields["question"]), _answers(fields["answer"]), passages=passages)]


def _long_or_hub_squad(fields: Mapping[str, Any]) -> list[RawQuestion]:
    if isinstance(fields["answers"], Mapping):
        return _paragraph({**fields, "qas": [fields]})
    return [
        RawQuestion(
            _id(fields), _text(fields["question"]), _answers(fields["answers"]), long=_non_empty_text(fields["context"])
        )
    ]


FORMATS: dict[str, Callable[[Mapping[str, Any]], list[RawQuestion]]] = {
    "passages + question + answers": _passages,
    "context + qas": _paragraph,
    "input + context + answers": _longbench,
    "context + question + answers": _long_or_hub_squad,
    "context + question + answer": _hotpot,
}


def _id(fields: Mapping[str, Any]) -> str:
    return str(fields.get("id") or fields.get("_id") or "")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value.strip()


def _non_empty_text(value: Any) -> str:
    if text := _text(value):
        return text
    raise ValueError("an empty context")


def _titled(title: Any, text: str) -> str:
    return f"{title}\n{text.strip()}" if title else text.strip()


def _answers(value: Any) -> tuple[str, ...]:
    """Return the distinct answers of a string, a list, SQuAD's list of {text}, or the hub's {text: [...]}."""
    if isinstance(value, Mapping):
        value = value["text"]
    values = [value] if isinstance(value, str) else value
    texts = (_text(one["text"] if isinstance(one, Mapping) else one) for one in values)
    return tuple(dict.fromkeys(filter(None, texts)))
