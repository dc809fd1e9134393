"""State of one session's Inspect page, kept on the server so that moving a slider runs no model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from engine.analysis.inspection import InspectedPassage, Inspection
from engine.generation.citations import quoted_spans
from engine.request import Answer, Request, Source


@dataclass(frozen=True, eq=False)
class InspectionSession:
    """An inspection, and what answers to its question have shown since."""

    inspection: Inspection
    request: Request
    quotes: tuple[tuple[int, int, int], ...] = ()  # passage rank, start and end of characters that the answer quotes
    # [T] bool by method and percent: tokens recomputed by methods that select during the forward pass
    observed: Mapping[tuple[str, int], np.ndarray] = field(default_factory=dict)

    def recompute_mask(self, method: str, percent: int) -> np.ndarray | None:
        """Return which tokens the method recomputes, [T] bool; None if this is only known after an answer."""
        if method in self.inspection.selections:
            return self.inspection.selections[method].mask_at(percent)
        return self.observed.get((method, percent))

    def with_answer(self, answer: Answer, percent: int) -> "InspectionSession":
        """Return the session with the answer's quotes and selection; unchanged if it read other passages or none."""
        texts = [passage.text for passage in self.inspection.passages]
        if answer.trace.ttft_ms is None or [source.text for source in answer.sources] != texts:
            return self
        method = answer.request.method
        observed = dict(self.observed)
        if method not in self.inspection.selections:
            masks = map(_observed_mask, answer.sources, self.inspection.passages)
            observed[method, percent] = np.concatenate([*masks])
        return replace(self, quotes=tuple(quoted_spans(answer.text, texts)), observed=observed)


def _observed_mask(source: Source, passage: InspectedPassage) -> np.ndarray:
    """Return which tokens of a passage start in a recomputed span of its source, [tokens] bool."""
    lengths = [len(span.text) for span in source.text_spans]
    by_character = np.repeat([span.recomputed for span in source.text_spans], lengths)
    return np.concatenate((by_character, [False])).astype(bool)[passage.spans[:, 0]]  # a token can start at the end
