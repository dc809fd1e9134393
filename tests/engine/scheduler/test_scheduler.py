"""The scheduler picks the next request by its definition, and runs one at a time whatever else happens."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from threading import Barrier, Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Cancelled
from engine.scheduler.scheduler import MAX_DECODING, Scheduler, WaitingRequest, pop_next

TIMEOUT_S = 60  # never reached unless a test fails
LENGTHS = st.tuples(st.integers(0, 6), st.integers(0, 6))
EVENTS = st.sampled_from(["arrive"] * 3 + ["serve"] * 3 + ["change", "leave"])
EVENT_LISTS = st.lists(st.tuples(EVENTS, LENGTHS), max_size=60)


def simulate(events, max_skips):
    """Yield, for each "serve" event, (who was served, who waited, the token counts of all).

    Requests are numbered in order of arrival. "change" and "leave" apply to any waiting request.
    """
    queue, token_counts, number_of = [], [], {}
    for step, (event, value) in enumerate(events):
        if event == "arrive":
            number = len(token_counts)
            token_counts.append(value)
            queue.append(WaitingRequest(lambda number=number: token_counts[number]))
            number_of[queue[-1]] = number
        elif queue and event == "change":
            token_counts[number_of[queue[step % len(queue)]]] = value
        elif queue and event == "leave":
            queue.pop(step % len(queue))
        elif queue and event == "serve":
            waited = [number_of[request] for request in queue]
            yield number_of[pop_next(queue, max_skips)], waited, list(token_counts)


@settings(deadline=None, max_examples=300)
@given(EVENT_LISTS, st.integers(0, 4))
def test_the_first_starved_request_is_served_or_else_the_first_with_the_highest_priority(events, max_skips):
    served = []
    for chosen, waited, lengths in simulate(events, max_skips):
        skips = {one: sum(other > one for other, line in served if one in line) for one in waited}
        starved = [one for one in waited if skips[one] >= max_skips]
        ratios = {one: Fraction(*lengths[one]) if lengths[one][1] else 10**9 for one in waited}
        assert chosen == min(starved or [one for one in waited if ratios[one] == max(ratios.values())])
        served.append((chosen, waited))


@settings(deadline=None, max_examples=300)
@given(EVENT_LISTS, st.integers(0, 4))
def test_no_request_is_skipped_more_than_max_skips_times(events, max_skips):
    skips = {}
    for chosen, waited, _ in simulate(events, max_skips):
        for one in waited:
            skips[one] = skips.get(one, 0) + (chosen > one)
    assert all(times <= max_skips for times in skips.values())


@settings(deadline=None, max_examples=100)
@given(EVENT_LISTS)
def test_zero_skips_is_first_come_first_served(events):
    assert all(chosen == min(waited) for chosen, waited, _ in simulate(events, max_skips=0))


def wait_until(true):
    deadline = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def never():
    return Event()


def cold():
    return 0, 1


class Crowd:
    """Requests that wait in threads of their own; `served` tells the order of their scheduler."""

    def __init__(self, scheduler, pool):
        self.scheduler, self.pool, self.served = scheduler, pool, []

    def queue(self, name, lengths=cold, cancel=None):
        """Return the future of one more request, which waits already."""
        ahead = self.scheduler.num_waiting
        future = self.pool.submit(self._serve, name, lengths, cancel or never())
        wait_until(lambda: self.scheduler.num_waiting == ahead + 1)
        return future

    def _serve(self, name, lengths, cancel):
        with self.scheduler.acquire(lengths, cancel):
            self.served.append(name)


@pytest.fixture
def scheduler():
    return Scheduler()


@pytest.fixture
def crowd(scheduler):
    with ThreadPoolExecutor(8) as pool:
        yield Crowd(scheduler, pool)


def served_after(crowd, futures):
    for future in futures:
        future.exception(TIMEOUT_S)
    return crowd.served


def test_the_largest_cached_fraction_is_served_first_and_of_equals_the_earliest(scheduler, crowd):
    lengths = {"a third": (1, 3), "two": (4, 2), "half": (5, 10), "two again": (2, 1), "all": (1, 0)}
    with scheduler.acquire(cold, never()):
        futures = [crowd.queue(name, lambda pair=pair: pair) for name, pair in lengths.items()]
    assert served_after(crowd, futures) == ["all", "two", "two again", "half", "a third"]


def test_a_starved_request_is_served_before_better_ones(crowd):
    crowd.scheduler = scheduler = Scheduler(max_skips=2)
    with scheduler.acquire(cold, never()):
        futures = [crowd.queue("cold")] + [crowd.queue(f"hot {i}", lambda: (9, 1)) for i in range(4)]
    assert served_after(crowd, futures) == ["hot 0", "hot 1", "cold", "hot 2", "hot 3"]


def test_token_counts_are_updated_when_the_next_request_is_picked(scheduler, crowd):
    cached = {"a": 0, "b": 5, "c": 4}
    with scheduler.acquire(cold, never()):
        futures = [crowd.queue(name, lambda name=name: (cached[name], 10)) for name in cached]
        cached.update(a=9, b=0)
    assert served_after(crowd, futures) == ["a", "c", "b"]


def test_a_single_request_does_not_compute_its_token_counts(scheduler):
    with scheduler.acquire(lambda: pytest.fail("called"), never()):
        assert scheduler.num_waiting == 0


def test_an_error_in_token_counts_fails_only_its_own_request(scheduler, crowd):
    with scheduler.acquire(cold, never()):
        futures = [crowd.queue("before"), crowd.queue("broken", lambda: 1 // 0), crowd.queue("after")]
    assert isinstance(futures[1].exception(TIMEOUT_S), ZeroDivisionError)
    assert served_after(crowd, futures) == ["before", "after"]
    assert [futures[0].exception(), futures[2].exception()] == [None, None]


def test_a_cancelled_request_leaves_the_queue_at_once_and_the_others_promote_their_order(scheduler, crowd):
    cancel = Event()
    with scheduler.acquire(cold, never()):
        futures = [crowd.queue("first"), crowd.queue("middle", lambda: (9, 1), cancel), crowd.queue("last")]
        cancel.set()
        assert isinstance(futures[1].exception(TIMEOUT_S), Cancelled)  # the turn is still held
        assert scheduler.num_waiting == 2
    assert served_after(crowd, futures) == ["first", "last"]


def test_a_request_cancelled_when_it_is_granted_passes_the_model_on(scheduler, crowd):
    cancel = Event()
    with scheduler.acquire(cold, never()):
        futures = [crowd.queue("stopped", cancel=cancel), crowd.queue("next")]
        cancel.set()
    assert isinstance(futures[0].exception(TIMEOUT_S), Cancelled)
    assert served_after(crowd, futures) == ["next"]


def test_a_request_cancelled_before_it_arrives_changes_nothing(scheduler):
    stopped, speculation = Event(), Event()
    stopped.set()
    with scheduler.try_acquire_idle(speculation), pytest.raises(Cancelled), scheduler.acquire(cold, stopped):
        pytest.fail("ran")
    assert not speculation.is_set()


@pytest.mark.parametrize(
    "hold", [lambda scheduler: scheduler.acquire(cold, never()), lambda scheduler: scheduler.try_acquire_idle(never())]
)
def test_an_exception_releases_the_model(hold, scheduler):
    with pytest.raises(ZeroDivisionError), hold(scheduler):
        raise ZeroDivisionError
    with scheduler.try_acquire_idle(never()) as promote:
        assert promote is not None


def test_a_grant_may_be_released_in_another_thread(scheduler, crowd):
    turn = ExitStack()
    turn.enter_context(scheduler.acquire(cold, never()))
    future = crowd.queue("next")
    ender = Thread(target=turn.close)
    ender.start()
    ender.join(TIMEOUT_S)
    assert served_after(crowd, [future]) == ["next"]


def test_an_idle_grant_is_refused_while_a_request_runs_or_waits(scheduler, crowd):
    with scheduler.try_acquire_idle(never()) as first, scheduler.try_acquire_idle(never()) as second:
        assert first is not None and second is None
        future = crowd.queue("waiting")
        with scheduler.try_acquire_idle(never()) as third:
            assert third is None
        assert scheduler.num_waiting == 1  # what was refused frees nothing
    assert served_after(crowd, [future]) == ["waiting"]
    with scheduler.acquire(cold, never()), scheduler.try_acquire_idle(never()) as fourth:
        assert fourth is None


def test_an_idle_grant_is_cancelled_by_the_first_new_request_and_cannot_be_promoted_then(scheduler, crowd):
    cancel = Event()
    with scheduler.try_acquire_idle(cancel) as promote:
        assert not cancel.is_set()
        future = crowd.queue("newcomer")
        assert cancel.is_set() and crowd.served == []
        assert not promote()
    assert served_after(crowd, [future]) == ["newcomer"]


def test_a_promoted_idle_grant_is_not_cancelled(scheduler, crowd):
    cancel = Event()
    with scheduler.try_acquire_idle(cancel) as promote:
        assert promote()
        future = crowd.queue("newcomer")
        assert not cancel.is_set() and crowd.served == []
        assert promote()
    assert served_after(crowd, [future]) == ["newcomer"]


def test_an_idle_grant_cancelled_by_its_owner_cannot_be_promoted(scheduler):
    cancel = Event()
    with scheduler.try_acquire_idle(cancel) as promote:
        cancel.set()
        assert not promote()


def test_an_idle_grant_that_has_ended_is_neither_promoted_nor_cancelled(scheduler):
    cancel = Event()
    with scheduler.try_acquire_idle(cancel) as promote:
        pass
    with scheduler.acquire(cold, never()):
        assert not promote()
    assert not cancel.is_set()


def test_promotion_and_a_new_request_agree_on_which_came_first(scheduler):
    for _ in range(200):
        cancel, start, kept = Event(), Barrier(2), []

        def decide(promote, start=start, kept=kept):
            start.wait(TIMEOUT_S)
            kept.append(promote())

        def come(start=start):
            start.wait(TIMEOUT_S)
            with scheduler.acquire(cold, never()):
                pass

        with scheduler.try_acquire_idle(cancel) as promote:
            threads = [Thread(target=decide, args=(promote,)), Thread(target=come)]
            for thread in threads:
                thread.start()
            threads[0].join(TIMEOUT_S)
            wait_until(lambda: scheduler.num_waiting == 1)
            assert kept == [not cancel.is_set()]
        threads[1].join(TIMEOUT_S)


def test_eight_threads_never_run_two_blocks_at_once(scheduler, crowd):
    inside, most, real = [], [], []

    def run():
        inside.append(None)
        most.append(len(inside))
        time.sleep(0.0002)
        inside.pop()

    def work(seed):
        for step in range(25):
            if (seed + step) % 3:
                with scheduler.acquire(lambda step=step: (seed, step), never()):
                    run()
                    real.append(None)
            else:
                with scheduler.try_acquire_idle(never()) as promote:
                    if promote is not None:
                        promote()
                        run()

    for future in [crowd.pool.submit(work, seed) for seed in range(8)]:
        future.result(TIMEOUT_S)
    assert set(most) == {1}
    assert len(real) == sum((seed + step) % 3 > 0 for seed in range(8) for step in range(25))
    assert scheduler.num_waiting == 0


def test_close_waits_for_the_running_request_but_no_longer_than_its_timeout(scheduler, crowd):
    with scheduler.acquire(cold, never()):
        scheduler.close(timeout_s=0.01)  # returns although the model is in use
        closing = crowd.pool.submit(scheduler.close, TIMEOUT_S)
        with pytest.raises(TimeoutError):
            closing.result(0.05)
    closing.result(TIMEOUT_S)


def start_decoding(scheduler):
    """Return the open context of an answer whose request has given the model back."""
    answer = ExitStack()
    with scheduler.acquire(cold, never()):
        answer.enter_context(scheduler.decoding())
    return answer


def test_requests_are_served_while_answers_are_decoded_but_idle_work_is_not(scheduler):
    with start_decoding(scheduler):
        with scheduler.acquire(cold, never()):
            assert scheduler.num_decoding == 1
        with scheduler.try_acquire_idle(never()) as promote:
            assert promote is None
    with scheduler.try_acquire_idle(never()) as promote:
        assert promote is not None


def test_an_exclusive_request_waits_until_no_answer_is_decoded_and_lets_none_begin(scheduler, crowd):
    answer, entered = start_decoding(scheduler), []

    def run_alone():
        with scheduler.acquire(cold, never(), exclusive=True):
            entered.append(scheduler.num_decoding)

    alone = crowd.pool.submit(run_alone)
    wait_until(lambda: scheduler._owner is not None)
    later = crowd.queue("later")
    assert entered == []
    answer.close()
    alone.result(TIMEOUT_S)
    assert served_after(crowd, [later]) == ["later"] and entered == [0]


def test_a_cancelled_exclusive_request_passes_the_model_on(scheduler, crowd):
    cancel = Event()

    def run_alone():
        with scheduler.acquire(cold, cancel, exclusive=True):
            pytest.fail("ran")

    with start_decoding(scheduler):
        alone = crowd.pool.submit(run_alone)
        wait_until(lambda: scheduler._owner is not None)
        cancel.set()
        assert isinstance(alone.exception(TIMEOUT_S), Cancelled)
        with scheduler.acquire(cold, never()):
            pass


def test_at_most_as_many_answers_are_decoded_as_a_step_has_rows(scheduler, crowd):
    answers = [start_decoding(scheduler) for _ in range(MAX_DECODING)]
    future = crowd.queue("one more")
    assert crowd.served == []
    answers[0].close()
    assert served_after(crowd, [future]) == ["one more"]
    for answer in answers[1:]:
        answer.close()
