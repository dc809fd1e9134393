"""What a finetune reads, what it makes of plain text, and what it says of files it cannot use."""

import json
import re
from random import Random

import pytest

from training.data.cloze import BLANK, with_questions
from training.data.corpus import BadCorpus, Corpus, Paragraph, read
from training.data.synthetic_facts import record

ROW = {"title": "Ferries", "context": " The Tern sails. ", "qas": [{"question": "Who sails?", "answers": ["The Tern"]}]}
TEXT = (
    "The harbour was rebuilt by Ingrid Dahl in 1998, after the great storm. It has room for 24 boats of any size. "
    "Nobody lives there now, and the old lamps are gone."
)


def test_a_row_gives_its_paragraph_with_title_and_questions(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROW) + "\n\n" + json.dumps({**ROW, "title": "", "qas": []}) + "\n")
    (found,) = read([file])
    assert found.name == "rows" and found.questions == 1
    assert found.paragraphs[0] == Paragraph("Ferries\nThe Tern sails.", (("Who sails?", "The Tern"),))
    assert found.paragraphs[1] == Paragraph("The Tern sails.")


def test_a_folder_is_all_its_readable_files(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.jsonl").write_text(json.dumps(ROW))
    (tmp_path / "c.bin").write_bytes(b"\xff")
    assert [one.name for one in read([tmp_path])] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", '{"context": "x", "qas": []}\n{oops', "a.jsonl line 2 is not JSON"),
        ("a.jsonl", '{"question": "x"}', "a.jsonl line 1 is not a paragraph"),
        ("a.jsonl", "[1, 2]", "a.jsonl line 1 is not a paragraph"),
        ("a.jsonl", "", "a.jsonl holds no paragraph"),
        ("a.txt", "short", "a.txt holds no paragraph"),
        ("a.txt", b"\xff\xfe\x00\xd8", "a.txt cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_line(tmp_path, name, content, said):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadCorpus, match=said):
        read([file])


def test_a_folder_without_any_such_file_says_so(tmp_path):
    with pytest.raises(BadCorpus, match=r"no \.jsonl"):
        read([tmp_path])


def test_questions_of_ours_are_answered_by_the_paragraph():
    made = with_questions(Corpus("own", (Paragraph(TEXT), Paragraph("All is low here."))), seed=1)
    assert made == with_questions(Corpus("own", (Paragraph(TEXT), Paragraph("All is low here."))), seed=1)
    asked = made.paragraphs[0].asked
    assert len(asked) == 2 and made.paragraphs[1].asked == ()
    for question, answer in asked:
        assert answer in TEXT and _answered(question, answer) in TEXT


def _answered(question: str, answer: str) -> str:
    """Put the answer where the question leaves it out."""
    if BLANK in question:
        return question.split(": ", 1)[1].replace(BLANK, answer)
    before, after = re.split("which year|how many|what", question.rstrip("?"), maxsplit=1)
    return f"{before}{answer}{after}"


def test_paragraphs_that_have_questions_keep_them():
    asked = (("Who sails?", "The Tern"),)
    assert with_questions(Corpus("own", (Paragraph(TEXT, asked),)), seed=0).paragraphs[0].asked == asked


@pytest.mark.parametrize("seed", range(40))
def test_a_record_asks_for_every_value_that_it_states(seed):
    sentences, question, answer = record(Random(seed))
    listed = answer.removesuffix(".").rsplit(" is ", 1)[-1].rsplit(" are ", 1)[-1].split(", ")
    assert len(listed) == len(sentences) and question.endswith(("?", "."))
    assert all(value in sentence for value, sentence in zip(listed, sentences, strict=True))
