"""The bench's arithmetic, and the shape of the rows that other programs read."""

import json
import random
import sys
import time
from types import SimpleNamespace

import pytest

from bench import tables
from bench.__main__ import _parser, main
from bench.bootstrap import median_interval
from bench.commands import MEASURES
from bench.errors import InvalidArgument
from bench.harness.workload import CHUNK_TOKENS, make_paragraph
from bench.measures import concurrency, ingest, uploads
from store.data_folder import default_data_folder
from store.ingest import parse_steps
from tests.support import tiny
from tests.support.doubles import TEXTS
from tests.support.fakes import WordEmbedder
from tests.support.files import pdf


def test_the_interval_holds_the_median_and_is_a_point_for_equal_values():
    low, high = median_interval([1.0, 2.0, 3.0, 4.0, 100.0])
    assert low <= 3.0 <= high
    assert median_interval([2.5, 2.5, 2.5]) == (2.5, 2.5)


def test_operations_count_every_weight_and_every_seen_key_twice_and_four_times():
    decoder = tiny.decoder()
    rows, keys = 10, 55  # ten rows of a causal prompt see 1 + 2 + ... + 10 keys
    weights = sum(w.numel() for n, w in decoder.model.named_parameters() if "layers" in n and w.ndim == 2)
    attention = 4 * keys * decoder.spec.num_heads * decoder.spec.head_dim * decoder.spec.num_layers
    counted = decoder.spec.flops(rows, keys)
    assert counted == pytest.approx(2 * rows * weights + attention, rel=0.02)  # norms are counted, and tiny


def test_a_paragraph_fills_a_chunk_almost():

    tokenizer = tiny.tokenizer().backend_tokenizer
    tokens = len(tokenizer.encode(make_paragraph(random.Random(0), tokenizer), add_special_tokens=False).ids)
    assert CHUNK_TOKENS - 20 <= tokens <= CHUNK_TOKENS - 4


@pytest.mark.slow
@pytest.mark.embedded
def test_ttft_writes_the_rows_that_other_programs_read(models, tmp_path, monkeypatch):
    target = tmp_path / "rows.json"
    wanted = ["ttft", "--lengths", "512", "--ratios", "0.2", "1.0", "--samples", "1"]
    wanted += ["--methods", "cacheclip", "direct", "--json", str(target), "--data", str(default_data_folder())]
    monkeypatch.setattr(sys, "argv", ["bench", *wanted])
    assert main() == 0
    rows = json.loads(target.read_text())
    assert [(row["method"], row["ratio"]) for row in rows] == [("cacheclip", 0.2), ("cacheclip", 1.0), ("direct", 0.0)]
    for row in rows:
        assert {"realised_ratio", "length", "ttft_ms", "full_ttft_ms", "speedup", "floor_speedup"} <= row.keys()
        assert row["speedup"] == pytest.approx(row["full_ttft_ms"] / row["ttft_ms"])
    assert rows[1]["realised_ratio"] == 1.0 and rows[1]["floor_speedup"] == pytest.approx(1.0, rel=0.2)
    assert rows[2]["realised_ratio"] == 0.0 and rows[2]["floor_speedup"] > 5


@pytest.mark.slow
@pytest.mark.embedded
def test_a_verified_draft_is_the_bundled_models_answer_without_a_draft(models, tmp_path, monkeypatch):
    questions, target = tmp_path / "questions.jsonl", tmp_path / "rows.json"
    passages = [{"text": text} for text in TEXTS.values()]
    answers = {"What is the maintenance code?": "5663623"}
    rows = [{"question": key, "answers": [value], "passages": passages} for key, value in answers.items()]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    wanted = ["draft", str(questions), "--methods", "full", "cacheclip-trained", "--dtype", "fp32"]
    wanted += ["--no-grounded-decoding", "--json", str(target), "--data", str(default_data_folder())]
    monkeypatch.setattr(sys, "argv", ["bench", *wanted])
    assert main() == 0
    full, trained = json.loads(target.read_text())
    assert (full["method"], trained["method"], trained["ratio"]) == ("full", "cacheclip-trained", 0.2)
    for row in (full, trained):
        assert row["identical"] == 1.0 and row["n"] == len(answers)
        assert 0 < row["draft_ms"] < row["ttft_ms"] < row["total_ms"]


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.parametrize("selector, ways", [("auto", ["apart", "joined", "trained"]), ("off", ["apart", "joined"])])
def test_scoring_times_every_score_mode(selector, ways, models, tmp_path, monkeypatch):
    target = tmp_path / "rows.json"
    wanted = ["scoring", "--lengths", "512", "--samples", "1", "--selector", selector]
    monkeypatch.setattr(sys, "argv", ["bench", *wanted, "--json", str(target), "--data", str(default_data_folder())])
    assert main() == 0
    rows = json.loads(target.read_text())
    assert [row["scoring"] for row in rows] == ways and rows[0]["of_apart"] == 1.0
    for row in rows[1:]:
        assert row["of_apart"] == pytest.approx(row["scoring_ms"] / rows[0]["scoring_ms"])


def test_ingest_counts_pages_and_recognized_pages_of_each_readable_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ingest, "parse_isolated", parse_steps)  # in this process
    monkeypatch.setattr("store.ingest.ocr.available", lambda: True)
    monkeypatch.setattr("store.ingest.ocr.recognize", lambda image: ["heron"])
    monkeypatch.setattr(ingest, "resolve", lambda name, folder: folder)
    monkeypatch.setattr(ingest.AutoTokenizer, "from_pretrained", lambda folder: tiny.tokenizer())
    monkeypatch.setattr(ingest, "MiniLM", lambda dtype: WordEmbedder())
    for name, content in {"a.pdf": pdf("the tern", "", "fly"), "b.txt": b"the tern", "c.txt": b""}.items():
        (tmp_path / name).write_bytes(content)
    target = tmp_path / "out" / "rows.json"
    monkeypatch.setattr(sys, "argv", ["bench", "ingest", str(tmp_path), "--num-samples", "2", "--json", str(target)])
    assert main() == 0
    scan, text = json.loads(target.read_text())
    assert (scan["file"], scan["format"], scan["pages"], scan["ocr_pages"], scan["n"]) == ("a.pdf", "pdf", 3, 1, 2)
    assert scan["ms_per_page"] == pytest.approx(scan["parse_ms"] / 3)
    assert (text["file"], text["pages"], text["characters"], text["chunks"]) == ("b.txt", None, 8, 1)
    assert "c.txt is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command, said",
    [
        (["quality", "squad.json"], "to resume"),
        (["ruler"], "to resume"),
        (["attention", "squad.json"], "to resume"),
        (["ttft"], "starts over"),
        (["decode"], "starts over"),
        (["ingest", "files"], "starts over"),
        (["tiers"], "starts over"),
        (["scoring"], "starts over"),
        (["cache"], "starts over"),
    ],
)
def test_an_interrupted_run_says_whether_it_goes_on_where_it_stopped(command, said, monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["bench", *command])
    monkeypatch.setattr(MEASURES[command[0]], "run", interrupted)
    assert main() == 130
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong, said",
    [
        (["--lengths", "8"], "at least 128"),
        (["--methods", "none"], "not one of cacheclip"),
        (["--ratios", "1.5"], "not a number between 0 and 1"),
        (["--samples", "64"], "at most 63"),
        (["--json", "/"], "cannot be written"),
        (["--json", "/dev/null/rows.json"], "cannot be written"),
    ],
)
def test_wrong_arguments_end_with_a_sentence(wrong, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", "ttft", *wrong, "--data", str(tmp_path)])
    try:
        status = main()
    except SystemExit as ended:  # argparse ends like this
        status = ended.code
    assert status != 0 and said in capsys.readouterr().err


def test_rows_that_cannot_be_written_in_the_end_end_with_a_sentence_too(tmp_path, monkeypatch, capsys):
    def run(arguments):
        arguments.json.mkdir()  # meanwhile somebody took the name
        return [{"method": "full", "n": 3}]

    monkeypatch.setattr(sys, "argv", ["bench", "ttft", "--json", str(tmp_path / "rows.json")])
    monkeypatch.setattr(MEASURES["ttft"], "run", run)
    assert main() == 1
    out, err = capsys.readouterr()
    assert "full" in out and "rows.json" in err and "Traceback" not in err


def test_a_narrow_terminal_shows_every_figure_and_leaves_out_intervals(monkeypatch, capsys):
    figures = {"ratio": 0.213, "quality": 0.587, "kl": 0.092, "answer_kl": 0.033, "top1": 0.86, "n": 1234}
    row = {"task": "niah_multivalue", "method": "cacheclip-trained", **figures, "kl_low": 0.044, "kl_high": 0.155}
    columns = {name: name for name in row if not name.endswith(("low", "high"))}
    for width, intervals in ((200, True), (78, False)):
        monkeypatch.setattr(tables, "PIPED_WIDTH", width)
        tables.print_table("a table", columns, [row])
        shown = capsys.readouterr().out
        assert all(str(figure) in shown for figure in figures.values())
        assert ("0.044" in shown) is intervals


@pytest.mark.parametrize(
    "former, current",
    [
        (["load", "--lengths", "512", "--samples", "3"], ["tiers", "--context-lengths", "512", "--num-samples", "3"]),
        (["inspect", "f.json", "--chunk", "64"], ["attention", "f.json", "--chunk-size", "64"]),
        (["ttft", "--reader", "off", "--pointer", "a"], ["ttft", "--lora-adapter", "off", "--span-scorer", "a"]),
        (["ttft", "--selector", "b", "--auxiliary", "c"], ["ttft", "--token-selector", "b", "--auxiliary-model", "c"]),
        (["quality", "f.json", "--grounding", "off"], ["quality", "f.json", "--no-grounded-decoding"]),
        (["quality", "f.json", "--kv-bits", "8"], ["quality", "f.json", "--disk-kv-bits", "8"]),
        (["cache", "--budgets", "1", "--skews", "0.3"], ["cache", "--cache-gib", "1", "--zipf-skew", "0.3"]),
    ],
)
def test_former_commands_and_options_still_work(former, current, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(MEASURES[current[0]], "run", lambda arguments: seen.append(vars(arguments)) or [{"n": 1}])
    for command in (former, current):
        monkeypatch.setattr(sys, "argv", ["bench", *command])
        assert main() == 0
    first, second = ({name: value for name, value in one.items() if name != "measure"} for one in seen)
    assert first == second


def test_a_document_that_is_not_added_is_no_measurement(tmp_path):
    client = SimpleNamespace(predict=lambda *values, api_name: [{"stage": "failed", "message": "The disk is full."}])
    with pytest.raises(InvalidArgument, match="The disk is full"):
        uploads._add(client, uploads._document(tmp_path, 3, 0))


def test_answers_that_end_before_the_prefill_are_measured(monkeypatch):
    monkeypatch.setattr(concurrency, "_tokens", lambda *_: iter(range(4)))
    monkeypatch.setattr(concurrency, "_prefill_ms", lambda *_: time.sleep(0.2) or 200.0)
    found = concurrency._decode_during_prefill(None, [None, None], 512)
    assert found["prefill_ms"] == 200.0 and found["tokens_per_s"] > 0


@pytest.mark.parametrize("server", ["localhost", "6379", ":6379", "localhost:redis"])
def test_a_server_without_host_or_port_is_refused(server, capsys):
    with pytest.raises(SystemExit):
        _parser().parse_args(["tiers", "--kv-server", server])
    assert "such as 127.0.0.1:6379" in capsys.readouterr().err
