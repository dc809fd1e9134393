"""Every format as it is published becomes items; bad files are reported with the line."""

import json
import sys

import pytest

from bench.data.dataset import load_items
from bench.errors import DatasetsMissing, InvalidDataset

PASSAGES = {
    "id": "h1",
    "question": "Who wrote it?",
    "answers": ["Ann"],
    "passages": [{"title": "Book", "text": "Ann wrote it.", "gold": True}, {"title": "", "text": "It rains."}],
}
LONG = {"id": "z1", "question": "\u8c01\u5199\u7684\uff1f", "answers": ["\u5b89"], "context": "one\ntwo\nthree"}
LONGBENCH = {
    "input": "Who wrote it?",
    "context": "one\ntwo",
    "answers": ["Ann", "Ann B."],
    "dataset": "qasper",
    "language": "en",
    "_id": "b1",
    "all_classes": None,
    "length": 2,
}
HOTPOT = {
    "_id": "p1",
    "question": "Who wrote it?",
    "answer": "Ann",
    "context": [["Book", ["Ann wrote it.", " In May."]], ["Rain", ["It rains."]]],
    "supporting_facts": [["Book", 0]],
    "type": "bridge",
    "level": "hard",
}
HUB_HOTPOT = {
    "id": "p1",
    "question": "Who wrote it?",
    "answer": "Ann",
    "context": {"title": ["Book", "Rain"], "sentences": [["Ann wrote it.", " In May."], ["It rains."]]},
}
HOTPOT_PASSAGES = ("Book\nAnn wrote it. In May.", "Rain\nIt rains.")


def paragraphs(count):
    """Paragraph n says 'word n'; two more hold everybody's answers, and a question of their own each."""
    rows = [
        {
            "title": "Some_Town",
            "context": f"Here is word{n}.",
            "qas": [{"id": f"q{n}", "question": f"Which word is {n}?", "answers": [f"word{n}"]}],
        }
        for n in range(100, 100 + count)
    ]
    everything = " ".join(f"word{n}" for n in range(100, 100 + count))
    for end in ("first", "last"):
        asked = {"id": end, "question": "Which list?", "answers": [end]}
        rows.append({"context": f"The {end} list: {everything}", "qas": [asked]})
    return rows


def write(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return str(path)


def one(path, rows):
    (item,) = load_items(write(path, rows), 4, 0, None)
    return item


def test_passages_stay_as_they_are_with_their_titles_above(tmp_path):
    item = one(tmp_path / "multi.jsonl", [PASSAGES])
    assert item.passages == ("Book\nAnn wrote it.", "It rains.")
    assert (item.id, item.question, item.answers, item.group, item.metric) == (
        "h1",
        "Who wrote it?",
        ("Ann",),
        "multi",
        "f1",
    )


def test_a_long_context_is_one_passage_and_a_chinese_question_is_scored_in_chinese(tmp_path):
    item = one(tmp_path / "long.jsonl", [LONG])
    assert item.passages == ("one\ntwo\nthree",)
    assert item.metric == "f1_zh"


def test_all_questions_of_a_file_are_scored_alike(tmp_path):
    """One whose answer is in Latin letters had a metric of its own, and the rows of the file fell apart over it."""
    latin = {**LONG, "id": "latin", "question": "SmolLM2?", "answers": ["SmolLM2-135M-Instruct"]}
    items = load_items(write(tmp_path / "zh.jsonl", [{**LONG, "id": f"{n}"} for n in range(20)] + [latin]), 4, 0, None)
    assert len(items) == 21 and {item.metric for item in items} == {"f1_zh"}


def test_longbench_is_read_as_published(tmp_path):
    item = one(tmp_path / "qasper.jsonl", [LONGBENCH])
    assert (item.id, item.passages, item.answers, item.group) == ("b1", ("one\ntwo",), ("Ann", "Ann B."), "qasper")


@pytest.mark.parametrize("row", [HOTPOT, HUB_HOTPOT])
def test_hotpot_is_read_as_published(tmp_path, row):
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps([row], indent=1))
    (item,) = load_items(str(path), 4, 0, None)
    assert (item.id, item.passages, item.answers) == ("p1", HOTPOT_PASSAGES, ("Ann",))


@pytest.mark.parametrize("indent", [None, 1])
def test_squad_is_read_as_published_without_impossible_questions(tmp_path, indent):
    answerable = {
        "id": "a",
        "question": "Where?",
        "answers": [{"text": "Rome", "answer_start": 3}],
        "is_impossible": False,
    }
    impossible = {"id": "b", "question": "When?", "answers": [], "is_impossible": True, "plausible_answers": []}
    paragraph = {"context": "In Rome.", "qas": [answerable, impossible]}
    path = tmp_path / "dev-v2.0.json"
    path.write_text(
        json.dumps({"version": "v2.0", "data": [{"title": "Old_Rome", "paragraphs": [paragraph]}]}, indent=indent)
    )
    (item,) = load_items(str(path), 4, 0, None)
    assert (item.id, item.passages, item.answers) == ("a", ("Old Rome\nIn Rome.",), ("Rome",))


def test_the_gold_paragraph_is_among_distractors(tmp_path):
    items = load_items(write(tmp_path / "squad.jsonl", paragraphs(12)), 4, 0, None)
    assert len(items) == 14
    for item in items:
        assert len(set(item.passages)) == 4
        assert [item.answers[0] in passage for passage in item.passages].count(True) == 1
    places = {next(n for n, text in enumerate(i.passages) if i.answers[0] in text) for i in items}
    assert len(places) > 1


def test_the_paragraph_that_answers_can_be_left_out(tmp_path):
    source = write(tmp_path / "squad.jsonl", paragraphs(12))
    present, absent = (load_items(source, 4, 0, None, absent=left_out) for left_out in (False, True))
    for one, other in zip(present, absent, strict=True):
        assert (other.question, other.answers, other.metric) == (one.question, (), "not_there")
        assert len(set(other.passages)) == 4 and other.group != one.group
        assert not any(one.answers[0] in passage for passage in other.passages)


def test_a_question_with_passages_of_its_own_keeps_them_all(tmp_path):
    with pytest.raises(InvalidDataset, match="no gold paragraph to leave out"):
        load_items(write(tmp_path / "own.jsonl", [PASSAGES]), 4, 0, None, absent=True)


def test_paragraphs_that_hold_the_answer_fill_up_when_no_others_are_left(tmp_path):
    rows = [
        {"context": f"{place} is wet.", "qas": [{"question": f"What is {place}?", "answers": ["wet"]}]}
        for place in ("Rome", "Oslo", "Bath")
    ]
    for item in load_items(write(tmp_path / "wet.jsonl", rows), 5, 0, None):
        assert sorted(item.passages) == ["Bath is wet.", "Oslo is wet.", "Rome is wet."]


def test_a_small_sample_is_the_start_of_a_large_one_and_a_seed_gives_another(tmp_path):
    source = write(tmp_path / "squad.jsonl", paragraphs(30))
    every = load_items(source, 4, 0, None)
    assert load_items(source, 4, 0, 7) == every[:7]
    assert load_items(source, 4, 0, 99) == every
    other = load_items(source, 4, 1, None)
    assert {item.id for item in other} == {item.id for item in every}
    assert [item.id for item in other] != [item.id for item in every]


def test_questions_without_ids_or_with_the_same_id_get_ids_of_their_own(tmp_path):
    bare = {key: value for key, value in PASSAGES.items() if key != "id"}
    items = load_items(write(tmp_path / "bare.jsonl", [bare, bare, PASSAGES, PASSAGES]), 4, 0, None)
    assert len({item.id for item in items}) == 4


def test_blank_lines_are_fine_and_equal_answers_count_once(tmp_path):
    path = tmp_path / "blank.jsonl"
    path.write_text("\n" + json.dumps({**PASSAGES, "answers": ["Ann", " Ann ", "", "B"]}) + "\n\n  \n")
    (item,) = load_items(str(path), 4, 0, None)
    assert item.answers == ("Ann", "B")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        (json.dumps(PASSAGES) + "\n\n{torn\n", "line 3 is not JSON"),
        (json.dumps(PASSAGES) + "\n[1]\n", "line 2 is not a JSON object"),
        (json.dumps(PASSAGES) + '\n{"question": "Why?", "text": "So."}\n', "line 2 has an unknown format"),
        ('[{"question": 1}', "not JSON"),
        (json.dumps({**PASSAGES, "passages": ["bare"]}) + "\n" + json.dumps(PASSAGES), "line 1 looks like passages"),
        (json.dumps({**PASSAGES, "passages": []}), "looks like passages"),
        (json.dumps({**PASSAGES, "answers": 3}), "looks like passages"),
        (json.dumps({**LONG, "context": " "}), "looks like context"),
        (json.dumps({**PASSAGES, "answers": []}), "no question with an answer"),
        (json.dumps({"data": [{"title": "x"}]}), "not SQuAD's"),
    ],
)
def test_the_error_for_a_bad_file_has_its_name_and_line(tmp_path, text, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidDataset, match=message) as caught:
        load_items(str(path), 4, 0, None)
    assert str(path) in str(caught.value)
    assert caught.value.hint in str(caught.value)


def test_the_error_for_an_unknown_row_lists_its_fields_and_the_formats(tmp_path):
    with pytest.raises(
        InvalidDataset, match=r"its fields are why, so; known formats: passages \+ question \+ answers; context"
    ):
        load_items(write(tmp_path / "odd.jsonl", [{"why": 1, "so": 2}]), 4, 0, None)


def test_binary_files_and_folders_are_rejected(tmp_path):
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00{")
    for bad in (binary, tmp_path):
        with pytest.raises(InvalidDataset, match="cannot be read"):
            load_items(str(bad), 4, 0, None)


@pytest.mark.parametrize("name", ["nowhere.jsonl", "no/where.json", "/no/where", "bench/where", "word"])
def test_a_missing_file_is_no_name_on_the_hub(name):
    with pytest.raises(InvalidDataset, match=f"no file {name}"):
        load_items(name, 4, 0, None)


def test_a_hub_name_without_the_datasets_library_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DatasetsMissing, match="pip install datasets"):
        load_items("rajpurkar/squad", 4, 0, None)


class Hub:
    """Stands in for the library `datasets`: one data set with two splits."""

    def __init__(self, **splits):
        self.splits, self.asked = splits, []

    def load_dataset(self, name, config, split):
        self.asked.append((name, config, split))
        return self.splits[split] if split else self.splits


SQUAD = [{"id": "s", "title": "Rome", "context": "In Rome.", "question": "Where?", "answers": {"text": ["Rome"]}}]


def test_a_name_on_the_hub_is_fetched_with_its_configuration_and_split(monkeypatch):
    hub = Hub(train=[], validation=SQUAD, test=[HUB_HOTPOT])
    monkeypatch.setitem(sys.modules, "datasets", hub)
    (item,) = load_items("rajpurkar/squad", 4, 0, None)
    assert (item.id, item.passages, item.answers, item.group) == ("s", ("Rome\nIn Rome.",), ("Rome",), "squad")
    (item,) = load_items("hotpot/hotpot_qa:distractor:test", 4, 0, None)
    assert (item.passages, item.group) == (HOTPOT_PASSAGES, "hotpot_qa:distractor")
    assert hub.asked == [("rajpurkar/squad", None, None), ("hotpot/hotpot_qa", "distractor", "test")]


def test_the_hubs_error_is_shown(monkeypatch):
    class Refusing:
        def load_dataset(self, name, config, split):
            raise ConnectionError("offline")

    monkeypatch.setitem(sys.modules, "datasets", Refusing())
    with pytest.raises(InvalidDataset, match=r"owner/name cannot be loaded from the hub: offline"):
        load_items("owner/name", 4, 0, None)


def test_sentences_without_a_space_between_them_get_one(tmp_path):
    """2WikiMultihopQA's sentences have none at their ends."""
    row = {**HOTPOT, "context": [["Book", ["Ann wrote it.", "In May.", "", " It rains. ", "Still."]]]}
    assert one(tmp_path / "wiki.jsonl", [row]).passages == ("Book\nAnn wrote it. In May. It rains. Still.",)


def test_no_paragraph_with_the_answer_stands_where_the_correct_answer_is_that_there_is_none(tmp_path):
    rows = [
        {
            "context": f"Tower {n} was built in {year}.",
            "qas": [{"question": f"When was tower {n} built?", "answers": [year]}],
        }
        for n, year in enumerate(("1921", "1921", "1930"))
    ]
    items = load_items(write(tmp_path / "towers.jsonl", rows), 3, 0, None, absent=True)
    passages = {item.question: item.passages for item in items}
    assert passages["When was tower 0 built?"] == ("Tower 2 was built in 1930.",)
    assert len(passages["When was tower 2 built?"]) == 2
    with pytest.raises(InvalidDataset, match="larger file"):
        load_items(write(tmp_path / "towers.jsonl", rows[:2]), 3, 0, None, absent=True)
