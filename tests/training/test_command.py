"""Run `python -m training` on a saved model and small files, with valid and invalid input."""

import json
import re
import sys

import pytest

from engine.generation.span_scorer import SPAN_SCORER_FILE
from engine.scoring.trained_selector import SELECTOR_FILE
from store.weights_file import QUOTE_ENCODER_FILE
from tests.support import tiny
from tests.support.boats import PARAGRAPHS
from training import __main__ as command
from training.lora import LORA_ADAPTER_FILES
from training.publish import REPORT_FILE


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    decoder = tiny.decoder()
    decoder.model.save_pretrained(folder)
    decoder.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def data(tmp_path):
    rows = [
        {
            "context": paragraph.text,
            "qas": [{"question": question, "answers": [answer]} for question, answer in paragraph.questions],
        }
        for paragraph in PARAGRAPHS * 30
    ]
    (tmp_path / "boats.jsonl").write_text("\n".join(map(json.dumps, rows)))
    notes = (f"{paragraph.text} No question is about this paragraph. " * 2 for paragraph in PARAGRAPHS)
    (tmp_path / "notes.txt").write_text("\n\n".join(notes))
    return tmp_path


@pytest.fixture
def run(monkeypatch, model):
    def run(*words):
        shared = ["--model", str(model), "--dtype", "fp32", "--seed", "3"]
        monkeypatch.setattr(sys, "argv", ["training", *map(str, words), *shared])
        return command.main()

    return run


def test_a_reader_is_trained_reported_and_published(run, data, tmp_path, capsys):
    out, target = tmp_path / "out", tmp_path / "assets"
    words = ["reader", f"{data / 'boats.jsonl'}:2", data / "notes.txt", "--out", out, "--publish-to", target]
    assert run(*words, "--tokens", 300, "--steps", 2, "--eval-examples", 2, "--rank", 2) == 0
    output = capsys.readouterr().out
    assert "Training 2/2" in output and "full prefill" in output and f"Published to {target}" in output
    assert sorted(path.name for path in target.iterdir()) == sorted((*LORA_ADAPTER_FILES, REPORT_FILE))
    assert json.loads((target / REPORT_FILE).read_text())["judged_by"]["materials"]["boats"]["weight"] == 2.0


def test_adapters_are_averaged_and_published(run, data, tmp_path, capsys):
    shared = [data / "boats.jsonl", "--tokens", 300, "--eval-examples", 2, "--rank", 2]
    first, second, mean = tmp_path / "first", tmp_path / "second", tmp_path / "mean"
    assert run("reader", *shared, "--out", first, "--steps", 1) == 0
    assert run("reader", *shared, "--out", second, "--steps", 1, "--init-from", first) == 0
    assert run("average", *shared, "--out", mean, "--adapters", first, second) == 0
    assert "exact answers" in capsys.readouterr().out
    assert len(json.loads((mean / REPORT_FILE).read_text())["averaged"]) == 2


def test_a_selector_is_trained_reported_and_published(run, data, tmp_path, capsys):
    out, target = tmp_path / "out", tmp_path / "assets"
    words = ["selector", data / "boats.jsonl", "--out", out, "--publish-to", target, "--epochs", 1]
    assert run(*words, "--examples", 3, "--eval-examples", 3) == 0
    output = capsys.readouterr().out
    assert "n = " in output and "last layer" in output and f"Published to {target}" in output
    assert sorted(path.name for path in target.iterdir()) == sorted((SELECTOR_FILE, REPORT_FILE))


@pytest.mark.parametrize(
    ("kind", "file", "said"),
    [
        ("span-scorer", SPAN_SCORER_FILE, "Right outcome"),
        ("quote-encoder", QUOTE_ENCODER_FILE, "Closest unit is right"),
    ],
)
def test_an_encoder_is_trained_reported_and_published(run, data, tmp_path, capsys, kind, file, said):
    out, target = tmp_path / "out", tmp_path / "assets"
    words = [kind, data / "boats.jsonl", "--out", out, "--publish-to", target]
    assert run(*words, "--steps", 3, "--eval-examples", 3) == 0
    output = capsys.readouterr().out
    assert "Training 3/3" in output and said in output and f"Published to {target}" in output
    assert sorted(path.name for path in target.iterdir()) == sorted((file, REPORT_FILE))


@pytest.mark.parametrize(
    ("former", "current"),
    [
        (
            "reader d --out o --lessons 5 --judged 6 --plain 0.5 --rate=0.1 --start s --ship a",
            "reader d --out o --steps 5 --eval-examples 6 --full-prefill-fraction 0.5 --lr=0.1 --init-from s"
            " --publish-to a",
        ),
        ("average d --out o --of a b --judged 6", "average d --out o --adapters a b --eval-examples 6"),
        (
            "selector d --out o --lessons 5 --rounds 2 --rate 0.1 --reader off",
            "selector d --out o --examples 5 --epochs 2 --lr 0.1 --lora-adapter off",
        ),
        ("pointer d --out o --lessons 5 --rate 0.1", "span-scorer d --out o --steps 5 --lr 0.1"),
    ],
)
def test_former_names_still_work_and_are_not_in_the_help(former, current, capsys):
    assert command.parse(former.split()) == command.parse(current.split())
    with pytest.raises(SystemExit):
        command.parse([former.split()[0], "--help"])
    help_text = capsys.readouterr().out
    assert not any(re.search(rf"{name}\b", help_text) for name in command.FORMER_OPTIONS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reader", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["reader", "{data}/boats.jsonl:0"], "must be above 0"),
        (["reader", "{data}/boats.jsonl", "--tokens", "4000"], "lower --tokens"),
        (["selector", "{data}/boats.jsonl", "--lora-adapter", "{data}"], "adapter in .* cannot be read"),
    ],
)
def test_invalid_input_is_reported_in_one_sentence_without_traceback(run, data, tmp_path, capsys, words, message):
    assert run(*(word.format(data=data) for word in words), "--out", tmp_path / "out") == 1
    output = capsys.readouterr().err
    assert "Traceback" not in output and re.search(message, output)
