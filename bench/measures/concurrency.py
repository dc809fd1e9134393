"""Continuous batching: the speed of answers that are decoded at the same time, and during the prefill of a long prompt.

Answers have random prompts of one length; each is decoded in a thread of its own, as for requests. They start one after
the other.
"""

import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import median
from time import perf_counter, sleep
from typing import Any

import torch

from bench.arguments import positive_int
from bench.bootstrap import median_interval, medians
from bench.harness.engine import model_config
from bench.tables import columns_of, progress
from engine.builder import load_models
from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer
from engine.model.sampling import TokenSampler, decode

TITLE = "answers decoded at the same time, and during a prefill"
COLUMNS = columns_of(
    "streams length prefill_length tokens_per_s stream_ratio gap_ms max_gap_ms prefill_ms alone_ratio n"
)
NEW_TOKENS = 128  # of each answer, if nothing is prefilled
STAGGER_S = 0.013  # between the starts of two answers
MAX_TOKENS = 2000  # of each answer during a prefill, which ends them


def add_arguments(parser: ArgumentParser) -> None:
    """Add the numbers of answers, and the length of the prompt that is prefilled meanwhile."""
    parser.add_argument("--streams", type=positive_int, nargs="+", default=[1, 2, 4, 8], help="answers at a time")
    help_text = "tokens prefilled meanwhile"
    parser.add_argument("--prefill-lengths", type=positive_int, nargs="+", default=[512, 4096], help=help_text)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return rows per prompt length and number of answers: one alone, and one during each prefill."""
    decoder = load_models(model_config(arguments)).primary
    rows = []
    for length in arguments.lengths:
        samples: dict[tuple[int, int], list[dict[str, float]]] = {}
        for number in progress(range(arguments.samples + 1), f"{length} tokens"):
            buffers = [_prefilled(decoder, length, seed) for seed in range(max(arguments.streams))]
            alone_ms = {tokens: _prefill_ms(decoder, tokens) for tokens in arguments.prefill_lengths}
            single = _decode(decoder, buffers[:1])["tokens_per_s"]
            for streams in arguments.streams:
                measured = _decode(decoder, buffers[:streams])
                measured["stream_ratio"] = measured["tokens_per_s"] / single
                found = {0: measured}
                for prefill_length, alone in alone_ms.items():
                    found[prefill_length] = _decode_during_prefill(decoder, buffers[:streams], prefill_length)
                    found[prefill_length]["alone_ratio"] = found[prefill_length]["prefill_ms"] / alone
                if number:  # the first is a warm-up
                    for prefill_length, sample in found.items():
                        samples.setdefault((streams, prefill_length), []).append(sample)
        for (streams, prefill_length), measurements in samples.items():
            row = {"streams": streams, "length": length, "prefill_length": prefill_length, **medians(measurements)}
            for name in {"stream_ratio", "alone_ratio"} & row.keys():
                row[f"{name}_low"], row[f"{name}_high"] = median_interval([each[name] for each in measurements])
            rows.append(row)
    return rows


def _prefilled(decoder: Decoder, length: int, seed: int) -> KVBuffer:
    ids = torch.randint(100, decoder.spec.vocab_size, (length,), generator=torch.Generator().manual_seed(seed))
    buffer = decoder.new_buffer(length + MAX_TOKENS)
    decoder.forward_rows(ids, buffer, torch.arange(length))
    return buffer


def _prefill_ms(decoder: Decoder, length: int) -> float:
    ids, buffer = torch.arange(length) % 1000 + 100, decoder.new_buffer(length)
    began = perf_counter()
    decoder.forward_rows(ids, buffer, torch.arange(length))
    decoder.synchronize()
    return 1e3 * (perf_counter() - began)


def _decode(decoder: Decoder, buffers: Sequence[KVBuffer]) -> dict[str, float]:
    """Return the tokens per second of all answers together."""
    ready = threading.Barrier(len(buffers))

    def times(number: int) -> list[float]:
        ready.wait()
        sleep(STAGGER_S * number)
        tokens = _tokens(decoder, buffers[number], NEW_TOKENS)
        next(tokens)
        return [perf_counter(), *(perf_counter() for _ in tokens)]

    with ThreadPoolExecutor(len(buffers)) as pool:
        answers = list(pool.map(times, range(len(buffers))))
    return _speed(answers)


def _decode_during_prefill(decoder: Decoder, buffers: Sequence[KVBuffer], length: int) -> dict[str, float]:
    """Return the same while a prompt is prefilled, and the time of that."""
    started = threading.Barrier(len(buffers) + 1)
    ended = threading.Event()

    def times(buffer: KVBuffer) -> list[float]:
        tokens = _tokens(decoder, buffer, MAX_TOKENS)
        next(tokens)
        started.wait()
        answer = [perf_counter()]
        for _ in tokens:
            answer.append(perf_counter())
            if ended.is_set():
                break
        return answer

    with ThreadPoolExecutor(len(buffers)) as pool:
        answers = [pool.submit(times, buffer) for buffer in buffers]
        started.wait()
        prefill_ms = _prefill_ms(decoder, length)
        ended.set()
        return _speed([answer.result() for answer in answers]) | {"prefill_ms": prefill_ms}


def _tokens(decoder: Decoder, buffer: KVBuffer, count: int) -> Iterator[int]:
    buffer.length = buffer.capacity - MAX_TOKENS
    return decode(decoder, buffer, [100], TokenSampler(), frozenset(), count)


def _speed(answers: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return a row's fields for the times at which tokens came, of each answer."""
    gaps = [after - before for answer in answers for before, after in pairwise(answer)]
    time_s = max(answer[-1] for answer in answers) - min(answer[0] for answer in answers)
    return {"tokens_per_s": len(gaps) / time_s, "gap_ms": 1e3 * median(gaps), "max_gap_ms": 1e3 * max(gaps)}
