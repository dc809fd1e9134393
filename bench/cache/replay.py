"""RAGCache on the real engine: a replayed request stream with synthetic passages, and speculative prefill."""

import random
import statistics
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tokenizers import Tokenizer

from bench.cache.simulate import NO_CACHE
from bench.cache.workload import RequestStream, RequestStreamConfig, Served
from bench.harness.engine import first_token
from bench.harness.workload import CHUNK_TOKENS, GIB, Workload, make_paragraph
from bench.tables import progress
from engine.builder import Models, build_engine
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.prompt.pack import PreparedPrompt
from engine.prompt.template import PromptTemplate
from engine.prompt.text_finder import TextFinder
from engine.scheduler.speculation import MIN_REMAINING_MS
from engine.strategies import Strategy
from engine.trace import Trace
from store.types import Hit

Variants = Sequence[tuple[str, Strategy]]  # each with its eviction policy
MAX_NEW_TOKENS = 16  # space for an answer in the buffer; nothing is decoded
NEVER_MS = 1e12  # no retrieval takes that long, so nothing is speculated


def replay(
    arguments: Namespace, models: Models, variants: Variants, budget: float, skew: float, seed: int
) -> list[list[Served]]:
    """Ask all variants each question in turn, so that noise affects all alike; return the results after the warm-up.

    Each variant has an engine of its own over the same models, with `budget` GiB of memory and no disk tier.
    """
    documents = arguments.documents or 100
    count = arguments.questions or 60
    stream_config = RequestStreamConfig(documents, arguments.passages, skew, tuple(arguments.tokens), arguments.drift)
    stream = RequestStream(stream_config, seed)
    engines = []
    for policy, _ in variants:
        config = CacheHierarchyConfig(int(budget * GIB), 0, policy="lru" if policy == NO_CACHE else policy)
        tiers = CacheHierarchy(config, None, models.primary.device)
        engines.append(build_engine(models, lambda tokenizer: TextFinder(), tiers, arguments.data))
    passages = _make_passages(engines[0].template.tokenizer.data, stream, seed)
    questions = list(stream.questions(count // 2 + count))
    results: list[list[Served]] = [[] for _ in variants]
    for number, chosen in enumerate(progress(questions, "asking")):
        prompt = _prompt(engines[0].template, [passages[one] for one in chosen], number)
        for engine, (_, strategy), result in zip(engines, variants, results, strict=True):
            result.append(_ask(engine, strategy, prompt))
    return [result[count // 2 :] for result in results]


def _make_passages(tokenizer: Tokenizer, stream: RequestStream, seed: int) -> list[str]:
    """Return random passages of the stream's lengths in tokens, to within a few."""
    rng = random.Random(seed)
    parts = -(-int(stream.tokens.max()) // (CHUNK_TOKENS - 8))
    long = [" ".join(make_paragraph(rng, tokenizer) for _ in range(parts)) for _ in range(8)]
    passages = []
    for number, length in enumerate(stream.tokens):
        text = f"Report {number}. {long[number % len(long)]}"
        encoded = tokenizer.encode(text, add_special_tokens=False)
        end = encoded.offsets[min(int(length), len(encoded.ids)) - 1][1]
        passages.append(text[:end])
    return passages


def _prompt(template: PromptTemplate, texts: Sequence[str], number: int) -> PreparedPrompt:
    question = f"Which number belongs to the engine in report {number}?"
    passages = tuple(template.passage(text) for text in texts)
    suffix_ids = template.suffix_ids(question)
    return PreparedPrompt(tuple(texts), passages, question, question, suffix_ids, MAX_NEW_TOKENS)


def _ask(engine: Engine, strategy: Strategy, prompt: PreparedPrompt) -> Served:
    began = time.perf_counter()
    result, ttft_ms = first_token(engine, prompt, strategy, Trace())
    if strategy.reuses_kv:
        engine.store_results(prompt, result)
    busy_ms = 1e3 * (time.perf_counter() - began)
    sources = zip(prompt.passage_ids, result.tiers, strict=True)
    hit_tokens = sum(len(ids) for ids, tier in sources if tier not in ("computed", "none"))
    is_full_hit = result.num_path_chunks == len(prompt.passages)
    return Served(hit_tokens, prompt.context_tokens, ttft_ms, busy_ms, is_full_hit)


def _delay_last_stage(engine: Engine, extra_ms: float) -> None:
    """Delay the last search stage, as by a cross-encoder; the hits stay the same."""
    search = engine.finder.retrieve_stages

    def slow_search(question: str, top_k: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        *_, hits = search(question, top_k, documents)
        yield hits
        time.sleep(extra_ms / 1e3)
        yield hits

    engine.finder.retrieve_stages = slow_search  # type: ignore[method-assign]


def compare_speculation(work: Workload, extra_ms: float) -> dict[str, Any]:
    """Ask each question without speculation and with it; return a row of medians, in milliseconds."""
    _delay_last_stage(work.engine, extra_ms)
    plain_ms, speculative_ms, same = list[float](), list[float](), list[bool]()
    for number in progress(work.numbers, f"{extra_ms:g} ms last stage"):
        request = replace(work.request(number), method="full", max_new_tokens=8)
        answers = []
        for min_remaining_ms, ttfts_ms in ((NEVER_MS, plain_ms), (MIN_REMAINING_MS, speculative_ms)):
            work.engine.speculator.min_remaining_ms = min_remaining_ms
            *_, answer = work.engine.ask(request)
            assert answer.trace.ttft_ms is not None
            ttfts_ms.append(answer.trace.ttft_ms)
            answers.append(answer.text)
        same.append(answers[0] == answers[1])
    ttft_ms, plain_ttft_ms = statistics.median(speculative_ms[1:]), statistics.median(plain_ms[1:])
    return {
        "show": "speculation",
        "stage_ms": extra_ms,
        "ttft_ms": ttft_ms,
        "plain_ttft_ms": plain_ttft_ms,
        "gained_ms": plain_ttft_ms - ttft_ms,
        "same_answers": sum(same[1:]),
        "n": len(work.numbers) - 1,
    }
