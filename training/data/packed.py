"""One differentiable pass over a lesson: passages read as the engine reads them, then every question behind them.

The rows are [prefix and passages | recomputed rows again | questions with their answers]. Many questions share one
reading of the passages; none sees another. The attention is the engine's own, law for law (chunk KV computed behind the
prefix, keys moved, chosen rows computed again), only without a buffer that is written in place, so that gradients pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.attention import visible
from engine.model.decoder import Decoder


@dataclass(frozen=True)
class PackedExample:
    """Passages, and what is asked about them.

    prefix     ids of the shared prefix
    passages   ids of each passage
    questions  ids behind the passages, up to where the answer begins, and the answer's ids with its end mark
    apart      passages are read blind to one another, as chunk KV is; else all in one (full prefill)
    fresh      ascending slots that are computed again, seeing all before them; only when read apart
    """

    prefix: tuple[int, ...]
    passages: tuple[tuple[int, ...], ...]
    questions: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    apart: bool
    fresh: tuple[int, ...] = ()

    @property
    def context(self) -> tuple[int, ...]:
        return self.prefix + tuple(token for passage in self.passages for token in passage)


class PackedPass:
    """What the rows of a lesson see; stands in for a cache in transformers' layers."""

    def __init__(self, lesson: PackedExample, inv_freq: Tensor, dtype: torch.dtype, device: torch.device) -> None:
        prefix, context = len(lesson.prefix), len(lesson.context)
        self._apart = lesson.apart
        self._fresh = torch.tensor(lesson.fresh, dtype=torch.long, device=device)
        chunks = [prefix, *map(len, lesson.passages)] if lesson.apart else [context]
        local = torch.cat([torch.arange(length) + (prefix if number else 0) for number, length in enumerate(chunks)])
        asked = [torch.arange(len(question) + len(answer) - 1) for question, answer in lesson.questions]
        own = torch.cat([torch.full_like(rows, number) for number, rows in enumerate(asked)])
        offsets = torch.cat(asked)
        fresh = self._fresh.cpu()
        self.positions = torch.cat((local, fresh, context + offsets))[None]
        self.ids = torch.tensor(
            [
                *lesson.context,
                *(lesson.context[slot] for slot in lesson.fresh),
                *(token for question, answer in lesson.questions for token in (question + answer)[:-1]),
            ]
        )[None]
        angle = (torch.arange(context) - local)[:, None].float() * inv_freq.cpu().float()
        self._cos, self._sin = (part.repeat(1, 2).to(device) for part in (angle.cos(), angle.sin()))
        hidden = torch.ones(len(fresh) + len(own), context + len(own), dtype=torch.bool)
        hidden[: len(fresh), :context] = torch.arange(context)[None] > fresh[:, None]
        hidden[len(fresh) :, :context] = False
        hidden[len(fresh) :, context:] = (own[:, None] != own[None]) | (offsets[None] > offsets[:, None])
        self._mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf")).to(device)
        self._sizes = [*chunks, len(fresh), len(own)]
        longest = max(chunks[0], *(prefix + length for length in chunks[1:])) if lesson.apart else context
        self._causal = visible(torch.arange(longest), longest, dtype)[0, 0].to(device)

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        return keys, values

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        *chunk_rows, again_rows, asking = (query[0] * scaling).split(self._sizes, dim=1)
        *chunks, again, own = torch.stack((keys[0], values[0])).split(self._sizes, dim=2)  # [2, H, tokens, D] each
        mixed = [_attend(rows, *self._behind_prefix(number, chunks)) for number, rows in enumerate(chunk_rows)]
        context = torch.cat(chunks, dim=2)
        if self._apart:
            context = torch.stack((self._moved(context[0]), context[1]))
        context = context.index_copy(2, self._fresh, again)
        mixed.append(_attend(torch.cat((again_rows, asking), dim=1), torch.cat((context, own), dim=2), self._mask))
        return torch.cat(mixed, dim=1)[None]

    def _behind_prefix(self, number: int, chunks: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return what the rows of a chunk see, [2, H, T, D], and their mask [R, T]; the prefix is the first chunk."""
        held = torch.cat((chunks[0], chunks[number]), dim=2) if number else chunks[0]
        rows, end = chunks[number].shape[2], held.shape[2]
        return held, self._causal[end - rows : end, :end]

    def _moved(self, keys: Tensor) -> Tensor:
        first, second = keys.float().chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        return (keys.float() * self._cos + turned * self._sin).to(keys.dtype)


def _attend(query: Tensor, held: Tensor, mask: Tensor) -> Tensor:
    """Return attention [query heads, R, D], written out: on a CPU its gradient takes half the fused kernel's time.

    query  [query heads, R, D], scaled
    held   [2, H, T, D], keys and values
    mask   additive, [R, T]
    """
    heads, rows, width = query.shape
    keys, values = held
    shared = (len(keys), heads // len(keys) * rows)  # a key head serves its query heads at once
    logits = torch.bmm(query.reshape(*shared, width), keys.transpose(1, 2)).view(heads, rows, -1) + mask
    return torch.bmm(logits.softmax(-1).view(*shared, -1), values).view(heads, rows, width)


def answer_logits(decoder: Decoder, lesson: PackedExample) -> tuple[Tensor, Tensor]:
    """Return the logits [tokens, V] in fp32 that the answers' tokens [tokens] are drawn from; differentiable."""
    rows = PackedPass(lesson, decoder.spec.inv_freq, decoder.dtype, decoder.device)
    hidden = decoder.differentiable(rows.ids, rows.positions, rows)
    at, targets, start = list[int](), list[int](), len(lesson.context) + len(lesson.fresh)
    for question, answer in lesson.questions:
        at += range(start + len(question) - 1, start + len(question) + len(answer) - 1)
        targets += answer
        start += len(question) + len(answer) - 1
    return decoder.differentiable_logits(hidden[0, at]), torch.tensor(targets, device=decoder.device)


def answer_loss(decoder: Decoder, lesson: PackedExample) -> Tensor:
    """Return the mean cross-entropy of the answers' tokens, in nats; differentiable."""
    return F.cross_entropy(*answer_logits(decoder, lesson))
