"""The passages behind an answer as the page shows them: where each came from, and which of its text was recomputed."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.model.tokenizer import Encoded
from engine.prompt.builder import PreparedPrompt
from engine.request import Source, TextSpan


def retrieved(reading: PreparedPrompt) -> tuple[Source, ...]:
    """Return the passages as search found them, best first, before anything is computed."""
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
            recomputed=0,
            pieces=(TextSpan(text, recomputed=False),),
            chunk=hit.chunk.id,
        )
        for rank, (hit, text, encoded) in enumerate(zip(reading.hits, reading.texts, reading.passages, strict=True), 1)
    )


def with_recompute(
    sources: Sequence[Source],
    reading: PreparedPrompt,
    rows: Tensor,
    spans: Sequence[range],
    tiers: Sequence[str],
    path: int,
) -> tuple[Source, ...]:
    """Return the sources with what a plan did to them.

    rows   [R] slots that were recomputed, ascending
    spans  slots of each passage
    tiers  where each passage's KV came from
    path   leading passages whose KV was found as one exact path
    """
    marked = torch.zeros(spans[-1].stop if spans else 0, dtype=torch.bool)
    marked[rows] = True
    chosen = [marked[span.start : span.stop] for span in spans]
    parts = zip(sources, tiers, chosen, reading.texts, reading.passages, strict=True)
    return tuple(
        replace(
            source,
            tier=tier,
            found=_found(tier, number < path),
            recomputed=int(tokens.sum()),
            pieces=pieces(text, encoded, tokens),
        )
        for number, (source, tier, tokens, text, encoded) in enumerate(parts)
    )


def _found(tier: str, on_path: bool) -> str:
    if tier in ("none", "computed"):
        return "none" if tier == "none" else "miss"
    return "exact prefix hit" if on_path else "chunk hit"


def pieces(text: str, encoded: Encoded, chosen: Tensor) -> tuple[TextSpan, ...]:
    """Cut a passage's text where the tokens' fate changes; joined, the pieces are the text again.

    encoded  the tokens of the passage; their spans may reach past the text (the blank line behind it)
    chosen   [tokens] bool
    """
    fates = [False] * len(text)
    for (start, end), fresh in zip(encoded.spans, chosen.tolist(), strict=True):
        if fresh:
            fates[start:end] = [True] * (min(end, len(text)) - min(start, len(text)))
    cuts = [0, *(at for at in range(1, len(text)) if fates[at] != fates[at - 1]), len(text)]
    return tuple(TextSpan(text[a:b], fates[a]) for a, b in itertools.pairwise(cuts) if b > a)
