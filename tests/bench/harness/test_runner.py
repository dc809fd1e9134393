"""Measures on a tiny model, from the command line's arguments to the rows: paired, resumable, honest about failures."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from bench.errors import InvalidArgument, InvalidDataset
from bench.harness import runner as compare
from bench.harness.checkpoints import SampleFile
from bench.measures import attention as look
from bench.measures import quality
from bench.measures import ruler as tasks
from bench.reporting import report
from engine.generation.span_scorer import SPAN_SCORER_FILE
from engine.model.loading.bundled import BUNDLED_MODEL
from engine.scoring.trained_selector import SELECTOR_FILE
from tests.support.doubles import TEXTS, make_engine

SHAPE = {"method", "realised_ratio", "length", "quality", "rq", "kl", "top1", "n", "floor_speedup", "kl_low", "kl_high"}
METHODS = ["cacheclip", "cacheblend", "epic:tokens=4", "ape", "prefix", "direct", "naive", "oracle"]


@pytest.fixture
def engine(monkeypatch):
    """The engine that every measure opens."""
    only = make_engine()
    for measure in (quality, tasks):
        monkeypatch.setattr(measure, "engine_of", lambda arguments: only)
    return only


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "harbour.jsonl"
    passages = [{"title": name, "text": text} for name, text in TEXTS.items()]
    rows = [
        {
            "id": f"q{number}",
            "question": f"What is the code of boat {number}?",
            "answers": ["the"],
            "passages": passages,
        }
        for number in range(4)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


@pytest.fixture
def arguments(tmp_path, questions):
    return Namespace(
        files=[str(questions)],
        methods=METHODS,
        ratios=[0.3],
        lengths=[1024],
        samples=3,
        seed=0,
        model="tiny",
        lora_adapter="off",
        auxiliary_model="tiny",
        span_scorer="off",
        quote_encoder="auto",
        token_selector="off",
        dtype="fp32",
        attention="auto",
        decode_weights="auto",
        kv_bits=16,
        grounding="auto",
        device="cpu",
        chunk=64,
        passages=4,
        absent=False,
        task=None,
        data=tmp_path,
        json=tmp_path / "rows.json",
    )


def samples_of(arguments):
    lines = arguments.json.with_suffix(".samples.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def test_every_arm_gets_a_row_of_the_shape_that_other_programs_read(engine, arguments):
    rows = quality.run(arguments)
    assert [row["method"] for row in rows] == ["full", *METHODS]
    by_name = {row["method"]: row for row in rows}
    for row in rows:
        assert row["n"] == 3 and {*SHAPE} - {"rq"} <= row.keys()
        assert 0 <= row["realised_ratio"] <= 1 and row["kl_low"] <= row["kl"] <= row["kl_high"]
    assert "ratio" not in by_name["epic:tokens=4"] and by_name["direct"]["ratio"] == 0.0
    assert by_name["full"]["kl"] == 0.0 and by_name["full"]["top1"] == 1.0
    assert by_name["prefix"]["answer_top1"] == 1.0
    assert by_name["prefix"]["answer_kl"] * 10 < by_name["cacheclip"]["answer_kl"] < by_name["direct"]["answer_kl"]
    assert by_name["oracle"]["oracle_overlap"] == 1.0
    spec = engine.cache.decoder.spec
    everything = (
        2 * 4 * spec.num_layers * spec.num_kv_heads * spec.head_dim * by_name["full"]["context_tokens"]
    )  # keys, values, fp32
    assert (by_name["full"]["reused_bytes"], by_name["direct"]["reused_bytes"]) == (0, everything)
    assert by_name["cacheclip"]["reused_bytes"] == pytest.approx(
        everything * (1 - by_name["cacheclip"]["realised_ratio"]), abs=everything / 100
    )
    for row in rows:  # against the first method named, question by question
        for name in ("answer_kl", "quality"):
            assert row[f"{name}_gap"] == pytest.approx(row[name] - by_name["cacheclip"][name])
            assert row[f"{name}_gap_low"] <= row[f"{name}_gap"] <= row[f"{name}_gap_high"]


def test_an_interrupted_run_keeps_its_samples_and_ends_as_an_uninterrupted_one(
    engine, arguments, monkeypatch, tmp_path
):
    whole = quality.run(Namespace(**{**vars(arguments), "json": tmp_path / "whole.json"}))
    run_variants, calls = compare.run_variants, []

    def interrupted(engine, item, reading, arms, timed):
        calls.append(item.id)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_variants(engine, item, reading, arms, timed)

    monkeypatch.setattr(compare, "run_variants", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quality.run(arguments)
    assert len(samples_of(arguments)) == 2
    assert quality.run(arguments) == whole
    assert len(calls) == 4  # two, the one that broke off, and that one again


def test_a_method_added_later_costs_only_itself(engine, arguments):
    first = quality.run(Namespace(**{**vars(arguments), "methods": ["direct"]}))
    rows = quality.run(Namespace(**{**vars(arguments), "methods": ["direct", "naive"]}))
    assert rows[:2] == first and rows[2]["method"] == "naive"
    assert [set(sample["arms"]) for sample in samples_of(arguments)[3:]] == [{"full@1", "naive@0"}] * 3


@pytest.mark.parametrize(
    ("argument", "key", "file"),
    [("token_selector", "selector", SELECTOR_FILE), ("span_scorer", "pointer", SPAN_SCORER_FILE)],
)
def test_samples_of_other_trained_weights_are_refused(engine, arguments, tmp_path, argument, key, file):
    """The weights are compared, since the argument ('auto' or a folder) stays the same."""
    changed = {argument: str(tmp_path), "lora_adapter": str(tmp_path), "methods": ["direct"], "samples": 1}
    own = Namespace(**{**vars(arguments), **changed})
    (tmp_path / file).write_bytes(b"first")
    quality.run(own)
    (tmp_path / file).write_bytes(b"second")
    with pytest.raises(InvalidArgument, match=f"another {key}"):
        quality.run(own)
    if key == "pointer":  # unused without grounded decoding
        assert {
            row["pointer"] for row in quality.run(Namespace(**{**vars(own), "grounding": "off", "json": None}))
        } == {"off"}


def test_more_samples_go_on_from_the_first_ones(engine, arguments):
    few = Namespace(**{**vars(arguments), "samples": 2})
    quality.run(few)
    kept = samples_of(arguments)
    quality.run(arguments)
    assert samples_of(arguments)[:2] == kept and len(samples_of(arguments)) == 3


@pytest.mark.parametrize("other", [{"seed": 1}, {"model": "another"}, {"chunk": 32}, {"passages": 3}, {"kv_bits": 8}])
def test_samples_made_with_other_settings_are_never_mixed(engine, arguments, other):
    quality.run(Namespace(**{**vars(arguments), "methods": ["direct"]}))
    with pytest.raises(InvalidArgument, match=rf"another {next(iter(other))}.*Choose another --json"):
        quality.run(Namespace(**{**vars(arguments), **other}))


@pytest.mark.parametrize(
    ("reader", "grounding", "said"), [("auto", "auto", "auto"), ("auto", "off", "off"), ("off", "auto", "off")]
)
def test_samples_record_whether_decoding_was_grounded(arguments, reader, grounding, said):
    """A model without a reader never is, whatever is wished."""
    wished = Namespace(**{**vars(arguments), "model": BUNDLED_MODEL, "lora_adapter": reader, "grounding": grounding})
    assert compare.open_samples(wished, "quality").settings["grounding"] == said
    other = Namespace(**{**vars(wished), "grounding": "off" if grounding == "auto" else "auto"})
    if reader == "off":
        assert compare.open_samples(other, "quality").settings["grounding"] == said
    else:
        with pytest.raises(InvalidArgument, match=r"another grounding.*Choose another --json"):
            compare.open_samples(other, "quality")


def test_a_question_with_the_same_id_in_other_data_is_measured_again(engine, arguments, tmp_path):
    """A file of the same name elsewhere, or one that was edited, must not be given another one's outcomes."""
    arguments.methods = ["direct"]
    quality.run(arguments)
    (first,) = arguments.files
    edited = tmp_path / "other" / "harbour.jsonl"
    edited.parent.mkdir()
    edited.write_text(Path(first).read_text().replace("What is the code", "Who repairs the mast"))
    arguments.files = [first, str(edited)]
    quality.run(arguments)
    asked = [sample["sample"].split("/")[:2] for sample in samples_of(arguments)]
    assert len(asked) == 6 and sorted(asked[:3]) == sorted(asked[3:])


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_last_line_is_dropped_and_measured_again(engine, arguments, cut):
    arguments.methods = ["direct"]
    whole = quality.run(arguments)
    path = arguments.json.with_suffix(".samples.jsonl")
    lines = path.read_bytes().split(b"\n")
    last = lines[-2].replace(b'"sample"', '"\u00e9\u00e9": 1, "sample"'.encode())
    middle = last.index("\u00e9".encode()) + 1 if cut == 2 else len(last) - cut  # inside a character, too
    path.write_bytes(b"\n".join([*lines[:-2], last[:middle]]))
    assert quality.run(arguments) == whole
    assert len(samples_of(arguments)) == 3


@pytest.mark.parametrize(
    "number, damaged",
    [(1, "[]"), (1, "{"), (2, '{"arms": {}}'), (2, '{"sample": "a", "about": {}, "arms": 3}'), (2, "{torn"), (2, "7")],
)
def test_a_damaged_line_is_named(engine, arguments, number, damaged):
    arguments.methods = ["direct"]
    quality.run(arguments)
    path = arguments.json.with_suffix(".samples.jsonl")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[: number - 1], damaged, *lines[number:]]) + "\n")
    with pytest.raises(InvalidArgument, match=rf"rows.samples.jsonl, line {number}, is damaged"):
        quality.run(arguments)


def test_a_file_that_is_no_file_of_samples_is_left_alone(engine, arguments):
    path = arguments.json.with_suffix(".samples.jsonl")
    path.write_text("shopping list")
    with pytest.raises(InvalidArgument, match="line 1, is damaged"):
        quality.run(arguments)
    assert path.read_text() == "shopping list"


def test_arms_that_are_there_keep_their_full_prefill(tmp_path):
    file = SampleFile(tmp_path / "samples.jsonl", {})
    file.add("one", {}, {"full@1": {"answer": "first"}, "direct@0": {}})
    file.add("one", {}, {"full@1": {"answer": "second"}, "naive@0": {}})
    for read in (file, SampleFile(tmp_path / "samples.jsonl", {})):
        arms = read.get("one")["arms"]
        assert arms["full@1"] == {"answer": "first"} and set(arms) == {"full@1", "direct@0", "naive@0"}


def test_an_exact_path_is_the_same_whatever_arms_went_before(engine, arguments, tmp_path):
    rows = []
    for number, methods in enumerate((["prefix", "direct"], ["direct", "prefix"])):
        again = make_engine()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(quality, "engine_of", lambda arguments, again=again: again)
            own = Namespace(**{**vars(arguments), "methods": methods, "json": tmp_path / f"{number}.json"})
            row = next(row for row in quality.run(own) if row["method"] == "prefix")
            rows.append({name: value for name, value in row.items() if "gap" not in name})
    assert rows[0] == rows[1] and rows[0]["realised_ratio"] < 1


def test_a_context_too_long_loses_its_middle_and_says_so_and_one_that_never_fits_is_an_error(engine, arguments):
    arguments.methods, arguments.lengths = ["direct"], [150]
    (row, _) = quality.run(arguments)
    assert row["left_out"] == 3 and row["context_tokens"] <= 150
    arguments.lengths, arguments.json = [1], arguments.json.with_name("short.json")
    with pytest.raises(InvalidArgument, match=r"No passage of .* fits into 1 tokens"):
        quality.run(arguments)


def test_passages_longer_than_a_chunk_are_split(engine, arguments):
    arguments.methods, arguments.chunk = ["direct"], 16
    quality.run(arguments)
    assert all(sample["about"]["passages"] > 2 * len(TEXTS) for sample in samples_of(arguments))


def test_ruler_scores_the_share_of_references_and_names_an_unknown_task(engine, arguments, tmp_path):
    arguments.haystack, arguments.lengths, arguments.samples, arguments.methods = None, [600], 2, ["direct"]
    arguments.tasks = ["niah_single_1", "niah_multivalue"]
    rows = tasks.run(arguments)
    assert [(row["task"], row["method"], row["metric"]) for row in rows] == [
        (task, method, "recall") for task in arguments.tasks for method in ("full", "direct")
    ]
    arguments.tasks = ["niah_triple"]
    with pytest.raises(InvalidArgument, match="'niah_triple' is not one of niah_single_1"):
        tasks.run(arguments)
    arguments.tasks, arguments.lengths = ["niah_single_1"], [10**6]
    with pytest.raises(InvalidArgument, match="--context-lengths 1000000 is more"):
        tasks.run(arguments)


def test_inspect_compares_each_layer_and_each_plan(engine, arguments):
    arguments.methods, arguments.ratios = ["cacheclip", "epic", "oracle", "cacheblend"], [0.2, 0.3]
    rows = look.run(arguments)
    assert [row["what"] for row in rows[: len(rows) // 2]] == [
        "auxiliary",
        "layer 0",
        "layer 1",
        "layer 2",
        "plan of cacheclip",
        "plan of epic",
        "plan of oracle",
    ]
    last = next(row for row in rows if row["what"] == "layer 2")
    assert last["kl"] == pytest.approx(0.0, abs=1e-6) and last["jaccard"] == 1.0
    assert json.loads(json.dumps(rows)) == rows


def test_inspect_never_mixes_methods_or_lengths(engine, arguments):
    arguments.methods, arguments.samples = ["epic"], 1
    look.run(arguments)
    with pytest.raises(InvalidArgument, match="another methods"):
        look.run(Namespace(**{**vars(arguments), "methods": ["epic", "random"]}))
    with pytest.raises(InvalidArgument, match="one --context-lengths"):
        look.run(Namespace(**{**vars(arguments), "lengths": [512, 1024]}))


def test_both_models_see_the_same_ids_in_every_arm(engine, arguments):
    """Law of the protocol: arms differ in their KV, never in what they read."""
    seen = []
    prefill = engine.prefill

    def watched(reading, *rest, **named):
        seen.append((reading.passages, reading.suffix_ids))
        return prefill(reading, *rest, **named)

    engine.prefill = watched
    arguments.samples = 1
    quality.run(arguments)
    assert len(seen) == len(METHODS) and len(set(seen)) == 1


def test_rows_record_their_settings_and_a_report_separates_files(engine, arguments, tmp_path):
    """The same task through another reader is another line of the figure, and each file has its measure's columns."""
    arguments.methods = ["cacheclip", "direct"]
    rows = quality.run(arguments)
    made_by = ("model", "reader", "pointer", "selector", "grounding", "kv_bits")
    assert {tuple(row[name] for name in made_by) for row in rows} == {("tiny", "off", "off", "off", "off", 16)}
    other, speeds = tmp_path / "other.json", tmp_path / "speeds.json"
    for path in (arguments.json, other):
        path.write_text(json.dumps(rows))
    speeds.write_text(json.dumps([{"length": 128, "tokens_per_second": 40.0, "cache_speedup": 3.0, "n": 1}]))
    counts = report.run(Namespace(rows=[arguments.json, other, speeds], out=tmp_path / "report"))
    assert counts == [{"file": "rows", "rows": 3}, {"file": "other", "rows": 3}, {"file": "speeds", "rows": 1}]
    assert "| prompt | KVScope | over no cache | n |" in (tmp_path / "report" / "report.md").read_text()
    plotted = report.figures([{**row, "file": path.stem} for path in (arguments.json, other) for row in rows])
    lines = plotted[0].data
    assert [len(line.x) for line in lines] == [1, 1, 1, 1]


def test_the_report_writes_tables_and_a_page_that_needs_no_net(engine, arguments, tmp_path):
    arguments.json.write_text(json.dumps(quality.run(arguments)))
    out = tmp_path / "report"
    times = tmp_path / "times.json"
    times.write_text(json.dumps([{"method": "epic", "realised_ratio": 0.1, "length": 512, "speedup": 3.0, "n": 1}]))
    report.run(Namespace(rows=[arguments.json, times], out=out))
    assert "| harbour | cacheclip |" in (out / "report.md").read_text()
    page = (out / "report.html").read_text()
    assert "cacheblend" in page and 'src="http' not in page
    assert page.count('class="plotly-graph-div"') == 3 and all(title in page for title in report.AXIS_TITLES.values())
    arguments.json.write_text("{}")
    with pytest.raises(InvalidDataset, match="not a list of rows"):
        report.run(Namespace(rows=[arguments.json], out=out))
