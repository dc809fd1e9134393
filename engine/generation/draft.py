"""Verify a drafted answer in one pass, as in speculative decoding (arXiv:2211.17192).

The draft comes from the same model on cached KV that was not recomputed, and it is a whole answer. Verification chooses
each of its tokens again from the logits after the final KV, with a sampler of the same seed, up to the first that
differs. So the answer is the one that is decoded without a draft (up to rounding, since the pass has several rows), at
any temperature; rejection sampling would keep only its distribution.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event

import torch
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer, RowPass
from engine.model.sampling import Sampler

LOGITS_ROWS = 64  # rows whose logits are in memory together


@dataclass
class RecordingSampler:
    """Samples with another sampler and keeps the tokens, a stop token included."""

    sampler: Sampler
    tokens: list[int] = field(default_factory=list)

    def sample(self, logits: Tensor) -> int:
        token = self.sampler.sample(logits)
        self.tokens.append(token)
        return token


def verify(
    decoder: Decoder,
    buffer: KVBuffer,
    logits: Tensor,
    draft: Sequence[int],
    sampler: Sampler,
    cancel: Event | None = None,
) -> tuple[int, int]:
    """Return how many leading tokens of a draft are accepted, and the token that follows them. Raises Cancelled.

    The last token of a draft counts as the one that follows. Decoding continues with the token returned: the buffer
    holds the prompt and the accepted tokens.

    buffer   the prompt's KV
    logits   [V] of the token after the prompt
    draft    ids; none is a draft of which nothing is accepted
    sampler  as it was before the draft's first token
    """
    start = buffer.length
    if not draft:
        return 0, sampler.sample(logits)
    for accepted, row in enumerate(_draft_logits(decoder, buffer, logits, draft, cancel)):
        token = sampler.sample(row)
        if token != draft[accepted]:
            break
    buffer.length = start + accepted
    return accepted, token


def _draft_logits(
    decoder: Decoder, buffer: KVBuffer, logits: Tensor, draft: Sequence[int], cancel: Event | None
) -> Iterator[Tensor]:
    """Yield the logits [V] of each token of the draft, and compute the KV of all but the last."""
    yield logits
    if len(draft) == 1:
        return
    slots = torch.arange(buffer.length, buffer.length + len(draft) - 1)
    ids = torch.tensor(draft[:-1])
    hidden = decoder.forward(ids[None], buffer.positions(slots)[None], RowPass(buffer, slots), cancel)
    for block in hidden[0].split(LOGITS_ROWS):
        yield from decoder.logits(block)
