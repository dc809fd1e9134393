"""How often search finds the passage that answers: recall among the first hits, by stage.

Each PATH is a set with a library of its own: a folder with `files/` and `questions.jsonl` (bench.documents), or a file
in SQuAD's format (bench.data.formats), whose paragraphs become the sections of one document. The right passages are
those that hold the quote, or the answer below the paragraph's heading; questions without any are left out.
"""

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from bench.data.formats import read_questions
from bench.documents.check import load_questions
from bench.documents.normalise import contains
from bench.harness.workload import open_library
from bench.tables import columns_of, progress
from engine.generation.verdict import VERDICT
from engine.model.loading.resolve import resolve
from store.types import Chunk, Finder

TITLE = "recall of search"
STAGES = ("vectors", "vectors and words")
DEPTHS = (1, 3, 8)
COLUMNS = columns_of("set stage recall_1 recall_3 recall_8 n")


@dataclass(frozen=True)
class Search:
    """A question, and where the passage that answers it is."""

    question: str
    documents: tuple[str, ...]  # names; the passage is in one of them
    heading: str  # the last one above the passage; may be empty
    quote: str  # in the passage

    def is_answered_by(self, chunk: Chunk) -> bool:
        """Return whether a chunk holds the quote in the right place."""
        is_there = chunk.document_name in self.documents and self.heading in chunk.passage
        return is_there and contains(chunk.text, self.quote)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="folder of documents, or JSON lines")
    parser.add_argument("--split", choices=["dev", "held"], help="part of the questions about a folder's documents")
    parser.set_defaults(samples=600)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per set and stage; at most `--num-samples` evenly spread questions are searched."""
    tokenizer = AutoTokenizer.from_pretrained(resolve(arguments.model, arguments.data / "models")).backend_tokenizer
    rows: list[dict[str, Any]] = []
    for path in arguments.paths:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            files, searches = read_folder_set(path, arguments.split) if path.is_dir() else read_file_set(path, root)
            with closing(open_library(root, tokenizer, arguments.dtype)) as library:
                for file in files:
                    for _ in library.add(file, file.name):
                        pass
                rows += find_recall(path.stem, library, spread(searches, arguments.samples))
    return rows


def find_recall(name: str, finder: Finder, searches: Sequence[Search]) -> Iterator[dict[str, Any]]:
    """Yield a row per stage: the share of the questions whose passage is among the first 1, 3 and 8 hits."""
    chunks = [chunk for document in finder.documents() for chunk in finder.chunks(document.id)]
    found: list[dict[str, list[bool]]] = []
    for search in progress(searches, name):
        right = {chunk.id for chunk in chunks if search.is_answered_by(chunk)}
        if right:
            stages = [[hit.chunk.id for hit in hits] for hits in finder.retrieve_stages(search.question, max(DEPTHS))]
            found.append(
                {
                    stage: [not right.isdisjoint(ids[:depth]) for depth in DEPTHS]
                    for stage, ids in zip(STAGES, stages, strict=True)
                }
            )
    for stage in STAGES if found else ():
        shares = [sum(column) / len(found) for column in zip(*(each[stage] for each in found), strict=True)]
        recall = {f"recall_{depth}": share for depth, share in zip(DEPTHS, shares, strict=True)}
        yield {"set": name, "stage": stage, "n": len(found)} | recall


def spread(searches: Sequence[Search], count: int) -> list[Search]:
    """Return at most `count` evenly spread ones."""
    count = min(count, len(searches))
    return [searches[index * len(searches) // count] for index in range(count)]


def read_folder_set(folder: Path, split: str | None) -> tuple[list[Path], list[Search]]:
    """Return the files of a folder and the questions about them that stand alone and have a quote."""
    questions = load_questions(folder / "questions.jsonl", split)
    searches = [
        Search(each.question, each.documents, "", each.quote)
        for each in questions
        if not each.history and each.question.strip()
    ]
    return sorted((folder / "files").iterdir()), [search for search in searches if search.quote]


def read_file_set(path: Path, folder: Path) -> tuple[list[Path], list[Search]]:
    """Write the paragraphs as one Markdown document into a folder; return it and the questions about them."""
    file = folder / f"{path.stem}.md"
    _, questions = read_questions(str(path))
    paragraphs = {each.paragraph: number for number, each in enumerate(questions, 1)}
    sections = {paragraph: _section(paragraph, number) for paragraph, number in paragraphs.items()}
    parts = []
    for headings, text in sections.values():
        parts += [f"{'#' * level} {heading}" for level, heading in enumerate(headings, 1)] + [text]
    file.write_text("\n\n".join(parts), encoding="utf-8")
    return [file], [
        Search(each.question, (file.name,), sections[each.paragraph][0][-1], VERDICT.sub("", each.answers[0]))
        for each in questions
        if each.answers and each.question.strip()
    ]


def _section(paragraph: str, number: int) -> tuple[list[str], str]:
    """Return the headings of a paragraph, from its first line if that is a chunk's context, and the text below."""
    first, _, rest = paragraph.partition("\n")
    _, *headings = first.split(" > ")
    return (headings, rest.strip()) if headings else ([f"Section {number:04}"], paragraph)
