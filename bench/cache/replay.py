"""Replay a request stream on the real engine, with synthetic passages."""

import random
import time
from collections.abc import Sequence

from bench.cache.workload import RequestStream, Served
from bench.harness.engine import first_token
from bench.harness.workload import CHUNK_TOKENS, make_paragraph
from bench.tables import progress
from engine.engine import Engine
from engine.model.sampling import SamplingParams
from engine.prompt.pack import PreparedPrompt
from engine.strategies import Strategy
from engine.trace import Trace

MAX_NEW_TOKENS = 16  # space for an answer in the buffer; nothing is decoded


def make_passages(engine: Engine, stream: RequestStream, seed: int) -> list[str]:
    """Return random passages of the stream's lengths in tokens, to within a few."""
    rng, tokenizer = random.Random(seed), engine.template.tokenizer.data
    parts = -(-int(stream.tokens.max()) // (CHUNK_TOKENS - 8))
    long = [" ".join(make_paragraph(rng, tokenizer) for _ in range(parts)) for _ in range(8)]
    passages = []
    for number, length in enumerate(stream.tokens):
        text = f"Report {number}. {long[number % len(long)]}"
        encoded = tokenizer.encode(text, add_special_tokens=False)
        end = encoded.offsets[min(int(length), len(encoded.ids)) - 1][1]
        passages.append(text[:end])
    return passages


def replay(
    variants: Sequence[tuple[Engine, Strategy]],
    questions: Sequence[tuple[int, ...]],
    passages: Sequence[str],
    num_warmup: int,
) -> list[list[Served]]:
    """Ask every question of all variants in turn; return their results after the first `num_warmup` questions.

    Each variant has an engine of its own over the same models, so that machine noise affects all of them.
    """
    first_engine, _ = variants[0]
    results: list[list[Served]] = [[] for _ in variants]
    for number, documents in enumerate(progress(questions, "asking")):
        prompt = _prompt(first_engine, [passages[one] for one in documents], number)
        first_engine.sampler(prompt, Trace(), SamplingParams())  # encode the passages once for all variants
        for (engine, strategy), result in zip(variants, results, strict=True):
            result.append(_ask(engine, strategy, prompt))
    return [result[num_warmup:] for result in results]


def _ask(engine: Engine, strategy: Strategy, prompt: PreparedPrompt) -> Served:
    began = time.perf_counter()
    result, ttft_ms = first_token(engine, prompt, strategy, Trace())
    engine.store_results(prompt, result)
    busy_ms = 1e3 * (time.perf_counter() - began)
    sources = zip(prompt.passage_ids, result.tiers, strict=True)
    hit_tokens = sum(len(ids) for ids, tier in sources if tier not in ("computed", "none"))
    is_full_hit = result.num_path_chunks == len(prompt.passages)
    return Served(hit_tokens, prompt.context_tokens, ttft_ms, busy_ms, is_full_hit)


def _prompt(engine: Engine, texts: Sequence[str], number: int) -> PreparedPrompt:
    template, question = engine.template, f"Which number belongs to the engine in report {number}?"
    passages = tuple(template.passage(text) for text in texts)
    suffix_ids = template.suffix_ids(question)
    return PreparedPrompt(tuple(texts), passages, question, question, suffix_ids, MAX_NEW_TOKENS)
