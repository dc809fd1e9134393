"""Recall is measured on the library itself: which hits hold the answer, in which section."""

import json
from contextlib import closing

import pytest

from bench.measures.retrieval import Search, find_recall, read_file_set, read_folder_set, spread
from store.document_library import DocumentLibrary
from store.ingest.chunker import ChunkConfig
from store.types import Chunk
from tests.support.fakes import WordEmbedder, word_tokenizer

BIRDS = [("How many fish?", ["12"]), ("May it fly?", ["No: A heron eats"]), ("Why?", [])]
SECTIONS = [
    ("Boats", "The ferry carries 12 cars.", [("How many cars fit on the ferry?", ["12 cars"])]),
    ("Birds", "A heron eats 12 fish.", BIRDS),
]


@pytest.fixture
def path(tmp_path):
    """A file with a section per line."""
    rows = [
        {
            "context": f"notes.txt > Harbour > {heading}\n\n{text}",
            "qas": [{"question": question, "answers": answers} for question, answers in pairs],
        }
        for heading, text, pairs in SECTIONS
    ]
    file = tmp_path / "notes.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return file


def chunk(text, context="notes.md > Harbour > Boats"):
    return Chunk("a-0", "a", "notes.md", 0, None, 0, len(text), text, context)


def test_a_file_becomes_one_document_with_sections(path, tmp_path):
    (file,), searches = read_file_set(path, tmp_path)
    assert file.read_text(encoding="utf-8").split("\n\n")[:3] == ["# Harbour", "## Boats", "The ferry carries 12 cars."]
    assert searches == [
        Search("How many cars fit on the ferry?", ("notes.md",), "Boats", "12 cars"),
        Search("How many fish?", ("notes.md",), "Birds", "12"),
        Search("May it fly?", ("notes.md",), "Birds", "A heron eats"),
    ]


def test_the_right_passage_holds_the_quote_below_the_right_heading():
    search = Search("?", ("notes.md",), "Boats", "12 cars")
    assert search.is_answered_by(chunk("It carries 12 cars."))
    assert search.is_answered_by(chunk("## Boats\n\nIt carries 12 cars.", "notes.md"))
    assert not search.is_answered_by(chunk("It carries 12 cars.", "notes.md > Harbour > Birds"))
    assert not search.is_answered_by(chunk("It carries 13 cars."))
    assert not Search("?", ("other.md",), "", "12 cars").is_answered_by(chunk("It carries 12 cars."))


def test_recall_counts_the_questions_whose_passage_is_among_the_first_hits(path, tmp_path):
    files, searches = read_file_set(path, tmp_path)
    lost = Search("Nothing says this", ("notes.md",), "Birds", "no such words")
    with closing(DocumentLibrary(tmp_path / "library", word_tokenizer(), WordEmbedder(), ChunkConfig(8, 0))) as library:
        for file in files:
            list(library.add(file, file.name))
        misleading = Search("ferry cars", ("notes.md",), "Birds", "A heron eats")
        rows = list(find_recall("notes", library, [*searches[:1], misleading, lost]))
    assert [(row["set"], row["stage"], row["n"]) for row in rows] == [
        ("notes", "vectors", 2),
        ("notes", "vectors and words", 2),
    ]
    assert all(row["recall_1"] == 0.5 and row["recall_8"] == 1.0 for row in rows)


def test_a_folder_has_the_questions_with_a_quote_and_without_earlier_turns(tmp_path):
    row = {"id": "1", "split": "dev", "type": "fact", "language": "en", "documents": ["a.txt"], "history": []}
    row |= {"required": [["12"]], "forbidden": [], "quote": "12 cars", "question": "How many?"}
    rows = [row, row | {"quote": ""}, row | {"history": [{"question": "a", "answer": "b"}]}, row | {"split": "held"}]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_text("The ferry carries 12 cars.")
    files, searches = read_folder_set(tmp_path, "dev")
    assert files == [tmp_path / "files" / "a.txt"] and searches == [Search("How many?", ("a.txt",), "", "12 cars")]


@pytest.mark.parametrize("count, expected", [(2, [0, 5]), (4, [0, 2, 5, 7]), (99, list(range(10)))])
def test_the_questions_are_spread_evenly(count, expected):
    searches = [Search(str(number), (), "", "") for number in range(10)]
    assert [int(each.question) for each in spread(searches, count)] == expected
