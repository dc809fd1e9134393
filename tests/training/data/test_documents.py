"""Synthetic documents: seeded, with answers contained in the passage and questions in the intended proportions."""

import json
import re
import sys
from collections import Counter
from itertools import pairwise

import pytest

from engine.prompt.followups import needs_context
from store.markdown import parse_row
from training import __main__ as command
from training.data.corpus import read_corpora
from training.data.documents.followups import with_pronoun
from training.data.documents.generate import SHARES, generate_documents, write_documents
from training.data.documents.vocabulary import read_vocabulary

NUM_DOCUMENTS = 200


@pytest.fixture(scope="module")
def documents():
    return list(generate_documents(NUM_DOCUMENTS, seed=3))


def test_the_same_seed_gives_the_same_file_and_another_seed_another(tmp_path):
    texts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_documents(12, seed, tmp_path / name)
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1] != texts[2]


def test_the_file_is_a_corpus_with_unanswerable_questions(tmp_path):
    file = tmp_path / "documents.jsonl"
    types = write_documents(20, 5, file)
    (corpus,) = read_corpora(file)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(corpus.paragraphs) == len(rows)
    assert corpus.num_questions == sum(types.values()) - types["unanswerable"]
    unanswerable = [(question, row) for row in rows for question in row["qas"] if not question["answers"]]
    kept = [question for paragraph in corpus.paragraphs for question in paragraph.unanswerable]
    assert kept == [question["question"] for question, _ in unanswerable] and len(kept) == types["unanswerable"] > 0


def test_documents_have_3_to_12_passages_of_limited_length(documents):
    assert len(documents) == NUM_DOCUMENTS
    for passages in documents:
        stems = {passage.context.split("\n\n")[0].split(" > ")[0] for passage in passages}
        assert len(stems) == 1 and 3 <= len(passages) <= 12
        assert all(60 <= len(passage.context.split()) <= 450 for passage in passages)


def test_every_answer_stands_in_its_passage(documents):
    for passage in (passage for passages in documents for passage in passages):
        for _, question in passage.phrased:
            if question.type == "yes/no":
                word, _, sentence = question.answer.partition(": ")
                assert word in ("Yes", "No", "Ja", "Nein") and sentence in passage.context
            elif question.type == "multi":
                assert any(
                    first in passage.context and second in passage.context
                    for word in (" and ", " und ")
                    for first, second in _splits(question.answer, word)
                )
            elif question.type != "unanswerable":
                assert question.answer and question.answer in passage.context


def _splits(answer, word):
    parts = answer.split(word)
    return [(word.join(parts[:at]), word.join(parts[at:])) for at in range(1, len(parts))]


def test_types_have_their_shares(documents):
    counts = Counter(question.type for passages in documents for passage in passages for _, question in passage.phrased)
    total = sum(counts.values())
    for name, share in SHARES.items():
        assert counts[name] / total == pytest.approx(share / sum(SHARES.values()), abs=0.015), name


def test_a_question_has_one_answer_in_a_document(documents):
    for passages in documents:
        answers = {}
        for passage in passages:
            for text, question in passage.phrased:
                assert answers.setdefault(text, question.answer) == question.answer


def test_what_unanswerable_questions_ask_for_is_absent(documents):
    absent = 0
    for passages in documents:
        text = "\n".join(passage.context for passage in passages).casefold()
        for question in (question for passage in passages for _, question in passage.phrased):
            if question.type == "unanswerable":
                absent += 1
                assert question.absent and question.absent.casefold() not in text
    assert absent > 100


def test_follow_ups_come_after_the_earlier_question_and_its_answer(documents):
    found = Counter()
    for passages in documents:
        answers = {question.answer for passage in passages for question in passage.questions}
        for text, question in ((text, question) for passage in passages for text, question in passage.phrased):
            if question.type == "followup":
                found["all"] += 1
                stated = max((answer for answer in answers if f" {answer}" in text), key=len, default="")
                found["with an answer"] += bool(stated)
                found["needs context"] += needs_context(text.rpartition(stated or "? ")[2].strip(" ."))
    assert found["with an answer"] > 0.8 * found["all"] > 100
    assert found["needs context"] > 0.5 * found["all"]


@pytest.mark.parametrize(
    ("pattern", "is_person", "is_place", "question"),
    [
        ("How heavy is {e}?", False, False, "How heavy is it?"),
        ("What is {e}'s job?", True, False, "What is his job?"),
        ("Where can I find {e}?", True, False, "Where can I find him?"),
        ("In which room is {e}?", True, False, "In which room is he?"),
        ("How many people work at {e}?", False, True, "How many people work there?"),
        ('"{e}" - how can that be solved?', False, False, "how can that be solved?"),
        ("How do I fix this: {e}?", False, False, "How do I fix this?"),
    ],
)
def test_pronouns_in_follow_ups(pattern, is_person, is_place, question):
    assert with_pronoun(pattern, is_person, is_place) == question


def test_columns_are_named_by_their_value(documents):
    columns = 0
    for passages in documents:
        rows = [row for passage in passages for line in passage.context.splitlines() if (row := parse_row(line))]
        for question in (question for passage in passages for _, question in passage.phrased):
            if question.type == "column" and question.key[3] in ("value", "none"):
                columns += 1
                value = question.key[4]
                in_columns = any((question.answer, value) in row for row in rows)
                in_rows = any(row[0][1] == question.answer and value in dict(row).values() for row in rows)
                assert in_columns or in_rows
    assert columns > 20


def test_amounts_lie_in_the_range_whose_row_answers(documents):
    amounts = 0
    for question in (question for passages in documents for passage in passages for _, question in passage.phrased):
        if question.type == "range" and len(question.key) == 5:
            amounts += 1
            name, amount = question.key[3:]
            (amount,) = _numbers(amount)
            edges = _numbers(name)
            if len(edges) == 2:
                assert edges[0] < amount < edges[1]
            elif name.startswith(("up to", "under", "until", "≤", "max.", "less", "bis", "unter")):
                assert amount < edges[0]
            else:
                assert amount > edges[0]
    assert amounts > 20


def _numbers(text):
    return [int(number) for number in re.findall(r"\d+", re.sub(r"(?<=\d)[.,](?=\d{3})", "", text))]


def test_unanswerable_questions_are_about_similar_and_unrelated_things(documents):
    questions = [question for passages in documents for passage in passages for _, question in passage.phrased]
    absent = [question for question in questions if question.type == "unanswerable"]
    unrelated = [question for question in absent if question.key[0] == "unrelated"]
    entities = {question.subject[0].name for question in questions if question.subject and question.answer}
    about_present = [question for question in absent if question.subject and question.subject[0].name in entities]
    after_another = [question for question in absent if question.key[0] == "followup"]
    assert all(len(kind) > 0.05 * len(absent) for kind in (unrelated, about_present, after_another))


def test_versions_of_a_document_differ_in_name_and_values(documents):
    families = 0
    for first, second in pairwise(documents):
        facts = [
            {question.key: question.answer for passage in passages for question in passage.questions}
            for passages in (first, second)
        ]
        shared = facts[0].keys() & facts[1].keys()
        if len(shared) > len(facts[0]) / 2:
            families += 1
            stems = {passages[0].context.split("\n")[0].split(" > ")[0] for passages in (first, second)}
            assert len(stems) == 2 and any(facts[0][key] != facts[1][key] for key in shared)
    assert families > 20


def test_kinds_are_many_and_all_their_contents_exist():
    english, german = read_vocabulary("english"), read_vocabulary("german")
    assert len(english.kinds) >= 25 and len(german.kinds) >= 12
    for words in (english, german):
        for kind in words.kinds:
            assert kind.subject in words.classes
            choices = [content for _, contents in kind.sections for content in contents]
            for content in (content for choice in choices for content in choice.split("/")):
                name, *arguments = content.split(":")
                if name in ("table", "matrix") or (name == "facts" and arguments and arguments[0]):
                    assert arguments[0] in words.classes, content
                if name in ("fill", "list", "steps", "rule"):
                    assert words.entries.get(f"{name} {arguments[0]}"), content
                if name == "reason":
                    assert any(words.entries.get(f"{entry} {arguments[0]}") for entry in ("why", "if", "def", "how"))
    assert any("ist" in passage.context.split() for passages in generate_documents(30, 1) for passage in passages)


def test_the_command_writes_the_file_and_prints_the_types(tmp_path, monkeypatch, capsys):
    out = tmp_path / "documents.jsonl"
    monkeypatch.setattr(sys, "argv", ["training", "documents", "--count", "6", "--seed", "2", "--out", str(out)])
    assert command.main() == 0
    assert "unanswerable" in capsys.readouterr().out and len(out.read_text().splitlines()) >= 18


def test_a_value_in_other_words_is_the_same_value(documents):
    """'Is it two weeks?' was answered with 'No: It is 2 weeks.'."""
    lists = [read_vocabulary(language).lists["number_word"] for language in ("english", "german")]
    numbers = {word: str(number) for words in lists for number, word in enumerate(words)}

    def in_digits(text):
        return re.sub(r"\w+", lambda match: numbers.get(match[0].lower(), match[0]), text)

    asked = [
        (question.ask.args[-1], question.answer)
        for passages in documents
        for passage in passages
        for question in passage.questions
        if question.type == "yes/no" and question.key[-1] == "whether"
    ]
    denied = [(value, answer) for value, answer in asked if answer.startswith(("No: ", "Nein: "))]
    assert len(denied) > 100
    assert not [pair for pair in denied if re.search(rf"\b{re.escape(in_digits(pair[0]))}\b", in_digits(pair[1]))]
