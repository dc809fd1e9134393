"""What one session has inspected: kept on the server, so that a slider needs no model and sends nothing back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from engine.analysis.report import Inspection
from engine.generation.citations import quoted
from engine.request import Answer, Source

Choice = tuple[str, int]  # a method and a ratio in percent


@dataclass(frozen=True, eq=False)
class Held:
    """An inspection and what was learnt by asking its question since.

    passages   how many passages were asked for
    cited      (passage from 1, start, end): characters that the last answer rests on
    ran        [T] bool by choice: what a method that decides on its way has recomputed
    documents  ids of those that were searched; empty: all
    """

    found: Inspection
    passages: int
    cited: tuple[tuple[int, int, int], ...] = ()
    ran: Mapping[Choice, np.ndarray] = field(default_factory=dict)
    documents: tuple[str, ...] = ()

    def taken(self, method: str, percent: int) -> np.ndarray | None:
        """Return which tokens the method recomputes, [T] bool; None where only asking can tell."""
        if method in self.found.selections:
            return self.found.selections[method].at(percent)
        return self.ran.get((method, percent))

    def after(self, answer: Answer, percent: int) -> "Held":
        """Return what is known once the question was answered; the same if it was not, or other passages were read."""
        texts = [excerpt.text for excerpt in self.found.excerpts]
        if answer.trace.ttft_ms is None or [source.text for source in answer.sources] != texts:
            return self
        cited = quoted(answer.text, texts)
        choice = (answer.request.method, percent)
        if choice[0] in self.found.selections:
            return replace(self, cited=tuple(cited))
        return replace(self, cited=tuple(cited), ran={**self.ran, choice: self._recomputed(answer.sources)})

    def _recomputed(self, sources: Sequence[Source]) -> np.ndarray:
        """Return which tokens stand in recomputed pieces, [T] bool."""
        tokens = []
        for source, excerpt in zip(sources, self.found.excerpts, strict=True):
            lengths = [len(piece.text) for piece in source.pieces]
            fresh = np.repeat([piece.recomputed for piece in source.pieces], lengths)
            tokens.append(np.concatenate((fresh, [False]))[excerpt.spans[:, 0]])  # the last token may lie behind
        return np.concatenate(tokens).astype(bool)
