"""Propose the next tokens of an answer by its last ones: prompt-lookup decoding, vLLM's "ngram" speculation.

An answer from documents repeats runs of the prompt. After two tokens that occurred before, what followed them there is
proposed; one pass of the model then checks all of it. Source: github.com/apoorvumang/prompt-lookup-decoding (2023).
"""

from collections.abc import Sequence

NGRAM_SIZES = (3, 2)  # tokens that must match, the longest first
MAX_PROPOSED = 6  # tokens; a pass over seven rows takes little longer than one over a single row


class PromptLookup:
    """The tokens of a prompt and its answer, with the last place of each n-gram."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}  # by n-gram: the position after it
        for token in prompt:
            self.append(token)

    def append(self, token: int) -> None:
        """Add a token of the answer. An n-gram is found only once a token follows it."""
        end = len(self._tokens)
        for size in NGRAM_SIZES:
            if end >= size:
                self._ends[tuple(self._tokens[end - size :])] = end
        self._tokens.append(token)

    def propose(self) -> list[int]:
        """Return what followed the last tokens at their last earlier place; empty if they are new."""
        for size in NGRAM_SIZES:
            if (end := self._ends.get(tuple(self._tokens[-size:]))) is not None:
                return self._tokens[end : end + MAX_PROPOSED]
        return []
