"""Reading corpora, cloze questions and synthetic facts; errors name the file and line."""

import json
import re
from random import Random

import pytest

from training.data.cloze import BLANK, add_cloze_questions
from training.data.corpus import BadCorpus, Corpus, Paragraph, read_corpora
from training.data.synthetic_facts import ATTRIBUTES, OBJECTS, OWNERS, synthetic_facts

ROW = {"title": "Ferries", "context": " The Tern sails. ", "qas": [{"question": "Who sails?", "answers": ["The Tern"]}]}
TEXT = (
    "The harbour was rebuilt by Ingrid Dahl in 1998, after the great storm. It has room for 24 boats of any size. "
    "Nobody lives there now, and the old lamps are gone."
)


def test_a_row_gives_its_paragraph_with_title_and_questions(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROW) + "\n\n" + json.dumps({**ROW, "title": "", "qas": []}) + "\n")
    (corpus,) = read_corpora(file)
    assert corpus.name == "rows" and corpus.num_questions == 1
    assert corpus.paragraphs[0] == Paragraph("Ferries\nThe Tern sails.", (("Who sails?", "The Tern"),))
    assert corpus.paragraphs[1] == Paragraph("The Tern sails.")


def test_a_folder_yields_all_files_of_known_types(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.jsonl").write_text(json.dumps(ROW))
    (tmp_path / "c.bin").write_bytes(b"\xff")
    assert [corpus.name for corpus in read_corpora(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"context": "x", "qas": []}\n{oops', "a.jsonl line 2 is not JSON"),
        ("a.jsonl", '{"question": "x"}', "a.jsonl line 1 is not a paragraph"),
        ("a.jsonl", '{"passages": [], "qas": []}', "a.jsonl line 1 is not a paragraph"),
        ("a.jsonl", "[1, 2]", "a.jsonl line 1 is not a paragraph"),
        ("a.jsonl", "", "a.jsonl has no paragraphs"),
        ("a.txt", "short", "a.txt has no paragraphs"),
        ("a.txt", b"\xff\xfe\x00\xd8", "a.txt cannot be read"),
    ],
)
def test_an_unusable_file_is_reported_with_its_line(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadCorpus, match=message):
        read_corpora(file)


def test_a_folder_without_such_files_is_reported(tmp_path):
    with pytest.raises(BadCorpus, match=r"no \.jsonl"):
        read_corpora(tmp_path)


def test_cloze_questions_are_answered_by_the_paragraph():
    corpus = add_cloze_questions(Corpus("own", (Paragraph(TEXT), Paragraph("All is low here."))), seed=1)
    assert corpus == add_cloze_questions(Corpus("own", (Paragraph(TEXT), Paragraph("All is low here."))), seed=1)
    questions = corpus.paragraphs[0].questions
    assert len(questions) == 2 and corpus.paragraphs[1].questions == ()
    for question, answer in questions:
        assert answer in TEXT and _fill_blank(question, answer) in TEXT


def _fill_blank(question: str, answer: str) -> str:
    """Return the sentence from which the question was made."""
    if BLANK in question:
        return question.split(": ", 1)[1].replace(BLANK, answer)
    before, after = re.split("which year|how many|what", question.rstrip("?"), maxsplit=1)
    return f"{before}{answer}{after}"


def test_paragraphs_that_have_questions_keep_them():
    questions = (("Who sails?", "The Tern"),)
    assert (
        add_cloze_questions(Corpus("own", (Paragraph(TEXT, questions),)), seed=0).paragraphs[0].questions == questions
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_synthetic_fact_asks_for_all_its_values(seed):
    ((sentences, question, answer),) = synthetic_facts(Random(seed), 1)
    listed = answer.removesuffix(".").rsplit(" is ", 1)[-1].rsplit(" are ", 1)[-1].split(", ")
    assert len(listed) == len(sentences) and question.endswith(("?", "."))
    assert all(value in sentence for value, sentence in zip(listed, sentences, strict=True))


def test_synthetic_facts_are_about_different_attributes_and_objects():
    """Otherwise a question has two answers, or one that cannot be answered is answered."""
    facts = synthetic_facts(Random(0), 400)
    subjects = {
        (attribute, owner, name)
        for _, question, _ in facts
        for attribute in ATTRIBUTES
        for owner in OWNERS
        for name in OBJECTS
        if attribute in question and f"{owner}'s {name}" in question
    }
    assert len(subjects) == len(facts) == 400
