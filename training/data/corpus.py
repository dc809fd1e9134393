"""What a finetune learns from: paragraphs with questions, out of JSON lines or a person's own documents.

A line of JSON is {"context": ..., "qas": [{"question": ..., "answers": [...]}], "title": ...}, as in SQuAD; the title
may be missing. A text or Markdown file has no questions: its paragraphs stand among others as what search brings in
vain, and where there is nothing else they get questions of ours (training.data.cloze).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import KVScopeError

PLAIN = (".txt", ".md")
SHORTEST = 120  # characters of a document's paragraph that is worth a passage


class BadCorpus(KVScopeError):
    """Training material that cannot be read, or is too little."""


@dataclass(frozen=True)
class Paragraph:
    """A passage of its file and what is asked about it: pairs of a question and its answer."""

    text: str
    asked: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Corpus:
    """One file's paragraphs, in their order: neighbours are often about the same thing.

    weight  how often lessons are drawn from it, against the others
    """

    name: str
    paragraphs: tuple[Paragraph, ...]
    weight: float = 1.0

    @property
    def questions(self) -> int:
        return sum(len(paragraph.asked) for paragraph in self.paragraphs)


def read(paths: Sequence[Path]) -> list[Corpus]:
    """Return what each file holds; a folder counts as all its files that can be read.

    Raises BadMaterial with file and line for a row of another kind, and for a file without a paragraph.
    """
    files = [file for path in paths for file in (sorted(_inside(path)) if path.is_dir() else [path])]
    if not files:
        raise BadCorpus(f"There is no .jsonl, .txt or .md file in {', '.join(map(str, paths)) or 'the given paths'}.")
    return [_material(file) for file in files]


def _inside(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.suffix in (".jsonl", *PLAIN))


def _material(file: Path) -> Corpus:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadCorpus(f"{file} cannot be read: {error}.") from error
    paragraphs = _plain(text) if file.suffix in PLAIN else [_row(line, where) for line, where in _lines(text, file)]
    paragraphs = [paragraph for paragraph in paragraphs if paragraph.text]
    if not paragraphs:
        raise BadCorpus(f"{file} holds no paragraph.")
    return Corpus(file.stem, tuple(paragraphs))


def _lines(text: str, file: Path) -> Iterator[tuple[str, str]]:
    return ((line, f"{file} line {number}") for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _row(line: str, where: str) -> Paragraph:
    try:
        fields: Any = json.loads(line)
        title = f"{fields['title']}\n" if fields.get("title") else ""
        asked = ((one["question"].strip(), one["answers"][0].strip()) for one in fields["qas"] if one["answers"])
        return Paragraph(title + fields["context"].strip(), tuple(pair for pair in asked if all(pair)))
    except json.JSONDecodeError as error:
        raise BadCorpus(f"{where} is not JSON: {error.msg} at column {error.colno}.") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise BadCorpus(f"{where} is not a paragraph with 'context' and 'qas' [question, answers].") from error


def _plain(text: str) -> list[Paragraph]:
    return [Paragraph(line.strip()) for line in text.split("\n") if len(line.strip()) >= SHORTEST]


def described(materials: Sequence[Corpus]) -> dict[str, dict[str, float]]:
    """Return what each file brought, for a report."""
    return {m.name: {"paragraphs": len(m.paragraphs), "questions": m.questions, "weight": m.weight} for m in materials}
