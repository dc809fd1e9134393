"""Decode speed on the same prompt: our loop, the same by torch or without a KV cache, and transformers' `generate`.

Without a KV cache every new token needs a pass over all tokens before it, the starting point of nanoVLM's article.
With --busy, other processes occupy cores meanwhile; then only our loop and torch are measured.
"""

import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from bench.bootstrap import medians
from bench.harness.engine import model_config
from bench.tables import progress
from engine.builder import load_models
from engine.model.decoder import Decoder
from engine.model.loading.resolve import resolve
from engine.model.sampling import TokenSampler, decode

TITLE = "decoding, tokens per second"
COLUMNS = {
    "length": "prompt",
    "busy_processes": "other processes",
    "tokens_per_second": "KVScope",
    "torch_tokens_per_second": "by torch",
    "uncached_tokens_per_second": "no KV cache",
    "transformers_tokens_per_second": "transformers",
    "kernel_speedup": "over torch",
    "cache_speedup": "over no cache",
    "speedup": "over transformers",
    "n": "n",
}
NEW_TOKENS = 48  # tokens decoded per run
UNCACHED_TOKENS = 3  # fewer, since each is a whole pass
BUSY_TORCH_TOKENS = 6  # likewise: with other processes, torch may take a second or more for each


def add_arguments(parser: ArgumentParser) -> None:
    """Add the numbers of processes that occupy a core each."""
    help_text = "endless loops at normal priority that run meanwhile"
    parser.add_argument("--busy", type=int, choices=range(65), nargs="+", default=[0], metavar="N", help=help_text)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per prompt length and number of other processes; medians over the runs, which take turns."""
    folder = arguments.data / "models"
    model = arguments.model
    arguments.lora_adapter = arguments.token_selector = arguments.span_scorer = "off"
    arguments.auxiliary_model = model
    config = model_config(arguments)
    decoder = load_models(config).primary
    weights = resolve(model, folder)
    reference: Any = AutoModelForCausalLM.from_pretrained(weights, dtype=decoder.dtype, local_files_only=True)
    reference.to(decoder.device)
    rows = []
    for length in arguments.lengths:
        generator = torch.Generator().manual_seed(arguments.seed)
        ids = torch.randint(100, decoder.spec.vocab_size, (length,), generator=generator)
        for busy in arguments.busy:
            with _busy_processes(busy):
                description = f"{length} tokens" + (f", {busy} other processes" if busy else "")
                rounds = progress(range(arguments.samples + 1), description)
                runs = [_run(decoder, reference, ids, is_busy=busy > 0) for _ in rounds]
            rows.append({"length": length, "busy_processes": busy, **medians(runs[1:])})  # the first is for warm-up
    return rows


def _run(decoder: Decoder, reference: Any, ids: torch.Tensor, is_busy: bool) -> dict[str, float]:
    ours = kvscope(decoder, ids)
    by_torch = kvscope(decoder, ids, BUSY_TORCH_TOKENS if is_busy else NEW_TOKENS, use_kernel=False)
    speeds = {"tokens_per_second": ours, "torch_tokens_per_second": by_torch, "kernel_speedup": ours / by_torch}
    if is_busy:
        return speeds
    no_cache, theirs = uncached(decoder, ids), transformers(reference, ids)
    return speeds | {
        "uncached_tokens_per_second": no_cache,
        "transformers_tokens_per_second": theirs,
        "cache_speedup": ours / no_cache,
        "speedup": ours / theirs,
    }


@contextmanager
def _busy_processes(count: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def kvscope(decoder: Decoder, ids: torch.Tensor, new_tokens: int = NEW_TOKENS, use_kernel: bool = True) -> float:
    """Return the tokens per second after the first token; without `use_kernel` by torch."""
    step = decoder.decode_step
    decoder.decode_step = step if use_kernel else None
    buffer, sampler = decoder.new_buffer(len(ids) + new_tokens), TokenSampler()
    first = sampler.sample(decoder.forward_rows(ids, buffer, torch.arange(len(ids))))
    tokens = decode(decoder, buffer, [first], sampler, frozenset(), new_tokens)
    next(tokens)
    began = time.perf_counter()
    count = len(list(islice(tokens, new_tokens)))
    speed = count / (time.perf_counter() - began)
    decoder.decode_step = step
    return speed


def uncached(decoder: Decoder, ids: torch.Tensor) -> float:
    """Return the tokens per second if every token prefills all tokens before it."""
    sampler, buffer = TokenSampler(), decoder.new_buffer(len(ids) + UNCACHED_TOKENS)
    began = time.perf_counter()
    for _ in range(UNCACHED_TOKENS):
        token = sampler.sample(decoder.forward_rows(ids, buffer, torch.arange(len(ids))))
        ids = torch.cat((ids, torch.tensor([token])))
    return UNCACHED_TOKENS / (time.perf_counter() - began)


@torch.inference_mode()
def transformers(model: Any, ids: torch.Tensor) -> float:
    """Return the tokens per second after the first token: one long generation minus a generation of one token."""
    ids = ids[None].to(model.device)
    mask, times = torch.ones_like(ids), []
    for new in (1, NEW_TOKENS):
        began = time.perf_counter()
        model.generate(ids, max_new_tokens=new, min_new_tokens=new, do_sample=False, attention_mask=mask)
        times.append(time.perf_counter() - began)
    return (NEW_TOKENS - 1) / (times[1] - times[0])
