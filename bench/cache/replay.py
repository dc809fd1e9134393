"""The same kind of load on the real engine: invented passages, exact prefixes, CacheClip on top, or nothing reused."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.cache.workload import RequestStream
from bench.harness.workload import CHUNK_TOKENS, make_paragraph
from bench.tables import progress
from engine.engine import Engine
from engine.model.sampling import SamplingParams
from engine.prompt.pack import PreparedPrompt
from engine.request import Request
from engine.strategies import Strategy
from engine.trace import Trace

MAX_NEW_TOKENS = 16  # tokens of an answer that a buffer has room for; nothing is decoded


@dataclass(frozen=True, slots=True)
class ReplayedQuestion:
    """One question on the real engine. `busy_ms` counts what is done after the first token as well."""

    hit_tokens: int
    tokens: int
    ttft_ms: float
    busy_ms: float
    exact: int  # passages found as one exact path
    passages: int


def make_passages(engine: Engine, demand: RequestStream, seed: int) -> list[str]:
    """Return invented passages of the demand's lengths in tokens, to within a few."""
    draw, tokenizer = random.Random(seed), engine.prompt.tokenizer.data
    parts = -(-int(demand.tokens.max()) // (CHUNK_TOKENS - 8))
    long = [" ".join(make_paragraph(draw, tokenizer) for _ in range(parts)) for _ in range(8)]
    made = []
    for number, length in enumerate(demand.tokens):
        encoded = tokenizer.encode(f"Report {number}. {long[number % len(long)]}", add_special_tokens=False)
        end = encoded.offsets[min(int(length), len(encoded.ids)) - 1][1]
        made.append(f"Report {number}. {long[number % len(long)]}"[:end])
    return made


def replay(
    arms: Sequence[tuple[Engine, Strategy]], asked: Sequence[tuple[int, ...]], passages: Sequence[str], warm: int
) -> list[list[ReplayedQuestion]]:
    """Ask every question of all arms in turn; return for each arm what became of those behind the first `warm`.

    Each arm has an engine of its own, over the same models: a slow moment of the machine meets all of them.
    """
    results = [list[ReplayedQuestion]() for _ in arms]
    for number, documents in enumerate(progress(asked, "asking")):
        reading = _reading(arms[0][0], [passages[one] for one in documents], number)
        arms[0][0].sampler(reading, Trace(), SamplingParams())  # reads the passages once for all arms
        for (engine, strategy), mine in zip(arms, results, strict=True):
            mine.append(_ask(engine, strategy, reading))
    return [mine[warm:] for mine in results]


def _ask(engine: Engine, strategy: Strategy, reading: PreparedPrompt) -> ReplayedQuestion:
    began, trace = time.perf_counter(), Trace()
    ready = engine.prefill(reading, strategy, trace)
    engine.sampler(reading, trace, SamplingParams()).sample(ready.logits)
    trace.first_token()
    engine.store_results(reading, ready)
    busy_ms = 1e3 * (time.perf_counter() - began)
    lengths = [len(chunk.ids) for chunk in reading.passages]
    hit = sum(n for n, tier in zip(lengths, ready.tiers, strict=True) if tier not in ("computed", "none"))
    assert trace.ttft_ms is not None
    return ReplayedQuestion(hit, sum(lengths), trace.ttft_ms, busy_ms, ready.num_path_chunks, len(lengths))


def _reading(engine: Engine, chosen: Sequence[str], number: int) -> PreparedPrompt:
    prompt, question = engine.prompt, f"Which number belongs to the engine in report {number}?"
    return PreparedPrompt(
        texts=tuple(chosen),
        passages=tuple(prompt.passage(text) for text in chosen),
        standalone_question=question,
        original_question=question,
        suffix_ids=prompt.suffix_ids(Request(question).question),
        max_new_tokens=MAX_NEW_TOKENS,
    )
