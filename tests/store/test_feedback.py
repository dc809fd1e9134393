"""Ratings of answers: kept until one of their documents is deleted, also next to damaged ones, and read by bench."""

from dataclasses import replace

import pytest

from bench.data.formats import read_questions
from store import feedback as module
from store.errors import StoreFull
from store.feedback import FILE_NAME, Feedback, RatedPassage, Rating, RatingsUnreadable, TooManyRatings

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


def test_deleting_a_document_leaves_nothing_of_it_in_damaged_lines_copies_and_drafts(feedback, tmp_path):
    path = tmp_path / "data" / FILE_NAME
    path.write_bytes(path.read_bytes() + b'{"id": "3", "text": "It was him.\n')
    feedback.put(replace(BAD, id="4"))  # keeps the damaged file
    path.with_name(f"{FILE_NAME}.draft").write_text("It was him.")
    path.write_bytes(path.read_bytes() + b"It was him")
    feedback.forget("a")
    assert [rating.id for rating in feedback.ratings()] == ["2", "4"]
    assert not [each for each in path.parent.iterdir() if b"It was him" in each.read_bytes()]


def test_a_right_answer_is_added_to_existing_ratings_only_and_half_characters_do_no_damage(feedback):
    assert feedback.expect("2", "The cook \ud800").expected == "The cook \ud800"
    assert feedback.ratings()[1].expected == "The cook ?" and feedback.find_damage() == ""
    feedback.forget("b")
    assert feedback.expect("2", "The cook") is None and feedback.ratings() == [GOOD]


def test_a_file_that_cannot_be_read_is_not_replaced(tmp_path):
    (tmp_path / FILE_NAME).mkdir()
    for use in (
        Feedback(tmp_path).ratings,
        lambda: Feedback(tmp_path).put(GOOD),
        lambda: Feedback(tmp_path).forget("a"),
    ):
        with pytest.raises(RatingsUnreadable, match="Make the file readable"):
            use()


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
