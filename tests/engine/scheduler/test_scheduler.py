"""Turns: who is served next against its definition, and one at a time whatever else happens."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from threading import Barrier, Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Cancelled
from engine.scheduler.scheduler import Scheduler, SchedulerConfig, WaitingRequest, pop_next

PATIENCE_S = 60  # never reached unless a test fails
LENGTHS = st.tuples(st.integers(0, 6), st.integers(0, 6))
EVENTS = st.sampled_from(["arrive"] * 3 + ["serve"] * 3 + ["change", "leave"])
DAYS = st.lists(st.tuples(EVENTS, LENGTHS), max_size=60)


def live(days, window):
    """Yield, for each service of a random day, (who was served, who waited, the lengths of all).

    Who: the number of arrival. A change or leaving befalls one somewhere in the line.
    """
    line, lengths, who = [], [], {}
    for step, (what, value) in enumerate(days):
        if what == "arrive":
            number = len(lengths)
            lengths.append(value)
            line.append(WaitingRequest(lambda number=number: lengths[number]))
            who[line[-1]] = number
        elif line and what == "change":
            lengths[who[line[step % len(line)]]] = value
        elif line and what == "leave":
            line.pop(step % len(line))
        elif line and what == "serve":
            waited = [who[request] for request in line]
            yield who[pop_next(line, window)], waited, list(lengths)


@settings(deadline=None, max_examples=300)
@given(DAYS, st.integers(0, 4))
def test_the_oldest_starved_request_is_served_or_else_the_first_with_the_largest_ratio(days, window):
    served = []
    for chosen, waited, lengths in live(days, window):
        overtaken = {one: sum(other > one for other, line in served if one in line) for one in waited}
        starved = [one for one in waited if overtaken[one] >= window]
        ratios = {one: Fraction(*lengths[one]) if lengths[one][1] else 10**9 for one in waited}
        assert chosen == min(starved or [one for one in waited if ratios[one] == max(ratios.values())])
        served.append((chosen, waited))


@settings(deadline=None, max_examples=300)
@given(DAYS, st.integers(0, 4))
def test_nobody_is_overtaken_more_than_window_times(days, window):
    overtaken = {}
    for chosen, waited, _ in live(days, window):
        for one in waited:
            overtaken[one] = overtaken.get(one, 0) + (chosen > one)
    assert all(times <= window for times in overtaken.values())


@settings(deadline=None, max_examples=100)
@given(DAYS)
def test_window_zero_is_first_come_first_served(days):
    assert all(chosen == min(waited) for chosen, waited, _ in live(days, window=0))


def test_a_negative_window_is_refused():
    with pytest.raises(ValueError, match="at least 0, got -1"):
        SchedulerConfig(max_skips=-1)


def wait_until(true):
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def never():
    return Event()


def cold():
    return 0, 1


class Crowd:
    """Requests that wait in threads of their own; `served` tells the order of their turns."""

    def __init__(self, turns, pool):
        self.turns, self.pool, self.served = turns, pool, []

    def queue(self, name, lengths=cold, cancel=None):
        """Return the future of one more request, which waits already."""
        ahead = self.turns.num_waiting
        future = self.pool.submit(self._serve, name, lengths, cancel or never())
        wait_until(lambda: self.turns.num_waiting == ahead + 1)
        return future

    def _serve(self, name, lengths, cancel):
        with self.turns.acquire(lengths, cancel):
            self.served.append(name)


@pytest.fixture
def turns():
    return Scheduler()


@pytest.fixture
def crowd(turns):
    with ThreadPoolExecutor(8) as pool:
        yield Crowd(turns, pool)


def served_after(crowd, futures):
    for future in futures:
        future.exception(PATIENCE_S)
    return crowd.served


def test_the_best_ratio_is_served_first_and_of_equals_who_came_first(turns, crowd):
    lengths = {"a third": (1, 3), "two": (4, 2), "half": (5, 10), "two again": (2, 1), "all": (1, 0)}
    with turns.acquire(cold, never()):
        futures = [crowd.queue(name, lambda pair=pair: pair) for name, pair in lengths.items()]
    assert served_after(crowd, futures) == ["all", "two", "two again", "half", "a third"]


def test_a_starved_request_is_served_before_better_ones(crowd):
    crowd.turns = turns = Scheduler(SchedulerConfig(max_skips=2))
    with turns.acquire(cold, never()):
        futures = [crowd.queue("cold")] + [crowd.queue(f"hot {i}", lambda: (9, 1)) for i in range(4)]
    assert served_after(crowd, futures) == ["hot 0", "hot 1", "cold", "hot 2", "hot 3"]


def test_lengths_are_asked_again_when_the_next_is_chosen(turns, crowd):
    cached = {"a": 0, "b": 5, "c": 4}
    with turns.acquire(cold, never()):
        futures = [crowd.queue(name, lambda name=name: (cached[name], 10)) for name in cached]
        cached.update(a=9, b=0)
    assert served_after(crowd, futures) == ["a", "c", "b"]


def test_a_request_alone_is_not_asked_for_its_lengths(turns):
    with turns.acquire(lambda: pytest.fail("asked"), never()):
        assert turns.num_waiting == 0


def test_lengths_that_raise_fail_their_own_request_and_no_other(turns, crowd):
    with turns.acquire(cold, never()):
        futures = [crowd.queue("before"), crowd.queue("broken", lambda: 1 // 0), crowd.queue("after")]
    assert isinstance(futures[1].exception(PATIENCE_S), ZeroDivisionError)
    assert served_after(crowd, futures) == ["before", "after"]
    assert [futures[0].exception(), futures[2].exception()] == [None, None]


def test_a_cancelled_request_leaves_at_once_and_the_others_keep_their_order(turns, crowd):
    cancel = Event()
    with turns.acquire(cold, never()):
        futures = [crowd.queue("first"), crowd.queue("middle", lambda: (9, 1), cancel), crowd.queue("last")]
        cancel.set()
        assert isinstance(futures[1].exception(PATIENCE_S), Cancelled)  # the turn is still held
        assert turns.num_waiting == 2
    assert served_after(crowd, futures) == ["first", "last"]


def test_a_request_cancelled_as_its_turn_comes_passes_it_on(turns, crowd):
    cancel = Event()
    with turns.acquire(cold, never()):
        futures = [crowd.queue("stopped", cancel=cancel), crowd.queue("next")]
        cancel.set()
    assert isinstance(futures[0].exception(PATIENCE_S), Cancelled)
    assert served_after(crowd, futures) == ["next"]


def test_a_request_cancelled_before_it_came_disturbs_nobody(turns):
    stopped, speculation = Event(), Event()
    stopped.set()
    with turns.try_acquire_idle(speculation), pytest.raises(Cancelled), turns.acquire(cold, stopped):
        pytest.fail("ran")
    assert not speculation.is_set()


@pytest.mark.parametrize(
    "hold", [lambda turns: turns.acquire(cold, never()), lambda turns: turns.try_acquire_idle(never())]
)
def test_an_exception_frees_the_turn(hold, turns):
    with pytest.raises(ZeroDivisionError), hold(turns):
        raise ZeroDivisionError
    with turns.try_acquire_idle(never()) as keep:
        assert keep is not None


def test_a_turn_may_end_in_another_thread(turns, crowd):
    turn = ExitStack()
    turn.enter_context(turns.acquire(cold, never()))
    future = crowd.queue("next")
    ender = Thread(target=turn.close)
    ender.start()
    ender.join(PATIENCE_S)
    assert served_after(crowd, [future]) == ["next"]


def test_a_spare_turn_is_refused_while_somebody_runs_or_waits(turns, crowd):
    with turns.try_acquire_idle(never()) as first, turns.try_acquire_idle(never()) as second:
        assert first is not None and second is None
        future = crowd.queue("waiting")
        with turns.try_acquire_idle(never()) as third:
            assert third is None
        assert turns.num_waiting == 1  # what was refused frees nothing
    assert served_after(crowd, [future]) == ["waiting"]
    with turns.acquire(cold, never()), turns.try_acquire_idle(never()) as fourth:
        assert fourth is None


def test_a_spare_turn_is_cancelled_by_the_first_that_comes_and_cannot_be_kept_then(turns, crowd):
    cancel = Event()
    with turns.try_acquire_idle(cancel) as keep:
        assert not cancel.is_set()
        future = crowd.queue("newcomer")
        assert cancel.is_set() and crowd.served == []
        assert not keep()
    assert served_after(crowd, [future]) == ["newcomer"]


def test_a_kept_spare_turn_is_a_real_one(turns, crowd):
    cancel = Event()
    with turns.try_acquire_idle(cancel) as keep:
        assert keep()
        future = crowd.queue("newcomer")
        assert not cancel.is_set() and crowd.served == []
        assert keep()
    assert served_after(crowd, [future]) == ["newcomer"]


def test_a_spare_turn_cancelled_by_its_owner_cannot_be_kept(turns):
    cancel = Event()
    with turns.try_acquire_idle(cancel) as keep:
        cancel.set()
        assert not keep()


def test_a_spare_turn_that_is_over_is_neither_kept_nor_cancelled(turns):
    cancel = Event()
    with turns.try_acquire_idle(cancel) as keep:
        pass
    with turns.acquire(cold, never()):
        assert not keep()
    assert not cancel.is_set()


def test_keeping_and_a_newcomer_agree_on_who_was_first(turns):
    for _ in range(200):
        cancel, start, kept = Event(), Barrier(2), []

        def decide(keep, start=start, kept=kept):
            start.wait(PATIENCE_S)
            kept.append(keep())

        def come(start=start):
            start.wait(PATIENCE_S)
            with turns.acquire(cold, never()):
                pass

        with turns.try_acquire_idle(cancel) as keep:
            threads = [Thread(target=decide, args=(keep,)), Thread(target=come)]
            for thread in threads:
                thread.start()
            threads[0].join(PATIENCE_S)
            wait_until(lambda: turns.num_waiting == 1)
            assert kept == [not cancel.is_set()]
        threads[1].join(PATIENCE_S)


def test_eight_threads_never_run_two_blocks_at_once(turns, crowd):
    inside, most, real = [], [], []

    def run():
        inside.append(None)
        most.append(len(inside))
        time.sleep(0.0002)
        inside.pop()

    def work(seed):
        for step in range(25):
            if (seed + step) % 3:
                with turns.acquire(lambda step=step: (seed, step), never()):
                    run()
                    real.append(None)
            else:
                with turns.try_acquire_idle(never()) as keep:
                    if keep is not None:
                        keep()
                        run()

    for future in [crowd.pool.submit(work, seed) for seed in range(8)]:
        future.result(PATIENCE_S)
    assert set(most) == {1}
    assert len(real) == sum((seed + step) % 3 > 0 for seed in range(8) for step in range(25))
    assert turns.num_waiting == 0


def test_close_waits_for_the_turn_under_way_but_no_longer_than_its_patience(turns, crowd):
    order = []
    with turns.acquire(cold, never()):
        turns.close(timeout_s=0.01)  # comes back although the turn is held
        closing = crowd.pool.submit(lambda: (turns.close(PATIENCE_S), order.append("closed")))
        time.sleep(0.05)
        order.append("ended")
    closing.result(PATIENCE_S)
    assert order == ["ended", "closed"]
