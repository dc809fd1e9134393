"""A calibration measures what Compare measures, keeps finished questions, and survives any file."""

import json
from threading import Event

import pytest

from engine.analysis import calibration
from engine.analysis.calibration import Calibration, calibrate, calibration_engine
from engine.analysis.comparison import CompareRequest
from engine.analysis.comparison_runner import compare
from engine.builder import Models
from engine.fidelity import CALIBRATED_PASSAGES, RATIOS, FidelitySample
from tests.support.doubles import last, make_engine

NAMES = ("ferry", "tern", "fares")
TOKENS = 3


@pytest.fixture(autouse=True)
def short_answers(monkeypatch):
    monkeypatch.setattr(calibration, "ANSWER_TOKENS", TOKENS)


def calibration_of(path=None, questions=3):
    measured = Calibration("cacheclip", path)
    del measured.questions[questions:]
    return measured


def samples():
    return [FidelitySample(ratio, 0.1, 0.9, 20.0, 80.0) for ratio in RATIOS]


def test_a_sample_is_the_outcome_of_compare():
    measured = calibration_of(questions=1)
    list(calibrate(make_engine(*NAMES), measured, Event()))
    (question,) = measured.questions
    request = CompareRequest(question, ("cacheclip",), RATIOS, passages=CALIBRATED_PASSAGES, max_new_tokens=TOKENS)
    outcomes = last(compare(make_engine(*NAMES), request)).outcomes[1:]
    rows = [(sample.ratio, sample.kl, sample.top1) for sample in measured.samples[question]]
    assert rows == [(outcome.ratio, outcome.answer_kl, outcome.answer_top1) for outcome in outcomes]
    assert rows[0][1] > 0


def test_an_interrupted_calibration_continues_with_the_questions_that_are_left(tmp_path):
    path, cancel = tmp_path / "new" / "fidelity.json", Event()
    engine = make_engine(*NAMES)
    for _ in calibrate(engine, calibration_of(path), cancel):
        cancel.set()
    again = calibration_of(path)
    assert len(again.samples) == 1 and again.remaining == again.questions[1:]
    list(calibrate(engine, again, Event()))
    assert not calibration_of(path).remaining


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"method": "cacheclip"}', '{"method": "cacheclip", "questions": {"x": 1}}']
)
def test_a_torn_file_counts_as_none(tmp_path, content):
    path = tmp_path / "fidelity.json"
    path.write_text(content)
    assert calibration_of(path).samples == {}


def test_results_of_another_method_other_ratios_or_former_questions_are_not_used(tmp_path):
    path = tmp_path / "fidelity.json"
    stored = Calibration("cacheclip", path)
    first, second, *_ = stored.questions
    stored.add(first, samples())
    stored.add(second, samples()[1:])
    stored.add("A former question?", samples())
    assert list(Calibration("cacheclip", path).samples) == [first]
    assert Calibration("cacheclip-trained", path).samples == {}


def test_a_full_disk_loses_nothing_but_the_file(tmp_path):
    (tmp_path / "file").write_text("in the way")
    measured = calibration_of(tmp_path / "file" / "fidelity.json")
    measured.add(measured.questions[0], samples())
    assert len(measured.samples) == 1


def test_the_stored_file_is_plain_json(tmp_path):
    measured = calibration_of(tmp_path / "fidelity.json")
    measured.add(measured.questions[0], samples())
    stored = json.loads((tmp_path / "fidelity.json").read_text())
    assert stored["method"] == "cacheclip"
    assert stored["questions"][measured.questions[0]][1]["ratio"] == RATIOS[1]


def test_calibrating_takes_turns_with_the_engine_and_leaves_its_cache_alone():
    engine = make_engine(*NAMES)
    decoder = engine.cache.decoder
    measured = calibration_of(questions=1)
    own = calibration_engine(
        Models(decoder, decoder, "fp32", "torch's: requested.", "torch's.", None, None),
        measured.passages[:9],
        engine.scheduler,
    )
    assert own.scheduler is engine.scheduler and own.passages.scheduler is engine.scheduler
    list(calibrate(own, measured, Event()))
    assert len(measured.samples) == 1
    assert not engine.cache.tree.nodes and own.cache.tree.nodes


def test_the_built_in_questions_are_distinct_and_about_the_passages():
    measured = Calibration("cacheclip")
    assert len(set(measured.questions)) == len(measured.questions) >= 24
    assert len(set(measured.passages)) == len(measured.passages) >= 5 * CALIBRATED_PASSAGES
    text = " ".join(measured.passages)
    assert all(fact in text for fact in ("5730264", "HL-118", "HarbourGuest", "Island Petrel"))
