"""Sample the tokens of an answer with sentence scores added to the logits (engine.generation.grounding)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

import torch
from torch import Tensor

from engine.generation.grounding import SENTENCE_WEIGHT, QuoteState, SentenceScores
from engine.generation.span_scorer import SpanScorer
from engine.model.sampling import Sampler
from engine.prompt.pack import PreparedPrompt
from engine.prompt.template import PromptTemplate


@dataclass(frozen=True)
class GroundingModel:
    """What grounded decoding needs beyond the prompt.

    span_scorer  None to score sentences by their words alone
    """

    span_scorer: SpanScorer | None = None

    def sampler(
        self, sampler: Sampler, prepared: PreparedPrompt, prompt: PromptTemplate, cancel: Event | None = None
    ) -> "GroundedSampler":
        """Return the sampler for one answer. Raises Cancelled between two passages once `cancel` is set."""
        question = prepared.standalone_question
        span_scores = None if self.span_scorer is None else self.span_scorer.score(question, prepared.texts, cancel)
        scores = SentenceScores(prepared.texts, question, prepared.original_question, span_scores)
        return GroundedSampler(sampler, scores, prompt.tokenizer.decode, prompt.stop_ids)


class GroundedSampler:
    """Samples one answer token by token from logits plus sentence scores (shallow fusion).

    sampler   samples from the fused logits
    decode    returns the text of token ids
    stop_ids  of the tokens that end the answer
    """

    def __init__(
        self,
        sampler: Sampler,
        scores: SentenceScores,
        decode: Callable[[Sequence[int]], str],
        stop_ids: frozenset[int],
    ) -> None:
        self._sampler = sampler
        self._scores = scores
        self._decode = decode
        self._stop_ids = stop_ids
        self._state = QuoteState()
        self._last_ids = list[int]()  # of the last complete piece
        self._last_text = decode([])
        self._pending_ids = list[int]()  # of a character that is still incomplete

    def sample(self, logits: Tensor) -> int:
        """Return a token id for logits [V].

        Tokens that lie so far below the most likely one that no score could lift them above it get the minimum score.
        """
        margin = -SENTENCE_WEIGHT * self._scores.min_score
        candidates = (logits >= logits.max() - margin).nonzero()[:, 0]
        bonuses = [SENTENCE_WEIGHT * self._token_score(token) for token in candidates.tolist()]
        fused = logits - margin
        fused[candidates] = logits[candidates] + torch.tensor(bonuses, device=logits.device)
        token = self._sampler.sample(fused)
        self._append(token)
        return token

    def _token_score(self, token: int) -> float:
        if token in self._stop_ids:
            return self._scores.end_score(self._state)
        piece = self._piece(token)
        return self._state.score if piece is None else self._scores.advance(self._state, piece).score

    def _append(self, token: int) -> None:
        if (piece := self._piece(token)) is None:
            self._pending_ids.append(token)
        else:
            self._state = self._scores.advance(self._state, piece)
            self._last_ids = [*self._pending_ids, token]
            self._last_text = self._decode(self._last_ids)
            self._pending_ids = []

    def _piece(self, token: int) -> str | None:
        """Return the text that a token adds; None if it ends inside a character.

        It is decoded together with the piece before it: some tokenizers drop the space of the first token of a text.
        """
        text = self._decode([*self._last_ids, *self._pending_ids, token])
        return None if text.endswith("\ufffd") else text[len(self._last_text) :]
