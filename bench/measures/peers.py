"""Prefill and decoding beside other programs with the same weights, interleaved: llama.cpp and transformers.

Peers run in processes of their own and take turns at each length, on the same random tokens. `kvscope 20%` has the KV
of all tokens in its buffer and recomputes evenly spread windows; search, selection and assembly are not part of it.
llama.cpp reads the GGUF file that the bundled model was unpacked from, in 4 bits, through the optional package
xllamacpp; it is left out without that. KVScope decodes with 8-bit weights where its kernel runs, transformers with
bf16. Memory is the growth of the process's peak since its imports. Ratios are paired: a peer's prefill time and decode
speed relative to KVScope's full prefill and its decoding in the same round. --methods does not apply.
"""

import importlib
import importlib.util
import multiprocessing
import re
import resource
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from bench.bootstrap import median_interval, medians
from bench.errors import InvalidArgument
from bench.harness.engine import model_config
from bench.measures.kernel import QUESTION_TOKENS, spread_rows
from bench.tables import columns_of, progress
from engine.builder import load_models
from engine.model.loading.bundled import BUNDLED_MODEL, fetch_gguf
from engine.model.loading.load import select_dtype
from engine.model.loading.resolve import resolve
from engine.model.sampling import TokenSampler, decode

TITLE = "beside other programs with the same weights"
COLUMNS = columns_of("peer length prefill_ms ttft_ms tokens_per_s rss_mb prefill_ratio decode_ratio n")
NEW_TOKENS = 64  # decoded in each run
STOP_TIMEOUT_S = 10.0
RECOMPUTE_RATIO = 0.2
STATUS = Path("/proc/self/status")
Measured = dict[str, float]
Peer = Callable[[int, int], Measured]  # length and seed; returns prefill_ms, ttft_ms and tokens_per_s


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per peer and length: medians, and the paired ratios to KVScope's full prefill and decoding.

    Raises InvalidArgument for another model than the bundled one, whose GGUF file is known, and for short prompts.
    """
    if arguments.model != BUNDLED_MODEL:
        raise InvalidArgument("The peers are compared with the bundled model only.")
    if min(arguments.lengths) <= QUESTION_TOKENS:
        raise InvalidArgument(f"--context-lengths must be above {QUESTION_TOKENS}.")
    arguments.device = "cpu"
    arguments.lora_adapter = arguments.token_selector = arguments.span_scorer = "off"
    peers: dict[str, Callable[[Namespace], Peer]] = {
        "kvscope": kvscope,
        "kvscope 20%": partial(kvscope, ratio=RECOMPUTE_RATIO),
        "transformers": transformers,
    }
    if importlib.util.find_spec("xllamacpp") is not None:
        fetch_gguf(arguments.data / "bench")
        peers["llama.cpp"] = llama_cpp
    rows = []
    with ExitStack() as stack:
        workers = {name: stack.enter_context(_Worker(start, arguments)) for name, start in peers.items()}
        for length in sorted(arguments.lengths):
            rounds = []
            for number in progress(range(arguments.samples + 1), f"{length} tokens"):
                measured = {name: worker.measure(length, arguments.seed + number) for name, worker in workers.items()}
                if number:  # the first is a warm-up
                    rounds.append(measured)
            rows += [_row(name, length, rounds) for name in workers]
    return rows


def _row(name: str, length: int, rounds: list[dict[str, Measured]]) -> dict[str, Any]:
    samples = []
    for measured in rounds:
        own, ours = measured[name], measured["kvscope"]
        ratios = {
            "prefill_ratio": own["prefill_ms"] / ours["prefill_ms"],
            "decode_ratio": own["tokens_per_s"] / ours["tokens_per_s"],
        }
        samples.append(own | ratios)
    row: dict[str, Any] = {"peer": name, "length": length, **medians(samples)}
    for key in ("prefill_ratio", "decode_ratio"):
        row[f"{key}_low"], row[f"{key}_high"] = median_interval([sample[key] for sample in samples])
    return row


class _Worker:
    """A peer in a process of its own."""

    def __init__(self, start: Callable[[Namespace], Peer], arguments: Namespace) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(start, arguments, theirs), daemon=True)

    def __enter__(self) -> "_Worker":
        self._process.start()
        self._connection.recv()  # ready: the next one starts on idle cores
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()  # which ends it
        self._process.join(STOP_TIMEOUT_S)
        self._process.kill()

    def measure(self, length: int, seed: int) -> Measured:
        """Return the peer's times for a prompt, and the growth of its process's peak memory since imports in MB."""
        self._connection.send((length, seed))
        reply: Measured | str = self._connection.recv()
        if isinstance(reply, str):
            raise InvalidArgument(f"A peer failed at {length} tokens: {reply}")
        return reply


def _serve(start: Callable[[Namespace], Peer], arguments: Namespace, connection: Connection) -> None:
    imported = _peak_mb()  # not a part of the peer
    peer = start(arguments)
    connection.send("ready")
    while True:
        try:
            length, seed = connection.recv()
        except EOFError:
            return
        try:
            measured = peer(length, seed)
        except (ValueError, RuntimeError) as error:
            connection.send(str(error))
        else:
            connection.send(measured | {"rss_mb": _peak_mb() - imported})


def _peak_mb() -> float:
    if STATUS.exists():  # Linux, where getrusage includes the peak of the process that started this one
        (peak_kb,) = re.findall(r"^VmHWM:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
        return int(peak_kb) * 1.024e-3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in KB; on macOS in bytes
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _random_ids(vocabulary: int, length: int, seed: int) -> torch.Tensor:
    return torch.randint(100, vocabulary, (length,), generator=torch.Generator().manual_seed(seed))


def kvscope(arguments: Namespace, ratio: float = 1.0) -> Peer:
    """Return KVScope's full prefill, or recomputation of evenly spread windows, and its decoding."""
    decoder = load_models(model_config(arguments)).primary

    def measure(length: int, seed: int) -> Measured:
        ids = _random_ids(decoder.spec.vocab_size, length, seed)
        buffer, sampler = decoder.new_buffer(length + NEW_TOKENS), TokenSampler()
        slots = spread_rows(length - QUESTION_TOKENS, ratio)
        if ratio < 1:
            decoder.forward_rows(ids, buffer, torch.arange(length))
        began = time.perf_counter()
        logits = decoder.forward_rows(ids[slots], buffer, slots)
        prefilled = time.perf_counter()
        first = sampler.sample(logits)
        answered = time.perf_counter()
        tokens = list(decode(decoder, buffer, [first], sampler, frozenset(), NEW_TOKENS))
        return _times(began, prefilled, answered, time.perf_counter(), len(tokens) - 1)

    return measure


@torch.inference_mode()
def transformers(arguments: Namespace) -> Peer:
    """Return transformers' own forward pass with its cache, greedy."""
    config = model_config(arguments)
    folder = resolve(config.model, config.folder)
    dtype = select_dtype("cpu", config.dtype)[1]
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)

    @torch.inference_mode()
    def measure(length: int, seed: int) -> Measured:
        ids, cache = _random_ids(model.config.vocab_size, length, seed)[None], DynamicCache()
        began = time.perf_counter()
        logits = model(ids, past_key_values=cache, logits_to_keep=1).logits[0, -1]
        prefilled = time.perf_counter()
        token = logits.argmax()
        answered = time.perf_counter()
        for _ in range(NEW_TOKENS - 1):
            token = model(token[None, None], past_key_values=cache).logits[0, -1].argmax()
        return _times(began, prefilled, answered, time.perf_counter(), NEW_TOKENS - 1)

    return measure


def llama_cpp(arguments: Namespace) -> Peer:
    """Return llama.cpp's server with its defaults for as many threads, greedy."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(fetch_gguf(arguments.data / "bench"))
    params.n_ctx = max(arguments.lengths) + NEW_TOKENS + 8
    params.n_parallel, params.warmup, params.verbosity = 1, False, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = torch.get_num_threads()
    server = xllamacpp.Server(params)
    vocabulary = 49_152

    def measure(length: int, seed: int) -> Measured:
        ids = _random_ids(vocabulary, length, seed).tolist()
        request = {"prompt": ids, "n_predict": NEW_TOKENS, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        reply = server.handle_completions(request)
        if "timings" not in reply:  # such as a prompt longer than the model's context
            raise ValueError(f"llama.cpp answered {reply}")
        timings = reply["timings"]
        assert timings["prompt_n"] >= length, timings
        speed = 1e3 * (timings["predicted_n"] - 1) / timings["predicted_ms"]  # the clock starts at the first token
        return {"prefill_ms": timings["prompt_ms"], "ttft_ms": timings["prompt_ms"], "tokens_per_s": speed}

    return measure


def _times(began: float, prefilled: float, answered: float, ended: float, num_decoded: int) -> Measured:
    return {
        "prefill_ms": 1e3 * (prefilled - began),
        "ttft_ms": 1e3 * (answered - began),
        "tokens_per_s": num_decoded / (ended - answered),
    }
