"""An engine in a process of its own, on Ray Serve."""

import time
from threading import Event, Thread

import pytest
import ray

from bench.cluster.faults import replicas
from cluster.dispatch import Dispatcher
from cluster.engine_server import EngineConfig, connect, running_engines, start_engines
from engine.builder import ModelConfig, load_engine
from engine.errors import BadRequest
from engine.request import Request
from tests.backend.conftest import saved
from tests.support.doubles import TEXTS, last
from tests.support.valkey import valkey

QUESTION = Request("What is the maintenance code?", "direct", max_new_tokens=24, temperature=1.0, seed=3)
OPTIONS = {"dtype": "fp32", "span_scorer": "off", "token_selector": "off"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def model(folder):
    return saved(folder / "model")


@pytest.fixture(scope="module")
def config(folder, model):
    """Ray runs, and a KV server."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    with valkey(folder) as server:
        models = ModelConfig(folder / "models", model, model, **OPTIONS)
        yield EngineConfig(models, folder, 2**28, f"redis://127.0.0.1:{server.port}", threads=1)
    ray.shutdown()


@pytest.fixture(scope="module")
def dispatcher(config):
    """What sends questions to one engine."""
    start_engines(config, 1)
    return Dispatcher(running_engines)


@pytest.fixture(scope="module")
def front(folder, model):
    return load_engine(model, list(TEXTS.values()), folder=folder / "models", auxiliary_model=model, **OPTIONS)


@pytest.mark.slow
def test_an_engine_answers_as_the_front_does_is_stopped_and_is_replaced_when_it_is_killed(dispatcher, front):
    expected = last(front.ask(QUESTION))
    dispatcher.refresh(front)
    (name,) = dispatcher.engine_names()
    answers = list(dispatcher.ask(front, QUESTION, Event()))
    assert answers[-1].engine == name and answers[-1].text == expected.text != ""
    assert len({answer.text for answer in answers}) > 3  # it is streamed
    keys = [front.cache.chunk_key(front.template.encode_passage(text).ids) for text in TEXTS.values()]
    dispatcher.refresh(front)
    assert dispatcher._map.chunks_of(name) <= set(keys) and dispatcher._map.chunks_of(name)
    dispatcher.delete(keys)
    dispatcher.refresh(front)
    assert not dispatcher._map.chunks_of(name)

    cancel = Event()
    answers = dispatcher.ask(front, Request(QUESTION.question, "direct", max_new_tokens=2000, temperature=1.0), cancel)
    while not next(answers).text:
        pass
    cancel.set()
    assert last(answers).state == "stopped"

    (engine,) = replicas()
    engine.kill()
    answer = last(dispatcher.ask(front, QUESTION, Event()))
    assert answer.engine == "" and answer.text == expected.text
    deadline = time.monotonic() + 120
    while not dispatcher.engine_names():  # Ray starts it again
        assert time.monotonic() < deadline
        time.sleep(0.5)
        dispatcher.refresh(front)
    assert last(dispatcher.ask(front, QUESTION, Event())).engine == dispatcher.engine_names()[0] != name


@pytest.mark.slow
def test_ray_starts_another_engine_while_there_are_many_questions(dispatcher, config, front, monkeypatch):
    monkeypatch.setattr("cluster.engine_server.UPSCALE_S", 1.0)
    start_engines(config, 1, 2)
    long = Request(QUESTION.question, "direct", max_new_tokens=2000, temperature=1.0)
    stop = Event()

    def ask_again_and_again():
        while not stop.is_set():
            for _ in dispatcher.ask(front, long, stop):
                pass

    threads = [Thread(target=ask_again_and_again) for _ in range(6)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 120
    try:
        while len(dispatcher.engine_names()) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.5)
            dispatcher.refresh(front)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_missing_ray_cluster_is_named(monkeypatch):
    def init(address, **_):
        raise ConnectionError("refused")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(BadRequest, match=r"no Ray cluster at auto \(refused"):
        connect("auto")
