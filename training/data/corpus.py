"""Read training data: paragraphs with questions from JSON lines, or without questions from text and Markdown files.

A line of JSON is {"context": ..., "qas": [{"question": ..., "answers": [...]}], "title": ...}, as in SQuAD; the title
is optional. A question without answers cannot be answered from the document. With {"passages": [...]} instead of
"context", the questions need several passages.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import KVScopeError
from engine.generation.verdict import VERDICT

TEXT_SUFFIXES = (".txt", ".md")
HEADING = re.compile(r"#{1,6} +(.{1,150})")
MIN_PARAGRAPH_LENGTH = 120  # characters, in a text or Markdown file


class BadCorpus(KVScopeError):
    """Training data that cannot be read or used."""


@dataclass(frozen=True)
class Paragraph:
    """Text, pairs of a question about it and the answer, and questions that its document does not answer."""

    text: str
    questions: tuple[tuple[str, str], ...] = ()
    unanswerable: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # further passages that its questions need
    heading: str = field(default="", compare=False)  # the last one above it, in a text or Markdown file

    @property
    def passages(self) -> tuple[str, ...]:
        return (self.text, *self.others)


@dataclass(frozen=True)
class Corpus:
    """The paragraphs of one file."""

    name: str
    paragraphs: tuple[Paragraph, ...]  # in order: neighbours are often about the same topic
    weight: float = 1.0  # how often examples are drawn from it, relative to the other corpora

    @property
    def num_questions(self) -> int:
        return sum(len(paragraph.questions) for paragraph in self.paragraphs)


def answer_pattern(answer: str) -> re.Pattern[str]:
    """Return what finds an answer as whole words, without the verdict before a supporting sentence."""
    return re.compile(rf"(?<!\w){re.escape(VERDICT.sub('', answer, count=1))}(?!\w)", re.IGNORECASE)


def read_corpora(path: Path) -> list[Corpus]:
    """Return the corpus in a file, or those in all .jsonl, .txt and .md files of a folder.

    Raises BadCorpus, with file and line, if a row has another format, or if a file has no paragraph.
    """
    if not path.is_dir():
        return [_read_file(path)]
    files = sorted(file for file in path.rglob("*") if file.suffix in (".jsonl", *TEXT_SUFFIXES))
    if not files:
        raise BadCorpus(f"There is no .jsonl, .txt or .md file in {path}.")
    return [_read_file(file) for file in files]


def _read_file(file: Path) -> Corpus:
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadCorpus(f"{file} cannot be read: {error}.") from error
    if file.suffix in TEXT_SUFFIXES:
        paragraphs = list(_paragraphs(lines))
    else:
        rows = [_parse_row(line, f"{file} line {number}") for number, line in enumerate(lines, 1) if line.strip()]
        paragraphs = [paragraph for paragraph in rows if paragraph.text]
    if not paragraphs:
        raise BadCorpus(f"{file} has no paragraphs.")
    return Corpus(file.stem, tuple(paragraphs))


def _paragraphs(lines: Iterable[str]) -> Iterator[Paragraph]:
    heading = ""
    for line in map(str.strip, lines):
        if match := HEADING.fullmatch(line):
            heading = match.group(1)
        elif len(line) >= MIN_PARAGRAPH_LENGTH:
            yield Paragraph(line, heading=heading)


def _parse_row(line: str, location: str) -> Paragraph:
    try:
        row: Any = json.loads(line)
        title = f"{row['title']}\n" if row.get("title") else ""
        texts = row["passages"] if isinstance(row.get("passages"), list) else [row["context"]]
        text, *others = (title + text.strip() for text in texts)
        pairs = ((qa["question"].strip(), qa["answers"][0].strip()) for qa in row["qas"] if qa["answers"])
        unanswerable = tuple(filter(None, (qa["question"].strip() for qa in row["qas"] if not qa["answers"])))
        return Paragraph(text, tuple(pair for pair in pairs if all(pair)), unanswerable, tuple(others))
    except json.JSONDecodeError as error:
        raise BadCorpus(f"{location} is not JSON: {error.msg} at column {error.colno}.") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BadCorpus(
            f"{location} is not a paragraph with 'context' (or 'passages') and 'qas' [question, answers]."
        ) from error
