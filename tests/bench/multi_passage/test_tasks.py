"""Files and arguments that do not fit a task are rejected, and the command line runs every task."""

import json
from itertools import islice
from pathlib import Path

import pytest

from bench.errors import InvalidArgument, InvalidDataset
from bench.measures import quality
from bench.multi_passage.facts import TwoFacts, fact_items
from bench.multi_passage.tasks import TASKS, open_source
from tests.bench.multi_passage.conftest import count_tokens


@pytest.mark.parametrize("task", TASKS)
def test_every_task_gives_rows_that_name_file_and_task(task, engine, arguments):
    rows = quality.run(arguments("--task", task, "--passages", "2"))
    assert [(row["task"], row["method"], row["n"]) for row in rows] == [
        (f"ships {task}", method, 1) for method in ("full", "direct")
    ]
    assert all(row["left_out"] == 0 for row in rows)


def test_dropped_passages_are_reported(engine, arguments):
    (row, _) = quality.run(arguments("--task", "hops", "--passages", "4", "--context-lengths", "900"))
    assert row["left_out"] == 1 and row["context_tokens"] <= 900


@pytest.mark.parametrize(
    "own, said",
    [
        (["--task", "jumps"], "'jumps' is not one of split, hops, table, defined"),
        (["--task", "split", "--absent"], "--absent does not go with --task"),
        (["--task", "hops", "--passages", "1"], "--passages of at least 2, not 1"),
        (["--task", "split", "--passages", "41"], "has 40 usable paragraphs .* fewer --passages than 41"),
        (["--task", "table", "--passages", "41"], "has 40 usable paragraphs .* fewer --passages than 41"),
    ],
)
def test_wrong_arguments_are_reported_before_the_models_are_loaded(own, said, arguments, monkeypatch):
    monkeypatch.setattr(quality, "engine_of", None)
    with pytest.raises(InvalidArgument, match=said):
        quality.run(arguments(*own))


def test_a_file_without_questions_or_with_whole_documents_only_is_rejected(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"question": "Who?", "answers": ["Ann"], "context": "Ann. " * 1000}))
    with pytest.raises(InvalidArgument, match="0 usable paragraphs"):
        open_source("hops", str(path), 2, 0)
    assert open_source("split", str(path), 2, 0).questions
    path.write_text(json.dumps({"question": "Who?", "answers": [], "context": "Ann."}))
    with pytest.raises(InvalidDataset, match="no question with an answer"):
        open_source("split", str(path), 2, 0)


def test_paragraphs_that_contain_a_drawn_name_are_not_used(make, tmp_path, squad):
    (item,) = make("hops", 1)
    clashing = {"context": f"{item.answers[0]} is here.", "qas": [{"question": "Who?", "answers": ["he"]}]}
    rows = [json.dumps(clashing | {"title": f"{number}"}) for number in range(200)]
    path = tmp_path / "ships.jsonl"
    path.write_text("\n".join([Path(squad).read_text(), *rows]))
    (again,) = make("hops", 1, file=str(path))
    assert again.question == item.question
    assert not any(" is here." in passage for passage in again.passages)


@pytest.mark.parametrize("subjects, letters, allowed", [(100, "abc", 0), (6, "efghijk", 6)])
def test_a_file_that_clashes_with_all_names_and_a_task_without_more_questions_are_reported(
    subjects, letters, allowed, make, tmp_path
):
    """Every paragraph contains the letters a to c; six subjects give six questions."""
    path = tmp_path / "letters.jsonl"
    rows = [{"context": f"a b c {n}", "qas": [{"question": "Who?", "answers": ["a"]}]} for n in range(3)]
    path.write_text("\n".join(map(json.dumps, rows)))
    facts = TwoFacts(
        lambda rng: (f"cup {rng.randrange(subjects)}", f"mill {rng.random()}", rng.choice(letters)),
        ("{subject} is in {bridge}.",),
        ("{bridge} is {answer}.",),
        "Where is {subject}?",
    )
    source = open_source("hops", str(path), 2, 0)
    items = fact_items("hops", lambda rng: facts.sample(rng, second_comes_first=False), source, count_tokens)
    assert len(list(islice(items, allowed))) == allowed
    with pytest.raises(InvalidArgument, match=f"allows no more than {allowed} questions of hops. Give fewer"):
        next(items)


def test_a_file_whose_answers_are_all_cut_in_two_is_rejected(engine, arguments, tmp_path):
    text = "so it is " * 200
    path = tmp_path / "torn.jsonl"
    path.write_text(json.dumps({"question": "Is it?", "answers": [text.strip()], "passages": [{"text": text}]}))
    wanted = arguments("--task", "split")
    wanted.files = [str(path)]
    with pytest.raises(InvalidDataset, match="no question whose answer fits into a passage of split"):
        quality.run(wanted)
