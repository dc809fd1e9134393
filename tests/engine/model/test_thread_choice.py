"""The number of threads of a decoding step follows the time that steps take."""

import pytest

from engine.model.kernels.thread_choice import PROBE_STEPS, ThreadChoice


def run(choice, milliseconds, steps=10 * PROBE_STEPS, work=1):
    """Return the threads of each step; a step with `t` threads takes milliseconds[t]."""
    used = []
    for _ in range(steps):
        threads = choice.next()
        used.append(threads)
        choice.record(threads, work, milliseconds[threads])
    return used


def test_all_threads_are_used_while_they_are_fastest():
    used = run(ThreadChoice(2), {1: 8.0, 2: 5.0})
    assert used.count(1) == len(used) // PROBE_STEPS  # the probes


def test_fewer_are_used_once_they_are_faster_and_all_again_afterwards():
    choice = ThreadChoice(2)
    busy, idle = {1: 8.0, 2: 13.0}, {1: 8.0, 2: 5.0}
    assert run(choice, idle)[-2] == 2
    used = run(choice, busy)
    assert 2 in used[:PROBE_STEPS] and used[PROBE_STEPS:].count(2) <= len(used) // PROBE_STEPS
    assert run(choice, idle)[-2] == 2


def test_any_number_of_threads_is_reached():
    used = run(ThreadChoice(8), {8: 9.0, 4: 5.0, 2: 3.0, 1: 4.0}, steps=40 * PROBE_STEPS)
    last = used[-8 * PROBE_STEPS :]
    assert max(set(last), key=last.count) == 2
    assert run(ThreadChoice(1), {1: 1.0}) == [1] * 10 * PROBE_STEPS


def test_a_gain_that_may_be_noise_changes_nothing():
    used = run(ThreadChoice(2), {1: 4.8, 2: 5.0})
    assert used.count(1) == len(used) // PROBE_STEPS


@pytest.mark.parametrize("works", [(1, 2), (3, 1)])
def test_only_steps_with_the_same_work_are_compared(works):
    choice, used = ThreadChoice(2), []
    for step in range(10 * PROBE_STEPS):
        threads = choice.next()
        used.append(threads)
        choice.record(threads, works[step % 2], [9.0, 1.0][step % 2])
    assert used.count(1) <= len(used) // PROBE_STEPS


def test_all_threads_are_used_again_after_a_busy_phase_also_for_mixed_work():
    choice = ThreadChoice(2)
    assert run(choice, {1: 8.0, 2: 13.0})[-2] == 1
    used, idle = [], {1: 8.0, 2: 5.0}
    for step in range(40 * PROBE_STEPS):
        threads, work = choice.next(), (1, 1, 1, 4)[step % 4]
        used.append(threads)
        choice.record(threads, work, work * idle[threads])
    assert used[-PROBE_STEPS:].count(2) > PROBE_STEPS // 2
