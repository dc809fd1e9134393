"""Parse rows of published question-answering data sets, recognised by their fields.

passages + question + answers   titled passages (converted HotpotQA, 2WikiMultihopQA, MuSiQue)
context + qas                   a paragraph and its questions: SQuAD
input + context + answers       LongBench: a long text
context + question + answer     HotpotQA, 2WikiMultihopQA: [[title, [sentences]]], or the hub's title and sentences
context + question + answers    a long text; with the hub's answers.text a paragraph of SQuAD
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.errors import InvalidDataset

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class RawQuestion:
    """One question of a row, with either passages of its own or a gold paragraph, to be mixed with others.

    id  '' if the row has none
    """

    id: str
    question: str
    answers: tuple[str, ...]
    passages: tuple[str, ...] = ()
    paragraph: str = ""


def parse_questions(where: str, fields: Any) -> list[RawQuestion]:
    """Return a row's questions; those without an answer (SQuAD 2's impossible ones) are left out.

    where  names file and line in messages

    Raises InvalidDataset for an unknown format, or a field that does not match its format.
    """
    if not isinstance(fields, dict):
        raise InvalidDataset(f"{where} is not a JSON object.")
    for names, parse in FORMATS.items():
        if fields.keys() >= set(names.split(" + ")):
            try:
                return [question for question in parse(fields) if question.question and question.answers]
            except (TypeError, KeyError, ValueError, AttributeError) as error:
                raise InvalidDataset(
                    f"{where} looks like {names}, but one of its fields has another type or content."
                ) from error
    known = ", ".join(map(str, fields)) or "none"
    raise InvalidDataset(f"{where} has an unknown format: its fields are {known}; known formats: {'; '.join(FORMATS)}.")


def _with_passages(fields: Fields) -> list[RawQuestion]:
    passages = [_titled(one.get("title"), _text(one["text"])) for one in fields["passages"]]
    return [_question(fields, fields["question"], fields["answers"], passages)]


def _hotpot(fields: Fields) -> list[RawQuestion]:
    context = fields["context"]
    pairs = zip(context["title"], context["sentences"], strict=True) if isinstance(context, Mapping) else context
    passages = [_titled(title, "".join(sentences)) for title, sentences in pairs]
    return [_question(fields, fields["question"], fields["answer"], passages)]


def _longbench(fields: Fields) -> list[RawQuestion]:
    return [_question(fields, fields["input"], fields["answers"], [_text(fields["context"])])]


def _squad(fields: Fields) -> list[RawQuestion]:
    text = _text(fields["context"])
    paragraph = text and _titled(str(fields.get("title") or "").replace("_", " "), text)
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
    fields: Fields, question: Any, answers: Any, passages: list[str] | None = None, paragraph: str = ""
) -> RawQuestion:
    """Return a question. Raises ValueError if it has no text to answer from."""
    if not paragraph and not any(passages or ()):
        raise ValueError("no text")
    name = str(fields.get("id") or fields.get("_id") or "")
    return RawQuestion(name, _text(question), _answers(answers), tuple(passages or ()), paragraph)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value.strip()


def _titled(title: Any, text: str) -> str:
    return f"{title}\n{text.strip()}" if title else text.strip()


def _answers(value: Any) -> tuple[str, ...]:
    """Return the distinct answers of a string, a list, SQuAD's list of {text}, or the hub's {text: [...]}."""
    if isinstance(value, Mapping):
        value = value["text"]
    values = [value] if isinstance(value, str) else value
    texts = (_text(one["text"] if isinstance(one, Mapping) else one) for one in values)
    return tuple(dict.fromkeys(filter(None, texts)))
