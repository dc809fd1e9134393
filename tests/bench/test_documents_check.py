"""Tests of the check of answers, and of the questions: each document contains the answers to its questions."""

import re
import zipfile
from collections import Counter
from dataclasses import replace
from functools import lru_cache

import pytest

from bench.__main__ import _parser
from bench.documents.check import (
    FILES,
    TYPES,
    Question,
    expected_calibration_error,
    is_refusal,
    is_right,
    load_questions,
    quote_is_right,
)
from bench.documents.normalise import contains, normalise
from bench.errors import InvalidArgument
from bench.measures import documents
from engine.prompt.template import NO_ANSWER
from store.ingest import parse

QUESTIONS = load_questions()
SETS = ("more", "fourth", "fifth", "sixth")  # other sets of documents, to tune with
MORE = {FILES.parent / name / "files": load_questions(FILES.parent / name / "questions.jsonl") for name in SETS}
QUESTIONS_OF = {FILES: QUESTIONS, **MORE}
UNANSWERED = ("refusal", "chat")
FACT = Question("x", "dev", "fact", "en", "How long is it?", ("a.pdf",), (), (("20 m", "20 metres"),), ("30",), "20 m")
REFUSAL = replace(FACT, type="refusal", documents=(), required=(), forbidden=("Austen",), quote="")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,250,000", "1.250.000"),
        ("1 250", "1\u202f250"),
        ("\u20ac 12,50", "12.5 EUR"),
        ("985 pounds", "\u00a3985"),
        ("12 per cent", "12%"),
        ("12 Prozent", "12 %"),
        ("twenty-one", "Twenty  one"),
        ("24\u2013month", "24-month"),
        ("zw\u00f6lf Monate", "12 Monate"),
        ("20kg", "20 kg"),
        ("09:30", "9.30"),
        ("con-\ncrete", "concrete"),
    ],
)
def test_spellings_of_the_same_are_one(one, other):
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize("text", ["120", "2020", "20.5", "20,5", "1.20", "20,000", "E20", "200"])
def test_a_number_is_found_only_whole(text):
    assert not contains(text, "20")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("(20)", "20"), ("20%", "20"), ("a 1 250 b", "1,250"), ("filters", "filter"), ("B-7,2024-05-28,20,0.5", "20")],
)
def test_what_is_there_is_found(text, wanted):
    assert contains(text, wanted)


@pytest.mark.parametrize("wanted", ["no", "\u20ac", ""])
def test_part_of_a_word_or_nothing_is_not_found(wanted):
    assert not contains("It is not known", wanted)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("It is 20 m long.", True),
        ("20 metres", True),
        ("It is 20 m or 30 m long.", False),
        ("It is 120 m long.", False),
        (f"{NO_ANSWER} It may be 20 m.", False),
        ("", False),
    ],
)
def test_a_fact_needs_what_is_required_and_nothing_forbidden(answer, right):
    assert is_right(FACT, answer) == right


def test_a_forbidden_string_of_the_question_may_be_repeated():
    assert is_right(replace(FACT, question="Is it 30 m long?"), "It is not 30 m but 20 m long.")


@pytest.mark.parametrize(("type_", "enough"), [("list", 3), ("summary", 3), ("fact", 4), ("steps", 4)])
def test_of_a_list_or_a_summary_a_part_is_enough(type_, enough):
    words = ["red", "green", "blue", "black"]
    question = replace(FACT, type=type_, required=tuple((word,) for word in words))
    assert [is_right(question, " ".join(words[:count])) for count in range(1, 5)] == [n >= enough for n in range(1, 5)]


@pytest.mark.parametrize(
    "text",
    [
        NO_ANSWER,
        "I could not find that in your documents.",
        "This was not found in your documents.",
        "The lease doesn\u2019t mention a garage.",
        "There is no information about this.",
        "The price is not stated.",
        "None of the passages answers this.",
        "No price is given.",
        "The manual does not give the price.",
        "I can only answer questions about your documents.",
        "Dazu finde ich leider nichts.",
        "Die Satzung nennt keine Namen.",
        "Das steht nicht in Ihren Dokumenten.",
        "Die Abschnitte enthalten dazu keine Angaben.",
        "Der Preis wird nicht genannt.",
        "Dazu wurde in den Unterlagen nichts gefunden.",
    ],
)
def test_declining_is_recognised_and_right_for_refusals_only(text):
    assert is_refusal(text) and is_right(REFUSAL, text)
    assert not is_right(replace(FACT, required=()), text)


@pytest.mark.parametrize(
    "text",
    [
        "Jane Austen wrote it.",
        "No, dogs are not allowed.",
        "It does not include heating.",
        "Der Antrag wurde nicht angenommen.",
    ],
)
def test_an_answer_is_no_refusal(text):
    assert not is_refusal(text) and not is_right(REFUSAL, text)


def test_an_answer_may_end_with_what_the_documents_do_not_say():
    assert is_right(FACT, f"It is 20 m long. {NO_ANSWER}")
    assert not is_right(REFUSAL, f"{NO_ANSWER} It was Austen.")


def test_quotes():
    assert quote_is_right(FACT, ["Other words.", "The length is 20 m."])
    assert not quote_is_right(FACT, ["The length is 120 m."]) and not quote_is_right(FACT, [])
    assert quote_is_right(REFUSAL, []) and not quote_is_right(REFUSAL, ["The length is 20 m."])


def test_calibration_error():
    assert expected_calibration_error([], []) == 0
    assert expected_calibration_error([1.0, 1.0, 0.0], [True, True, False]) == 0
    # bin 0.9 to 1: two answers, 0.95 against 0.5; bin 0.2 to 0.3: one answer, 0.25 against 1
    error = expected_calibration_error([0.95, 0.95, 0.25], [True, False, True])
    assert error == pytest.approx((2 * 0.45 + 0.75) / 3)
    assert expected_calibration_error([0.95, 0.25], [True, False], bins=1) == pytest.approx(0.1)


def test_ids_are_unique_and_both_halves_are_alike():
    assert len({one.id for one in QUESTIONS}) == len(QUESTIONS) == 160
    dev, held = (Counter(one.type for one in load_questions(split=split)) for split in ("dev", "held"))
    assert dev.total() == held.total()
    assert set(dev) == set(held) == set(TYPES) and all(abs(dev[name] - held[name]) <= 1 for name in TYPES)


def test_no_document_serves_both_halves_and_every_document_serves_one():
    dev, held = ({name for one in load_questions(split=split) for name in one.documents} for split in ("dev", "held"))
    assert not dev & held
    assert dev | held == {path.name for path in FILES.iterdir()}


@pytest.mark.parametrize("questions", QUESTIONS_OF.values(), ids=len)
def test_fields_fit_the_type(questions):
    for one in questions:
        answered = one.type not in UNANSWERED
        assert one.language in ("en", "de") and bool(one.history) == (one.type == "followup"), one.id
        assert bool(one.documents) == bool(one.quote) == answered and (one.required or not answered), one.id
        assert not any(contains(text, wrong) for group in one.required for text in group for wrong in one.forbidden)


@lru_cache
def text_of(path):
    """The text of a document, of office files without a parser all XML text; '' of a picture."""
    if path.suffix in (".xlsx", ".pptx"):
        with zipfile.ZipFile(path) as archive:
            parts = [archive.read(part).decode() for part in archive.namelist() if part.endswith(".xml")]
        return re.sub(r"<[^>]*>", " ", " ".join(parts))
    return "" if path.suffix == ".png" else parse(path.read_bytes(), path.name).text


@pytest.mark.slow
@pytest.mark.parametrize(("files", "questions"), QUESTIONS_OF.items(), ids=("own", *SETS))
def test_documents_contain_quotes_and_answers(files, questions):
    for one in questions:
        if one.type not in UNANSWERED:
            check_contained(one, [text for name in one.documents if (text := text_of(files / name))])


def check_contained(one, texts):
    assert not texts or quote_is_right(one, texts)
    if one.type not in ("yes_no", "comparison"):  # those are judgements
        assert all(any(contains(" ".join(texts), text) for text in group) for group in one.required if texts)


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "cannot be read"),
        ("{", "line 1 is not a question"),
        ('\n{"id": "a"}', "line 2 is not a question"),
        ("[]", "with the fields id, split"),
    ],
)
def test_a_damaged_file_of_questions_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "questions.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidArgument, match=message):
        load_questions(path)


def test_a_choice_without_questions_is_refused_before_the_models_are_loaded():
    arguments = _parser().parse_args(["documents", "--types", "facts"])
    with pytest.raises(InvalidArgument, match="no question of this --split"):
        documents.run(arguments)
