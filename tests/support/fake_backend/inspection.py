"""A fake inspection service: random attention over the backend's texts, windows selected by it."""

import re

import numpy as np

from engine.analysis.inspection import (
    PERCENTS,
    InspectedPassage,
    Inspection,
    InspectionStep,
    RatioSelection,
    find_sinks,
    passage_slices,
    window_ranks,
)
from engine.prompt.validate import validate

LAYERS = 30
METHODS_WITH_RATIO = ("cacheclip", "oracle")
OTHER_METHODS = ("epic", "ape", "direct", "full")


class FakeInspection:
    """Inspects the backend's own texts; raises `error` if a test sets it. `requests` are those so far."""

    def __init__(self, backend):
        self._backend = backend
        self.requests = []
        self.error = None

    def inspect(self, request, cancel):
        validate(request)
        self.requests.append(request)
        yield InspectionStep("Running a full prefill of all passage tokens")
        if self.error:
            raise self.error
        cancel.wait(5 * self._backend.pace_s)
        names = [document.name for document in self._backend.documents()] or ["harbour-handbook.md"]
        texts = self._backend.texts
        passages = [inspected_passage(text, names[rank % len(names)], rank) for rank, text in enumerate(texts, start=1)]
        yield InspectionStep("Done", fake_inspection(passages, request.question, request.recompute_ratio))


def inspected_passage(text, document="harbour-handbook.md", rank=1):
    """Return a passage whose tokens are its words, each with the space before it."""
    spans = np.array([match.span() for match in re.finditer(r"\s*\S+", text)], dtype=np.int32)
    return InspectedPassage(document, None if rank == 2 else 10 * rank + 1, text, spans)


def fake_inspection(passages, question="Why?", ratio=0.2, layers=LAYERS, seed=0):
    """Return an inspection of these passages with attention as skewed as a real model's."""
    rng = np.random.default_rng(seed)
    lengths = tuple(len(passage.spans) for passage in passages)
    tokens = sum(lengths)
    primary = rng.lognormal(0, 1.5, (layers, tokens))
    primary[: layers // 2, 5::97] *= 500
    auxiliary = primary[-1] * rng.lognormal(0, 1, tokens)
    primary, auxiliary = primary / primary.sum(1, keepdims=True), auxiliary / auxiliary.sum()
    selections = {name: by_windows(auxiliary, lengths) for name in METHODS_WITH_RATIO}
    selections |= {name: RatioSelection.from_masks(np.zeros((1, tokens), bool)) for name in OTHER_METHODS}
    starts = np.zeros(tokens, bool)
    for part in passage_slices(lengths)[1:]:
        starts[part.start : part.start + 9] = True
    selections["epic"] = RatioSelection.from_masks(starts[None])
    curve = np.array([np.nan, *np.linspace(0.2, 1, PERCENTS - 1)])
    return Inspection(
        auxiliary=auxiliary,
        primary=primary,
        kl_auxiliary=0.8,
        kl_layers=np.linspace(2, 0, layers),
        jaccard_auxiliary=0.4,
        jaccard_layers=np.linspace(0.1, 1, layers),
        oracle_overlap={"cacheclip": 0.4, "epic": 0.1},
        ratio=ratio,
        passage_lengths=lengths,
        question=question,
        passages=tuple(passages),
        num_exact_passages=1,
        selections=selections,
        agreement={"auxiliary": curve, "cacheclip": curve**2, "random": curve**3},
        sinks=find_sinks(primary, lengths),
        window_ranks=np.stack([window_ranks(auxiliary, lengths), window_ranks(primary[-1], lengths)]),
    )


def by_windows(scores, lengths):
    """Select windows of 8 by rank until the ratio is reached; the first passage only at 100 %."""
    ranks = window_ranks(scores, lengths)
    window_of = np.repeat(np.arange(len(ranks)), [min(8, n - at) for n in lengths for at in range(0, n, 8)])
    onset = np.ceil(100 * ranks / len(ranks)).astype(int)[window_of]
    onset[: lengths[0]] = 100
    return RatioSelection.from_masks(onset[None] <= np.arange(PERCENTS)[:, None])
