"""Replay a request stream on the real engine, with synthetic passages."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.cache.workload import RequestStream
from bench.harness.workload import CHUNK_TOKENS, make_paragraph
from bench.tables import progress
from engine.engine import Engine
from engine.model.sampling import TokenSampler
from engine.prompt.pack import PreparedPrompt
from engine.request import Request
from engine.strategies import Strategy
from engine.trace import Trace

MAX_NEW_TOKENS = 16  # space for an answer in the buffer; nothing is decoded


@dataclass(frozen=True, slots=True)
class ReplayedQuestion:
    """One question on the real engine. `busy_ms` includes the work after the first token."""

    hit_tokens: int
    tokens: int
    ttft_ms: float
    busy_ms: float
    num_path_chunks: int  # passages found as one exact path
    passages: int


def make_passages(engine: Engine, stream: RequestStream, seed: int) -> list[str]:
    """Return random passages of the stream's lengths in tokens, to within a few."""
    rng, tokenizer = random.Random(seed), engine.template.tokenizer.data
    parts = -(-int(stream.tokens.max()) // (CHUNK_TOKENS - 8))
    long = [" ".join(make_paragraph(rng, tokenizer) for _ in range(parts)) for _ in range(8)]
    passages = []
    for number, length in enumerate(stream.tokens):
        encoded = tokenizer.encode(f"Report {number}. {long[number % len(long)]}", add_special_tokens=False)
        end = encoded.offsets[min(int(length), len(encoded.ids)) - 1][1]
        passages.append(f"Report {number}. {long[number % len(long)]}"[:end])
    return passages


def replay(
    variants: Sequence[tuple[Engine, Strategy]],
    questions: Sequence[tuple[int, ...]],
    passages: Sequence[str],
    num_warmup: int,
) -> list[list[ReplayedQuestion]]:
    """Ask every question of all variants in turn; return their results after the first `num_warmup` questions.

    Each variant has an engine of its own over the same models, so that machine noise affects all of them.
    """
    results = [list[ReplayedQuestion]() for _ in variants]
    for number, documents in enumerate(progress(questions, "asking")):
        prompt = _prompt(variants[0][0], [passages[one] for one in documents], number)
        variants[0][0].sampler(prompt, Trace(), TokenSampler())  # encode the passages once for all variants
        for (engine, strategy), result in zip(variants, results, strict=True):
            result.append(_ask(engine, strategy, prompt))
    return [result[num_warmup:] for result in results]


def _ask(engine: Engine, strategy: Strategy, prompt: PreparedPrompt) -> ReplayedQuestion:
    began, trace = time.perf_counter(), Trace()
    ready = engine.prefill(prompt, strategy, trace)
    engine.sampler(prompt, trace, TokenSampler()).sample(ready.logits)
    trace.first_token()
    engine.store_results(prompt, ready)
    busy_ms = 1e3 * (time.perf_counter() - began)
    lengths = [len(chunk.ids) for chunk in prompt.passages]
    hit_tokens = sum(n for n, tier in zip(lengths, ready.tiers, strict=True) if tier not in ("computed", "none"))
    assert trace.ttft_ms is not None
    return ReplayedQuestion(hit_tokens, sum(lengths), trace.ttft_ms, busy_ms, ready.num_path_chunks, len(lengths))


def _prompt(engine: Engine, chosen: Sequence[str], number: int) -> PreparedPrompt:
    prompt, question = engine.template, f"Which number belongs to the engine in report {number}?"
    return PreparedPrompt(
        texts=tuple(chosen),
        passages=tuple(prompt.passage(text) for text in chosen),
        standalone_question=question,
        original_question=question,
        suffix_ids=prompt.suffix_ids(Request(question).question),
        max_new_tokens=MAX_NEW_TOKENS,
    )
