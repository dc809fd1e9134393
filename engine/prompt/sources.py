"""The passages of an answer as the UI shows them: where their KV came from and which of their text was recomputed."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.model.tokenizer import TokenizedText
from engine.prompt.pack import PreparedPrompt
from engine.request import Source, TextSpan


def retrieved_sources(prepared: PreparedPrompt) -> tuple[Source, ...]:
    """Return the passages of a prompt before prefill."""
    passages = zip(prepared.hits, prepared.texts, prepared.passages, strict=True)
    return tuple(
        Source(
            rank=rank,
            document=hit.chunk.document_name,
            document_id=hit.chunk.document_id,
            page=hit.chunk.page,
            similarity=hit.similarity,
            matched_words=hit.matched_words,
            tokens=len(encoded.ids),
            tier="none",
            recomputed_tokens=0,
            text_spans=(TextSpan(text, recomputed=False),),
            chunk=hit.chunk.id,
        )
        for rank, (hit, text, encoded) in enumerate(passages, start=1)
    )


def with_recompute(
    sources: Sequence[Source],
    prepared: PreparedPrompt,
    rows: Tensor,
    spans: Sequence[range],
    tiers: Sequence[str],
    num_path_chunks: int,
) -> tuple[Source, ...]:
    """Return the sources with the result of the prefill.

    rows             [R] recomputed slots, ascending
    spans            slots of each passage
    tiers            where each passage's KV came from
    num_path_chunks  leading passages whose KV was found as one exact prefix
    """
    is_recomputed = torch.zeros(spans[-1].stop if spans else 0, dtype=torch.bool)
    is_recomputed[rows] = True
    passages = zip(sources, spans, tiers, prepared.texts, prepared.passages, strict=True)
    filled = []
    for index, (source, span, tier, text, encoded) in enumerate(passages):
        tokens = is_recomputed[span.start : span.stop]
        filled.append(
            replace(
                source,
                tier=tier,
                cache_result=_cache_result(tier, index < num_path_chunks),
                recomputed_tokens=int(tokens.sum()),
                text_spans=split_spans(text, encoded, tokens),
            )
        )
    return tuple(filled)


def _cache_result(tier: str, is_on_path: bool) -> str:
    if tier == "none":
        return "none"
    if tier == "computed":
        return "miss"
    return "exact prefix hit" if is_on_path else "chunk hit"


def split_spans(text: str, encoded: TokenizedText, is_recomputed: Tensor) -> tuple[TextSpan, ...]:
    """Split a passage's text wherever recomputed and reused tokens meet; the spans joined are the text.

    encoded        the passage's tokens; their character spans may extend past the text (the blank line after it)
    is_recomputed  [tokens] bool
    """
    flags = [False] * len(text)
    for (start, end), recomputed in zip(encoded.spans, is_recomputed.tolist(), strict=True):
        if recomputed:
            flags[start:end] = [True] * (min(end, len(text)) - min(start, len(text)))
    cuts = [0, *(at for at in range(1, len(text)) if flags[at] != flags[at - 1]), len(text)]
    return tuple(TextSpan(text[a:b], flags[a]) for a, b in itertools.pairwise(cuts) if b > a)
