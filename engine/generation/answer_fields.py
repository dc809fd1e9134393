"""Fill in the fields of an `Answer` as the request proceeds."""

from engine.kv.assemble import chunk_spans
from engine.prefill.prefill import PrefillResult
from engine.prompt.pack import PreparedPrompt
from engine.prompt.sources import retrieved_sources, with_recompute
from engine.request import Answer


def fill_prompt_fields(answer: Answer, prepared: PreparedPrompt, num_prefix_tokens: int, max_tokens: int) -> None:
    """Set what is known after retrieval: the sources and the lengths of the prompt's parts."""
    answer.state = "reading"
    answer.notes = prepared.notes
    answer.sources = retrieved_sources(prepared)
    answer.num_dropped_passages = prepared.num_dropped_chunks
    answer.question_tokens = len(prepared.suffix_ids)
    answer.context_tokens = prepared.context_tokens
    answer.prompt_tokens = num_prefix_tokens + answer.context_tokens + answer.question_tokens
    answer.max_tokens = max_tokens


def fill_prefill_fields(
    answer: Answer, prepared: PreparedPrompt, result: PrefillResult, num_prefix_tokens: int
) -> None:
    """Set what is known after prefill: where each passage's KV came from and what was recomputed."""
    answer.state = "writing"
    spans = chunk_spans(num_prefix_tokens, [len(ids) for ids in prepared.passage_ids])
    answer.sources = with_recompute(answer.sources, prepared, result.rows, spans, result.tiers, result.num_path_chunks)
    answer.recomputed_tokens = sum(source.recomputed_tokens for source in answer.sources)
    answer.actual_ratio = result.actual_ratio
