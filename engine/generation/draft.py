"""Verify a drafted answer in one pass, as in speculative decoding (arXiv:2211.17192).

The draft comes from the same model on cached KV that was not recomputed, and it is a whole answer. Verification chooses
each of its tokens again from the logits after the final KV, with a sampler of the same seed, up to the first that
differs. So the answer is the one that is decoded without a draft (up to rounding, since the pass has several rows), at
any temperature; rejection sampling would keep only its distribution.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event

from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer
from engine.model.sampling import Sampler, extend


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
) -> list[int]:
    """Return the accepted tokens of a draft and the one that follows them. Raises Cancelled.

    Decoding continues with the tokens returned: the buffer holds the KV of all but the last.

    buffer   the prompt's KV
    logits   [V] of the token after the prompt
    draft    ids; may be empty
    sampler  in the state before the first token
    """
    first = sampler.sample(logits)
    if list(draft[:1]) != [first] or len(draft) == 1:
        return [first]
    return [first, *extend(decoder, buffer, first, draft[1:-1], sampler, cancel)]  # which samples the last one anyway
