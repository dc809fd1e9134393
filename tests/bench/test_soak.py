"""The soak measure: what counts as a mixed answer and as an unexpected error, on a fake backend and the whole app."""

import json
import random
import sys
from dataclasses import replace
from threading import Event
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from gradio_client import Client
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bench.__main__ import main
from bench.bootstrap import slope_interval
from bench.harness.streamed import AnswerFailed, StreamedAnswer, ask_gradio, ask_http
from bench.soak import run as soak
from bench.soak import session
from bench.soak.findings import Findings, is_announced, mixed
from bench.soak.session import Session
from engine.generation.stream import REPETITION
from engine.request import Request
from server.access import LOCAL
from server.errors import ApiError, TooManyQuestions
from server.limits import RateLimit, check, limit_questions
from server.routes import app_kwargs
from store.types import Document
from tests.server.conftest import serving, until
from tests.support import tiny

CODE, FOREIGN = "123456789", "987654321"
SOURCE = {"rank": 1, "document": f"{CODE}.txt", "cited": True}
QUOTE = {"rank": 1, "document": f"{CODE}.txt", "text": f"The code is {CODE}."}
RIGHT = StreamedAnswer(f"It is {CODE} [1].", {"sources": [SOURCE], "quotes": [QUOTE]})
QUESTION = "What is the code?"


def with_final(**fields):
    return replace(RIGHT, final=RIGHT.final | fields)


@pytest.fixture(scope="module")
def server():
    with serving(LOCAL) as server:
        yield server


@pytest.fixture
def backend(server):
    server.backend.reset(pace_s=0.001)
    return server.backend


@pytest.fixture
def asking(server, backend):
    """Return functions that ask `QUESTION` over either API: `stop_after` -> answer."""
    page, http = Client(server.url, verbose=False), httpx.Client(base_url=server.url)
    with http:
        yield {
            "http": lambda stop_after=None: ask_http(http, QUESTION, None, [], stop_after),
            "gradio": lambda stop_after=None: ask_gradio(page, QUESTION, None, [], stop_after),
        }
    page.close()


@pytest.mark.parametrize(
    "answer, reason",
    [
        (RIGHT, ""),
        (StreamedAnswer(f"It is {CODE}"), ""),  # stopped
        (with_final(sources=[SOURCE, SOURCE | {"rank": 2, "cited": False}]), ""),
        (replace(with_final(notes=[REPETITION]), text="A quote", is_growing=False), ""),
        (replace(RIGHT, text=f"It is {FOREIGN} [1]."), "the codes"),
        (StreamedAnswer(f"It is {FOREIGN}"), "the codes"),
        (with_final(quotes=[QUOTE | {"text": f"It is {FOREIGN}."}]), "the codes"),
        (with_final(sources=[SOURCE, SOURCE | {"document": "other.txt", "cited": False}]), "the sources"),
        (with_final(sources=[]), "no sources"),
        (replace(RIGHT, is_growing=False), "a stream"),
        (with_final(sources=[SOURCE, SOURCE | {"rank": 2}]), "other citations"),
        (replace(RIGHT, text=f"It is {CODE}."), "other citations"),
    ],
)
def test_an_answer_with_parts_of_another_one_is_mixed(answer, reason):
    found = mixed(answer, f"{CODE}.txt", {FOREIGN})
    assert any(reason in each for each in found) if reason else found == []


def test_text_that_replaces_shown_text_is_a_stream_that_is_not_the_final_text():
    answer = StreamedAnswer()
    for text in ("", "It", "It is"):
        answer.show(text)
    assert answer.is_growing and answer.ttft_ms is not None
    answer.show("He is")
    assert not answer.is_growing


def test_mixed_answers_and_unexpected_errors_are_counted_and_printed_once(capsys):
    findings = Findings()
    for code in (CODE, FOREIGN):
        findings.add_code(code)
    for _ in range(2):
        findings.add_answer(RIGHT, f"{CODE}.txt", CODE)
        findings.add_answer(replace(RIGHT, text=f"It is {FOREIGN} [1]."), f"{CODE}.txt", CODE)
        findings.add_error("Something went wrong (KeyError). See the log for details.")
        findings.add_error("Too many uploads per hour; the limit is 200 (--client-uploads). Try again in 3 seconds.")
    assert findings.counts == {"questions": 4, "mixed": 2, "other_errors": 2, "announced_errors": 2}
    assert capsys.readouterr().out.count("\n") == 2


def test_the_apps_limits_are_announced_and_its_other_errors_are_not(asking, backend):
    rate = RateLimit(1, 60, lambda: 0.0)
    check(rate, "me", "requests per minute")
    with pytest.raises(ApiError) as limited:
        check(rate, "me", "requests per minute")
    assert is_announced(limited.value.message)
    with pytest.raises(TooManyQuestions) as too_many:
        next(limit_questions(backend, SimpleNamespace(client_questions=0)).ask(Request(QUESTION), Event()))
    assert is_announced(str(too_many.value))
    assert not is_announced("Stopped.") and not is_announced("")
    backend.error = KeyError("chunk")
    with pytest.raises(AnswerFailed) as failed:
        asking["http"]()
    assert not is_announced(str(failed.value))
    with pytest.raises(Exception, match="Something went wrong") as failed:
        asking["gradio"]()
    assert not is_announced(str(failed.value))
    full = Starlette(**app_kwargs(backend, "127.0.0.1", max_questions=0))
    with pytest.raises(AnswerFailed) as failed:
        ask_http(TestClient(full, base_url="http://127.0.0.1"), QUESTION, None, [], None)
    assert is_announced(str(failed.value))


@pytest.mark.parametrize("api", ["http", "gradio"])
def test_an_answer_is_streamed_to_its_end_or_stopped(asking, backend, api):
    answer = asking[api]()
    assert answer.text == backend.answer and len(answer.final["sources"]) == 3
    assert answer.is_growing and not answer.is_stopped and answer.ttft_ms > 0
    until(lambda: backend.cancelled == [False])
    with backend.paused(after=3):
        stopped = asking[api](stop_after=3)
        assert stopped.is_stopped and backend.answer.startswith(stopped.text) and len(stopped.text) >= 3
        until(lambda: backend.cancelled == [False, True])


class FindingsUntil(Findings):
    """Sets an event after so many events."""

    def __init__(self, ended, number):
        super().__init__()
        self._ended, self._number = ended, number

    def count(self, name):
        super().count(name)
        if sum(self.counts.values()) >= self._number:
            self._ended.set()


@pytest.mark.slow
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_session_asks_stops_and_replaces_its_document_and_finds_what_is_mixed(
    server, backend, tmp_path, monkeypatch, is_alone
):
    monkeypatch.setattr(session, "RETRY_S", 0)
    monkeypatch.setattr(session, "VISIT_ACTIONS", 8)
    monkeypatch.setattr(session, "STOP", 0.5)
    monkeypatch.setattr(session, "REPLACE", 0.2)
    backend.answer = "Words before citations, more than a stopped answer has: " + "word " * 20 + "[1] [2] [3]"
    if not is_alone:
        backend.stored_documents = [Document("d" * 64, "other.txt", 1, None, 1, 0.0)]
    ended = Event()
    findings = FindingsUntil(ended, 30)
    user = Session(server.url, tmp_path, findings, ended, random.Random(1))
    user.add_document()
    user.run()
    counts = findings.counts
    assert min(counts[name] for name in ("questions", "stops", "uploads", "deletions")) > 0
    assert counts["other_errors"] == counts["announced_errors"] == 0
    assert (counts["mixed"] == 0) is is_alone
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_unexpected_error_of_the_app_is_counted_for_a_session(server, backend, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(session, "RETRY_S", 0)
    backend.error = KeyError("chunk")
    ended = Event()
    findings = FindingsUntil(ended, 12)
    user = Session(server.url, tmp_path, findings, ended, random.Random(1))
    user.add_document()
    user.run()
    assert findings.counts["other_errors"] > 0 and findings.counts["questions"] == 0
    assert capsys.readouterr().out.count("KeyError") == 1


def test_the_slope_is_exact_on_a_line_and_its_interval_allows_for_autocorrelation():
    times = [number / 6 for number in range(60)]
    assert slope_interval(times, [3 + 2 * time for time in times]) == pytest.approx((2, 2, 2))
    generator, series = np.random.default_rng(0), []
    for _ in range(100):
        noise = [0.0]
        for step in generator.normal(size=225):
            noise.append(0.8 * noise[-1] + step)
        series.append(noise[-126:])
    intervals = [slope_interval(range(126), values) for values in series]
    assert sum(low <= 0 <= high for _, low, high in intervals) >= 80  # 43 if single residuals were resampled


def test_memory_is_measured_after_the_warm_up_in_windows():
    growing, flat = [float(second) for second in range(240)], [240.0] * 360
    fields = soak._slope_fields(growing + flat, warm_up=0.4)
    assert fields["rss_slope_mb_per_min"] == pytest.approx(0)
    line = [float(second) for second in range(600)]
    assert soak._slope_fields(line, warm_up=0.4)["rss_slope_mb_per_min"] == pytest.approx(60)
    assert soak._slope_fields([1.0] * 20, 0.4) == {"rss_slope_mb_per_min": None}


@pytest.mark.slow
def test_many_sessions_use_the_whole_application(tmp_path, monkeypatch):
    tiny.model().save_pretrained(tmp_path / "tiny")
    tiny.tokenizer().save_pretrained(tmp_path / "tiny")
    rows, model = tmp_path / "rows.json", str(tmp_path / "tiny")
    wanted = ["soak", "--sessions", "4", "--minutes", "0.3", "--model", model, "--auxiliary-model", model]
    wanted += ["--lora-adapter", "off", "--span-scorer", "off", "--token-selector", "off"]
    monkeypatch.setattr(sys, "argv", ["bench", *wanted, "--data", str(tmp_path), "--json", str(rows)])
    assert main() == 0
    (row,) = json.loads(rows.read_text())
    assert row["questions"] > 0 and row["uploads"] > 0 and row["rss_mb"] > 0
    assert {"rss_mb_by_minute", "mapped_mb_by_minute"} <= row.keys()
    assert row["other_errors"] == row["mixed"] == 0
