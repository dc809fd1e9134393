"""Answers share decoding steps, steps alternate with layers, and an answer that is not read delays none for long."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event

import pytest
import torch
from torch.testing import assert_close

from engine.model.attention import ParallelLayout
from engine.model.decoder import Decoder
from engine.model.kernels.decode_step import MAX_ROWS
from engine.model.prompt_lookup import PromptLookup
from engine.model.sampling import TokenSampler, decode
from engine.model.step_batcher import DecodeRows, StepBatcher
from engine.types import ParallelAttention
from tests.engine.model.test_decode_step import IDS, make_decoder, prefill
from tests.support import tiny
from tests.support.kernels import needs_kernel

TIMEOUT_S = 60  # never reached unless a test fails
PROMPTS = [torch.randint(3, 500, (n,), generator=torch.Generator().manual_seed(n)) for n in range(5, 85, 10)]


class Recorder:
    """In place of a model: the logits of a token are the token; `batches` has the rows of each step."""

    def __init__(self):
        self.batches, self.gate = [], Event()
        self.gate.set()

    def __call__(self, batch):
        self.gate.wait(TIMEOUT_S)
        self.batches.append([len(rows.ids) for rows in batch])
        return [torch.tensor(rows.ids)[:, None].float() for rows in batch]


def step(batcher, ids):
    return batcher.step(ids, None, 0)[:, 0].tolist()


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def batcher(recorder):
    return StepBatcher(recorder)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2 * MAX_ROWS) as pool:
        yield pool


def test_answers_share_steps_and_get_their_own_logits(batcher, recorder, pool):
    ready = Barrier(4)

    def run(number):
        with batcher.answer():
            ready.wait(TIMEOUT_S)
            return [step(batcher, [100 * number + i]) for i in range(20)]

    found = list(pool.map(run, range(4)))
    assert found == [[[100.0 * number + i] for i in range(20)] for number in range(4)]
    assert sum(map(len, recorder.batches)) == 80
    assert max(map(len, recorder.batches)) == 4


def test_a_step_has_at_most_max_rows_in_the_order_of_arrival(batcher, recorder, pool):
    recorder.gate.clear()
    futures = [pool.submit(step, batcher, [0])]
    for number in range(1, 5):
        while not batcher._stepping_thread or len(batcher._waiting) < number - 1:
            time.sleep(0.001)
        futures.append(pool.submit(step, batcher, [number] * 3))
    while len(batcher._waiting) < 4:
        time.sleep(0.001)
    recorder.gate.set()
    assert [future.result(TIMEOUT_S)[0] for future in futures] == [0, 1, 2, 3, 4]
    assert recorder.batches == [[1], [3, 3], [3, 3]]


def test_an_answer_that_is_not_read_delays_the_others_once_only(batcher, recorder):
    with batcher.answer(), batcher.answer():  # the second never needs a step
        step(batcher, [1])
        assert batcher._num_expected == 1
        step(batcher, [2])
    assert recorder.batches == [[1], [1]]
    assert batcher._num_expected == 0


def test_an_error_ends_only_the_answer_that_causes_it(pool):
    ready = Barrier(3)

    def fail(batch):
        if any(0 in rows.ids for rows in batch):
            raise MemoryError("none left")
        return [torch.tensor(rows.ids)[:, None].float() for rows in batch]

    batcher = StepBatcher(fail)

    def run(number):
        with batcher.answer():
            ready.wait(TIMEOUT_S)
            return step(batcher, [number])

    failed, *others = [pool.submit(run, number) for number in range(3)]
    assert isinstance(failed.exception(TIMEOUT_S), MemoryError)
    assert [other.result(TIMEOUT_S) for other in others] == [[1], [2]]
    assert step(batcher, [7]) == [7]


def test_after_a_step_that_failed_each_answer_gets_what_it_gets_alone():
    decoder = Decoder(tiny.model(), None, "tiny")

    def rows():
        for prompt in PROMPTS[:2]:
            buffer = decoder.new_buffer(len(prompt) + 3)
            decoder.forward_rows(prompt, buffer, torch.arange(len(prompt)))
            yield DecodeRows([7], buffer, len(prompt))

    def run(batch):
        logits = decoder.run_rows(batch)
        if len(batch) > 1:
            raise MemoryError("none left")
        return logits

    expected = [decoder.run_rows([each])[0] for each in rows()]
    assert_close(StepBatcher(run)._outcomes(list(rows())), expected, atol=0, rtol=0)


def test_a_step_waits_for_the_running_layer_and_the_next_layer_for_the_step(pool):
    events, in_layer, end_layer = [], Event(), Event()

    def run(batch):
        events.append("step")
        return [torch.tensor(rows.ids)[:, None].float() for rows in batch]

    batcher = StepBatcher(run)

    def prefill():
        for number in range(2):
            with batcher.layer():
                events.append(f"layer {number}")
                in_layer.set()
                end_layer.wait(TIMEOUT_S)

    running = pool.submit(prefill)
    in_layer.wait(TIMEOUT_S)
    waiting = pool.submit(step, batcher, [1])
    while not batcher._waiting:
        time.sleep(0.001)
    assert events == ["layer 0"]
    end_layer.set()
    running.result(TIMEOUT_S)
    waiting.result(TIMEOUT_S)
    assert events == ["layer 0", "step", "layer 1"]


def test_a_layer_pauses_for_a_step_that_is_due_only(batcher, recorder, pool):
    with batcher.layer():
        batcher.pause_layer()
        waiting = pool.submit(step, batcher, [1])
        while not batcher._waiting:
            time.sleep(0.001)
        assert recorder.batches == []
        batcher.pause_layer()
        assert recorder.batches == [[1]]
        assert waiting.result(TIMEOUT_S) == [1]


def test_after_a_step_layers_keep_the_model_for_a_while(batcher, recorder, pool, monkeypatch):
    monkeypatch.setattr("engine.model.step_batcher.LAYERS_S", TIMEOUT_S)
    step(batcher, [1])
    with batcher.layer():
        waiting = pool.submit(step, batcher, [2])
        while not batcher._waiting:
            time.sleep(0.001)
    for _ in range(3):
        with batcher.layer():
            batcher.pause_layer()
    assert recorder.batches == [[1]]
    assert waiting.result(TIMEOUT_S) == [2]  # once no layer follows


def test_layers_are_not_starved_by_steps(batcher, recorder, pool):
    stop = Event()

    def decode_forever(number):
        with batcher.answer():
            while not stop.is_set():
                step(batcher, [number])

    answers = [pool.submit(decode_forever, number) for number in range(MAX_ROWS + 3)]
    try:
        for _ in range(30):
            before = len(recorder.batches)
            with batcher.layer():
                assert len(recorder.batches) - before < 50
    finally:
        stop.set()
    for answer in answers:
        answer.result(TIMEOUT_S)


def test_answers_that_start_at_different_times_share_steps(pool):
    sizes = []

    def slow(batch):
        time.sleep(0.02)
        sizes.append(len(batch))
        return [torch.tensor(rows.ids)[:, None].float() for rows in batch]

    batcher = StepBatcher(slow)

    def run(number):
        time.sleep(0.033 * number)
        with batcher.answer():
            return [step(batcher, [number]) for _ in range(25)]

    list(pool.map(run, range(4)))
    assert sum(sizes) / len(sizes) > 2.5  # of at most 4, while one to four are decoded


def answer_of(decoder, start, prompt, with_lookup):
    """Return the tokens of an answer whose prefill runs among the others'."""
    buffer = decoder.new_buffer(len(prompt) + 40)
    first = int(decoder.forward_rows(prompt, buffer, torch.arange(len(prompt))).argmax())
    start()
    lookup = PromptLookup(prompt.tolist()) if with_lookup else None
    return list(decode(decoder, buffer, [first], TokenSampler(), frozenset(), 30, None, lookup))


def assert_equal_together_and_alone(decoder, pool, with_lookup):
    alone = [answer_of(decoder, lambda: None, prompt, with_lookup) for prompt in PROMPTS]
    start = partial(Barrier(len(PROMPTS)).wait, TIMEOUT_S)
    futures = [pool.submit(answer_of, decoder, start, prompt, with_lookup) for prompt in PROMPTS]
    assert [future.result(TIMEOUT_S) for future in futures] == alone


@pytest.mark.parametrize("with_lookup", [False, True])
def test_answers_decoded_together_equal_those_decoded_alone(pool, with_lookup):
    assert_equal_together_and_alone(Decoder(tiny.model(), None, "tiny"), pool, with_lookup)


@needs_kernel
def test_an_answer_that_needs_torch_does_not_change_what_the_others_get():
    decoder = make_decoder(use_int8=True)
    lengths = 40, 60, 50

    def rows(index):
        buffer = prefill(decoder, lengths[index])
        if index == 1:
            buffer.parallel = ParallelLayout(slice(2, 4), 1, ParallelAttention(1.0, 1.0))
        start = lengths[index]
        return DecodeRows(IDS[start : start + 1 + index].tolist(), buffer, start)

    together = decoder.run_rows([rows(index) for index in range(3)])
    for index, logits in enumerate(together):
        (alone,) = decoder.run_rows([rows(index)])
        assert torch.equal(logits, alone)


@needs_kernel
def test_answers_decoded_together_by_the_kernel_equal_those_decoded_alone(pool):
    decoder = make_decoder(use_int8=True)
    assert_equal_together_and_alone(decoder, pool, with_lookup=True)
