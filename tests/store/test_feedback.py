"""Ratings of answers: kept until one of their documents is deleted, also next to damaged ones, and read by bench."""

from dataclasses import replace

import pytest

from bench.data.formats import read_questions
from store import feedback as module
from store.errors import StoreFull
from store.feedback import FILE_NAME, Feedback, RatedPassage, Rating, TooManyRatings

GOOD = Rating("1", 5.0, "Who?", "The boatswain\u2028.", True, "full", (RatedPassage("a", "It was him."),))
BAD = replace(GOOD, id="2", is_good=False, passages=(RatedPassage("b", "Not him."), RatedPassage("c", "But her.")))


@pytest.fixture
def feedback(tmp_path):
    feedback = Feedback(tmp_path / "data")
    feedback.put(GOOD)
    feedback.put(BAD)
    return feedback


def test_ratings_are_read_again_changed_and_withdrawn(feedback, tmp_path):
    assert Feedback(tmp_path / "data").ratings() == [GOOD, BAD]
    feedback.put(replace(GOOD, is_good=False))
    assert feedback.ratings() == [BAD, replace(GOOD, is_good=False)]
    feedback.remove("2")
    feedback.remove("unknown")
    assert [rating.id for rating in feedback.ratings()] == ["1"]


@pytest.mark.parametrize("document, kept", [("a", [BAD]), ("b", [GOOD]), ("c", [GOOD]), ("d", [GOOD, BAD])])
def test_a_rating_is_deleted_with_any_document_of_its_passages(feedback, document, kept, tmp_path):
    feedback.forget(document)
    assert feedback.ratings() == kept
    assert len((tmp_path / "data" / FILE_NAME).read_bytes().splitlines()) == len(kept)


def test_benchmarks_read_the_ratings_whose_right_answer_is_known(feedback, tmp_path):
    path = tmp_path / "ratings.jsonl"
    path.write_text(feedback.export())
    (question,) = read_questions(str(path))[1]
    assert (question.id, question.question, question.answers) == ("1", "Who?", ("The boatswain\u2028.",))
    assert question.passages == ("It was him.",)
    feedback.put(replace(BAD, expected="The cook"))
    path.write_text(feedback.export())
    assert [question.answers for question in read_questions(str(path))[1]][1] == ("The cook",)


def test_a_damaged_line_is_kept_elsewhere_when_the_file_is_written(feedback, tmp_path):
    path = tmp_path / "data" / FILE_NAME
    damaged = path.read_bytes().replace(b'"is_good": true', b'"is_good": tru\xff')
    path.write_bytes(damaged)
    assert feedback.ratings() == [BAD]
    feedback.put(replace(GOOD, id="3"))
    assert [rating.id for rating in feedback.ratings()] == ["2", "3"]
    (aside,) = path.parent.glob(f"{FILE_NAME}.damaged-*")
    assert aside.read_bytes() == damaged


def test_nothing_changes_on_a_full_disk_or_beyond_the_limit(feedback, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "MAX_RATINGS", 2)
    with pytest.raises(TooManyRatings, match="Export them"):
        feedback.put(replace(GOOD, id="3"))
    feedback.put(replace(BAD, expected="The cook"))
    monkeypatch.setattr(module, "write_atomic", full)
    with pytest.raises(StoreFull):
        feedback.put(replace(GOOD, id="1", expected="x"))
    assert [rating.expected for rating in feedback.ratings()] == ["", "The cook"]
