"""Split: the same questions over the same text, in short parts."""

import json
import re
from collections import Counter
from random import Random

import pytest

from bench.data.dataset import load_items
from bench.multi_passage.split import cut
from tests.bench.multi_passage.conftest import count_tokens


def words(texts):
    return Counter(word for text in texts for word in text.split())


@pytest.mark.parametrize("passages", [2, 8])
def test_all_text_is_kept_in_parts_of_at_most_100_tokens(passages, make, squad):
    items = make("split", None, passages)
    originals = load_items(squad, passages, 0, None)
    assert [item.id for item in items] == [item.id for item in originals] and len(items) == 80
    for item, original in zip(items, originals, strict=True):
        lengths = [count_tokens(part) for part in item.passages]
        assert max(lengths) <= 100 and min(lengths) >= 40
        assert words(item.passages) == words(original.passages)
        assert len(item.passages) > passages
        assert (item.question, item.answers, item.group) == (original.question, original.answers, "ships split")


def test_parts_end_with_sentences_and_their_lengths_vary(make):
    parts = [part for item in make("split", 40) for part in item.passages]
    assert all(part.endswith(".") and not part.endswith(("Dr.", "J.")) for part in parts)
    assert len({count_tokens(part) for part in parts}) > 2


def test_one_part_holds_the_answer_and_the_name_in_the_question_is_often_in_another(make):
    apart = 0
    for item in make("split", None):
        (answer,) = item.answers
        (gold,) = [part for part in item.passages if re.search(rf"\b{answer}\b", part)]
        boat = re.search(r"(\w+)(\?| cost)", item.question)[1]
        apart += f"The {boat} sailed" not in gold
    assert 40 <= apart < 80


def test_parts_are_shuffled_among_those_of_other_paragraphs(make):
    neighbours = 0
    for item in make("split", 20):
        starts = [number for number, part in enumerate(item.passages) if part.startswith("Ship ")]
        assert len(starts) == 8
        neighbours += starts == list(range(starts[0], starts[0] + 16, 2))
    assert neighbours == 0
    assert len({tuple(part[:9] for part in item.passages) for item in make("split", 20)}) == 20


def test_an_item_does_not_depend_on_how_many_are_made(make):
    assert make("split", 5) == make("split", None)[:5]
    assert [item.id for item in make("split", 5, seed=1)] != [item.id for item in make("split", 5)]


def test_passages_of_a_row_are_cut_too_and_a_question_whose_answer_is_torn_is_left_out(make, tmp_path):
    long = " ".join(f"word{number}" for number in range(150))  # no sentence ends: cut at a space in the middle
    rows = [
        {"id": "kept", "question": "Which?", "answers": ["word3"], "passages": [{"title": "A", "text": long}]},
        {"id": "torn", "question": "What?", "answers": [long], "passages": [{"title": "A", "text": long}]},
        {"id": "yes", "question": "Is it?", "answers": ["yes"], "passages": [{"title": "B", "text": "So it is."}]},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    items = {item.id: item for item in make("split", None, file=str(path))}
    assert set(items) == {"kept", "yes"}
    assert len(items["kept"].passages) == 2 and words(items["kept"].passages) == words([f"A {long}"])
    assert items["yes"].passages == ("B\nSo it is.",)


def test_a_long_sentence_without_spaces_is_cut_too():
    parts = cut("\u6e2f" * 450 + "\u3002", len, Random(0))
    assert "".join(parts) == "\u6e2f" * 450 + "\u3002" and max(map(len, parts)) <= 100
