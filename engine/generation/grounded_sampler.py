"""Choose the tokens of an answer with a grounding's help (engine.generation.grounding)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

import torch
from torch import Tensor

from engine.generation.grounding import WEIGHT, QuoteState, SentenceScores
from engine.generation.span_scorer import SpanScorer
from engine.model.sampling import Sampler
from engine.model.tokenizer import Encoded
from engine.prompt.builder import PreparedPrompt
from engine.prompt.template import Prompt


@dataclass(frozen=True)
class GroundingModel:
    """What answers are held to, and who tells where in the passages it stands.

    pointer  None where only words tell
    """

    pointer: SpanScorer | None = None

    def sampler(
        self, chooser: Sampler, reading: PreparedPrompt, prompt: Prompt, cancel: Event | None = None
    ) -> "GroundedSampler":
        """Return what chooses the tokens of one reading's answer. Raises Cancelled between two passages."""
        pointed = (
            None if self.pointer is None else self.pointer.point(reading.standalone_question, reading.texts, cancel)
        )
        grounding = SentenceScores(reading.texts, reading.standalone_question, reading.original_question, pointed)
        return GroundedSampler(chooser, grounding, prompt.tokens.decode, prompt.stop_ids)

    def warm(self, text: str, passage: Encoded) -> None:
        """Read a passage before it is asked of; `passage` is the same as the primary reads it, and not needed."""
        if self.pointer is not None:
            self.pointer.warm(text)

    def forget(self, text: str) -> None:
        """Drop what was read of a passage."""
        if self.pointer is not None:
            self.pointer.forget(text)

    def clear(self) -> None:
        """Drop what was read."""
        if self.pointer is not None:
            self.pointer.clear()


class GroundedSampler:
    """Chooses the tokens of one answer, one after the other, with a grounding's help.

    chooser   chooses among the weighed logits
    text_of   the text of token ids
    stop_ids  end the answer
    """

    def __init__(
        self,
        chooser: Sampler,
        grounding: SentenceScores,
        text_of: Callable[[Sequence[int]], str],
        stop_ids: frozenset[int],
    ) -> None:
        self._chooser, self._grounding, self._text_of, self._stop_ids = chooser, grounding, text_of, stop_ids
        self._quote, self._part = QuoteState(), list[int]()
        self._last, self._before = list[int](), text_of([])

    def sample(self, logits: Tensor) -> int:
        """Return a token id for logits [V].

        What lies so far below the likeliest token that no worth could raise it above counts as worth the least.
        """
        reach = -WEIGHT * self._grounding.worst
        within = (logits >= logits.max() - reach).nonzero()[:, 0]
        lowered = [WEIGHT * self._worth(token) for token in within.tolist()]
        weighed = logits - reach
        weighed[within] = logits[within] + torch.tensor(lowered, device=logits.device)
        token = self._chooser.sample(weighed)
        self._write(token)
        return token

    def _worth(self, token: int) -> float:
        if token in self._stop_ids:
            return self._grounding.ended(self._quote)
        piece = self._piece(token)
        return self._quote.worth if piece is None else self._grounding.after(self._quote, piece).worth

    def _write(self, token: int) -> None:
        if (piece := self._piece(token)) is None:
            self._part.append(token)
        else:
            self._quote = self._grounding.after(self._quote, piece)
            self._last, self._part = [*self._part, token], []
            self._before = self._text_of(self._last)

    def _piece(self, token: int) -> str | None:
        """Return the text that a token adds; None while it ends inside a character.

        It is decoded behind the character before it: some tokenizers give the first token of a text no space.
        """
        text = self._text_of([*self._last, *self._part, token])
        return None if text.endswith("\ufffd") else text[len(self._before) :]
