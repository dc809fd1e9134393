"""Teach a model's first layers to ask: an adapter that only the question passes, over chunk KV that stays as it is.

The question's tokens look for what it needs in a few heads of these layers; taught, they find it in fewer layers. No
chunk is computed anew for it, since the passages' keys and values are those that the model has anyway.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from engine.finetune.lessons import Lessons
from engine.finetune.targets import Assembled, assembled
from engine.model.attention import visible, weighted, weights
from engine.model.decoder import Decoder
from engine.reuse.selector import Selector, offset_of, shares


class Asking:
    """A differentiable pass of a question over assembled chunks; stands in for a cache in transformers' layers.

    paid  of each layer that has run: [query heads, T], mean over the question's tokens, fp32
    """

    def __init__(self, read: Assembled, asked: int) -> None:
        self._buffer, self._context = read.buffer, slice(read.start, read.end)
        self.positions = torch.arange(read.end, read.end + asked)[None]
        self._mask = visible(self.positions[0], read.end + asked, torch.float32).to(read.buffer.keys.device)
        self.paid: list[Tensor] = []

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        held, end = self._buffer, self._context.stop
        return (
            torch.cat((held.keys[layer, None, :, :end], keys), dim=2),
            torch.cat((held.values[layer, None, :, :end], values), dim=2),
        )

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        with torch.autocast(query.device.type, enabled=False):
            found = weights(query, keys, scaling, self._mask)
            self.paid.append(found.mean(1)[:, self._context])
            return weighted(found, values).to(query.dtype)


def pointing_loss(asking: Decoder, read: Assembled, selector: Selector) -> Tensor:
    """Return the mean cross-entropy of the selector's scores with the targets of a lesson, in nats; differentiable."""
    behind, offsets, losses = slice(read.lengths[0], None), selector.offsets[offset_of(read.lengths)], []
    for asked, target in read.wanted:
        watched = Asking(read, len(asked))
        asking.differentiable(asked[None], watched.positions, watched)
        paid = torch.stack(watched.paid).cpu()
        score = torch.einsum("lh,lht->t", selector.heads, shares(paid)) * offsets
        share = (score[behind] / score[behind].sum()).clamp(min=1e-9)
        losses.append(-(target[behind] * share.log()).sum())
    return torch.stack(losses).mean()


def loss_of(decoder: Decoder, asking: Decoder, selector: Selector, lessons: Lessons) -> Callable[[int], Tensor]:
    """Return the loss of each lesson by its number; a lesson of one passage teaches nothing."""

    def loss(number: int) -> Tensor:
        lesson = lessons[number]
        if len(lesson.passages) > 1:
            with torch.autocast(decoder.device.type, enabled=False):
                read = assembled(decoder, lesson)
            if read.wanted:
                return pointing_loss(asking, read, selector)
        return torch.zeros((), requires_grad=True)

    return loss
