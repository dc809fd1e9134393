"""Which tokens' recomputing would help a question most: what a selector learns to point at.

Per context token: the attention that the question pays to it in a full prefill, times how far its cached value lies
from the full prefill's, summed over the layers. That is, to first order, how far the question's own hidden states move
when the token is left as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.finetune.packed import Lesson
from engine.model.buffer import KVBuffer, Watched
from engine.model.decoder import Decoder
from engine.prompt import ASKED_TOKENS
from engine.reuse.assemble import assemble
from engine.reuse.chunks import prefill_chunk
from engine.reuse.selector import shares
from engine.reuse.windows import budgeted
from engine.types import ChunkKV


@dataclass(frozen=True)
class Assembled:
    """A lesson's chunks, joined as reuse joins them, and what its questions want.

    buffer   prefix and chunks, with room for a question behind them
    start    slot of the first chunk's first token
    lengths  tokens of each chunk, T in sum
    wanted   of each question that has one: its ids [Q], and the target [T], which sums to 1 and is nothing for the
             first chunk, since that is exact
    """

    buffer: KVBuffer
    start: int
    lengths: tuple[int, ...]
    wanted: tuple[tuple[Tensor, Tensor], ...]

    @property
    def end(self) -> int:
        return self.start + sum(self.lengths)


@torch.no_grad()
def assembled(decoder: Decoder, lesson: Lesson) -> Assembled:
    """Return a lesson of two passages or more, read both ways."""
    start, context = len(lesson.prefix), torch.tensor(lesson.context)
    whole = decoder.buffer(len(context) + ASKED_TOKENS)
    decoder.prefill(context, whole, torch.arange(len(context)))
    prefix = ChunkKV(whole.keys[:, :, :start], whole.values[:, :, :start], 0)
    chunks = [prefill_chunk(decoder, prefix, ids) for ids in lesson.passages]
    joined = decoder.buffer(whole.capacity)
    assemble(joined, prefix, chunks, decoder.spec.inv_freq)
    moved = (whole.values - joined.values)[:, :, start : len(context)].float().norm(dim=-1).mean(1)  # [L, T]
    moved /= whole.values[:, :, start : len(context)].float().norm(dim=-1).mean((1, 2))[:, None]
    moved[:, : len(lesson.passages[0])] = 0.0
    moved, wanted = moved.cpu(), []  # attention is watched there, wherever the model is
    for question, _ in lesson.questions:
        asked = torch.tensor(question[-ASKED_TOKENS:])
        helps = (_watched(decoder, whole, asked, len(context)).mean(1)[:, start:] * moved).sum(0)
        if helps.sum() > 0:
            wanted.append((asked, helps / helps.sum()))
    return Assembled(joined, start, tuple(map(len, lesson.passages)), tuple(wanted))


@dataclass(frozen=True)
class Sample:
    """One question over assembled chunks.

    attention  [layers, query heads, T] in fp16, what each head pays to the context; each row sums to 1
    target     [T], sums to 1; nothing for the first chunk
    lengths    tokens of each chunk
    """

    attention: Tensor
    target: Tensor
    lengths: tuple[int, ...]


@torch.inference_mode()
def samples(decoder: Decoder, lesson: Lesson, asking: Decoder | None = None) -> list[Sample]:
    """Return one sample for each question of a lesson of two passages or more.

    asking  the layers that the question passes; None: the model's own, all of them
    """
    read = assembled(decoder, lesson)
    return [
        Sample(
            shares(_watched(asking or decoder, read.buffer, asked, read.end)[:, :, read.start :]).half(),
            target,
            read.lengths,
        )
        for asked, target in read.wanted
    ]


def agreement(data: Sequence[Sample], score: Callable[[Sample], Tensor], ratio: float = 0.2) -> float:
    """Return the share of the target that the windows with the best scores hold at this ratio, mean over samples."""
    held = []
    for sample in data:
        chosen = budgeted(score(sample), list(sample.lengths), ratio, exact=1)
        held.append(float(sample.target[chosen].sum()))
    return sum(held) / len(held)


def _watched(decoder: Decoder, buffer: KVBuffer, asked: Tensor, context: int) -> Tensor:
    """Return the attention that a question behind the context pays to it, [L, query heads, context]."""
    rows = torch.arange(context, context + len(asked))
    watched = Watched(buffer, rows, len(rows))
    decoder.forward(asked[None], rows[None], watched)
    return watched.attention[:, :, :context]
