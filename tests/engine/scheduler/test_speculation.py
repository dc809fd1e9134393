"""A discarded speculation leaves no trace; an accepted one gives the same answer as none (invariant 9)."""

import itertools
from contextlib import ExitStack
from dataclasses import replace
from threading import Event, Thread
from threading import enumerate as enumerate_threads

import pytest

from engine.errors import Cancelled
from engine.prompt.pack import same_prompt
from engine.request import Request
from engine.scheduler.scheduler import Scheduler
from engine.scheduler.speculation import Speculator
from engine.trace import Trace
from tests.support import tiny
from tests.support.doubles import TEXTS, FixedFinder, last, make_engine

ASK = Request("When does the Old Kestrel sail?", passages=3, max_new_tokens=6)


def speculator(turns=None, least_ms=-1.0):
    """Speculates at once: without anything learned, nothing is expected of the rest of a search, and that is enough."""
    return Speculator(turns or Scheduler(), lambda one, two: one == two, least_ms)


def follow(made, stages, work, trace=None, cancel=None):
    with ExitStack() as turn:
        found, guess = made.run(iter(stages), work, trace or Trace(), turn, cancel or Event())
        return found, guess and guess.result(Event())


def test_a_speculation_that_the_final_hits_confirm_is_accepted():
    asked, trace = [], Trace()
    assert follow(speculator(), ["a", "a"], lambda found, trace, stop: asked.append(found) or "A", trace) == ("a", "A")
    assert asked == ["a"] and [stage.name for stage in trace.stages] == ["speculation"]


def test_a_speculation_that_the_final_hits_refute_is_discarded_and_another_started():
    def work(found, trace, stop):
        with trace.stage("prefill"):
            if found == "a":
                stop.wait(60)
                raise Cancelled
            return found.upper()

    trace = Trace()
    assert follow(speculator(), ["a", "b"], work, trace) == ("b", "B")
    assert [stage.name for stage in trace.stages] == ["speculation cancelled", "speculation", "prefill"]


def test_the_stages_of_the_work_become_those_of_the_request_if_it_is_accepted():
    def work(found, trace, stop):
        with trace.stage("prefill"):
            return found

    trace = Trace()
    follow(speculator(), ["a", "a"], work, trace)
    assert [stage.name for stage in trace.stages] == ["speculation", "prefill"]


def test_there_is_no_speculation_while_the_model_is_in_use():
    turns = Scheduler()
    with turns.acquire(lambda: (0, 1), Event()):
        assert follow(speculator(turns), ["a", "a"], lambda *rest: "A") == ("a", None)


def test_a_new_request_cancels_a_speculation_and_gets_the_model():
    turns, begun, served = Scheduler(), Event(), Event()

    def newcomer():
        begun.wait(60)
        with turns.acquire(lambda: (0, 1), Event()):
            served.set()

    def work(found, trace, stop):
        begun.set()
        assert stop.wait(60)
        raise Cancelled

    def stages():
        yield "a"
        assert served.wait(60)  # while this search still goes on
        yield "a"

    thread = Thread(target=newcomer)
    thread.start()
    assert follow(speculator(turns), stages(), work) == ("a", None)
    thread.join(60)
    assert served.is_set()


def test_a_finished_speculation_releases_the_model_and_its_result_is_used():
    turns, ended = Scheduler(), Event()

    def work(found, trace, stop):
        ended.set()
        return "A"

    def stages():
        yield "a"
        assert ended.wait(60)
        with turns.acquire(lambda: (0, 1), Event()):  # a newcomer, while this search still goes on
            pass
        yield "a"

    with ExitStack() as turn:
        _, guess = speculator(turns).run(stages(), work, Trace(), turn, Event())
        assert not guess.accepted and guess.result(Event()) == "A"
        with turns.acquire(lambda: (0, 1), Event()):  # the request's own
            pass


def test_a_speculation_still_running_after_the_retrieval_keeps_the_model():
    turns, searched = Scheduler(), Event()

    def work(found, trace, stop):
        assert searched.wait(60)
        return "A"

    with ExitStack() as turn:
        _, guess = speculator(turns).run(iter(["a", "a"]), work, Trace(), turn, Event())
        assert guess.accepted
        searched.set()
        assert guess.result(Event()) == "A"
        with turns.try_acquire_idle(Event()) as keep:
            assert keep is None  # the model is still the request's


def test_there_is_no_speculation_if_the_last_stages_are_fast():
    made = speculator(least_ms=1000.0)
    for _ in range(3):
        assert follow(made, ["a", "a"], lambda *rest: "A") == ("a", None)


def test_there_is_speculation_once_the_remaining_time_of_a_stage_is_learned(monkeypatch):
    times = itertools.count(step=0.5)
    monkeypatch.setattr("engine.trace.perf_counter", lambda: next(times))
    made = speculator(least_ms=400.0)
    assert follow(made, ["a", "a"], lambda *rest: "A") == ("a", None)
    assert follow(made, ["a", "a"], lambda *rest: "A") == ("a", "A")


def test_an_error_of_the_work_is_raised_with_its_result():
    def work(found, trace, stop):
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        follow(speculator(), ["a"], work)


def test_a_failing_retrieval_discards_the_speculation_and_releases_the_model():
    turns, stopped = Scheduler(), []

    def stages():
        yield "a"
        raise OSError("no index")

    with pytest.raises(OSError, match="no index"):
        follow(speculator(turns), stages(), lambda found, trace, stop: stopped.append(stop.wait(60)))
    assert stopped == [True]
    with turns.acquire(lambda: (0, 1), Event()):
        pass


class Staged:
    """Finds one list of passages, then another."""

    def __init__(self, *lists):
        self.lists = [FixedFinder(*names).hits for names in lists]

    def retrieve_stages(self, question, top, documents=()):
        yield from self.lists


@pytest.mark.parametrize("method", ["cacheclip", "prefix", "full"])
@pytest.mark.parametrize("first", [("ferry", "tern", "fares"), ("tern", "ferry"), ("fares",)])
def test_answers_are_the_same_with_and_without_speculation(method, first):
    final, request = ("ferry", "tern", "fares"), replace(ASK, method=method)
    plain = make_engine(*final)
    made = make_engine()
    made.finder = Staged(first, final)
    made.speculator = Speculator(made.scheduler, same_prompt, -1.0)
    answer = last(made.ask(request))
    assert answer.text == last(plain.ask(request)).text and answer.state == "done"
    names = [stage.name for stage in answer.trace.stages]
    assert "speculation" in names
    assert ("speculation cancelled" in names) == (first != final)


def test_an_answer_can_be_stopped_during_speculation():
    made, stop = make_engine(), Event()

    class Stopping(Staged):
        def retrieve_stages(self, question, top, documents=()):
            yield self.lists[0]
            stop.set()
            yield self.lists[1]

    made.finder = Stopping(("ferry",), ("ferry",))
    made.speculator = Speculator(made.scheduler, same_prompt, -1.0)
    assert last(made.ask(ASK, stop)).state == "stopped"
    made.finder = FixedFinder("ferry")
    assert last(made.ask(ASK)).state == "done"


class Slow(Staged):
    """Its last list comes when whatever was begun with the one before has ended."""

    def retrieve_stages(self, question, top, documents=()):
        yield self.lists[0]
        for thread in enumerate_threads():
            if thread.name == "speculation":
                thread.join(60)
        yield self.lists[1]


@pytest.mark.parametrize("own_auxiliary", [False, True])
def test_a_discarded_speculation_does_not_count_as_cache_hits(own_auxiliary):
    def frequencies(finder):
        made = make_engine(auxiliary=tiny.decoder(tiny.qwen2, seed=3, vocab_size=300) if own_auxiliary else None)
        for name in ("ferry", "tern", "fares"):
            made.passages.warm(TEXTS[name])
        made.finder, made.speculator = finder, Speculator(made.scheduler, same_prompt, -1.0)
        assert last(made.ask(replace(ASK, method="cacheclip"))).state == "done"
        with made.cache.tree.locked() as copies:
            return {key: node.frequency for key, node in copies.nodes.items()}

    assert frequencies(Slow(("fares", "tern"), ("ferry", "tern"))) == frequencies(FixedFinder("ferry", "tern"))
