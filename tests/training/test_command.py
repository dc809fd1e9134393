"""`python -m training` as a person runs it: on a saved model and files of their own, and with wrong input."""

import json
import re
import sys

import pytest

from engine.generation.span_scorer import SPAN_SCORER_FILE
from engine.scoring.trained_selector import FILE
from tests.support import tiny
from tests.training.data.test_examples import PARAGRAPHS
from training import __main__ as command
from training.lora import FILES
from training.publish import REPORT


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    made = tiny.decoder()
    made.model.save_pretrained(folder)
    made.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def data(tmp_path):
    rows = [
        {"context": one.text, "qas": [{"question": question, "answers": [answer]} for question, answer in one.asked]}
        for one in PARAGRAPHS * 30
    ]
    (tmp_path / "boats.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "notes.txt").write_text(
        "\n\n".join(f"{one.text} Nobody asks about this one. " * 2 for one in PARAGRAPHS)
    )
    return tmp_path


@pytest.fixture
def run(monkeypatch, model):
    def run(*words):
        given = ["training", *map(str, words), "--model", str(model), "--dtype", "fp32", "--seed", "3"]
        monkeypatch.setattr(sys, "argv", given)
        return command.main()

    return run


def test_a_reader_is_trained_reported_and_shipped(run, data, tmp_path, capsys):
    out, target = tmp_path / "out", tmp_path / "assets"
    words = ["reader", f"{data / 'boats.jsonl'}:2", data / "notes.txt", "--out", out, "--ship", target, "--tokens", 300]
    assert run(*words, "--lessons", 2, "--judged", 2, "--rank", 2) == 0
    said = capsys.readouterr().out
    assert "Training 2/2" in said and "full prefill" in said and "has it now" in said
    assert sorted(path.name for path in target.iterdir()) == sorted((*FILES, REPORT))
    assert json.loads((target / REPORT).read_text())["judged_by"]["materials"]["boats"]["weight"] == 2.0


def test_a_selector_is_trained_reported_and_shipped(run, data, tmp_path, capsys):
    out, target = tmp_path / "out", tmp_path / "assets"
    words = ["selector", data / "boats.jsonl", "--out", out, "--ship", target, "--rounds", 1]
    assert run(*words, "--lessons", 3, "--judged", 3) == 0
    said = capsys.readouterr().out
    assert "n = " in said and "last layer" in said and "has it now" in said
    assert sorted(path.name for path in target.iterdir()) == sorted((FILE, REPORT))


def test_a_pointer_is_trained_reported_and_shipped(run, data, tmp_path, capsys):
    out, target = tmp_path / "out", tmp_path / "assets"
    words = ["pointer", data / "boats.jsonl", "--out", out, "--ship", target]
    assert run(*words, "--lessons", 3, "--judged", 3) == 0
    said = capsys.readouterr().out
    assert "Training 3/3" in said and "Points at the answer" in said and "has it now" in said
    assert sorted(path.name for path in target.iterdir()) == sorted((SPAN_SCORER_FILE, REPORT))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reader", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["reader", "{data}/boats.jsonl:0"], "must be above 0"),
        (["reader", "{data}/boats.jsonl"], "lower --tokens"),
        (["selector", "{data}/boats.jsonl", "--reader", "{data}"], "adapter in .* cannot be read"),
    ],
)
def test_wrong_input_is_one_sentence_and_no_traceback(run, data, tmp_path, capsys, words, said):
    tokens = ["--tokens", "4000"] if "lower" in said else []
    assert run(*(word.format(data=data) for word in words), "--out", tmp_path / "out", *tokens) == 1
    told = capsys.readouterr().err
    assert "Traceback" not in told and re.search(said, told)
