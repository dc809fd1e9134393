"""One differentiable pass over a packed example: the passages as the engine prefills them, then every question.

The rows are [prefix and passages | recomputed rows | questions with their answers]. The questions are masked from one
another. The attention is the engine's own, but no buffer is written in place, so that gradients pass through.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.attention import causal_mask
from engine.model.decoder import Decoder

Ids = tuple[int, ...]  # token ids


@dataclass(frozen=True)
class PackedExample:
    """Passages and questions about them, as token ids."""

    prefix: Ids
    passages: tuple[Ids, ...]
    questions: tuple[tuple[Ids, Ids], ...]  # what stands between passages and answer; the answer with its end token
    is_independent: bool  # the passages do not attend to one another, as in chunk KV; otherwise full prefill
    recomputed: tuple[int, ...] = ()  # ascending slots that attend to everything before; only if independent

    @property
    def context(self) -> Ids:
        return self.prefix + tuple(token for passage in self.passages for token in passage)


class PackedPass:
    """Positions, attention masks and attention of a packed example; replaces the cache in transformers' layers."""

    def __init__(self, example: PackedExample, inv_freq: Tensor, dtype: torch.dtype, device: torch.device) -> None:
        prefix_length = len(example.prefix)
        context_length = len(example.context)
        recomputed = torch.tensor(example.recomputed, dtype=torch.long)
        chunk_lengths = [prefix_length, *map(len, example.passages)] if example.is_independent else [context_length]
        chunk_positions = torch.cat(
            [torch.arange(length) + (prefix_length if index else 0) for index, length in enumerate(chunk_lengths)]
        )
        question_offsets = [torch.arange(len(question) + len(answer) - 1) for question, answer in example.questions]
        question_index = torch.cat([torch.full_like(rows, index) for index, rows in enumerate(question_offsets)])
        offsets = torch.cat(question_offsets)
        last_positions = torch.cat((recomputed, context_length + offsets))
        self.positions = torch.cat((chunk_positions, last_positions))[None]
        self.ids = torch.tensor(
            [
                *example.context,
                *(example.context[slot] for slot in example.recomputed),
                *(token for question, answer in example.questions for token in (question + answer)[:-1]),
            ]
        )[None]
        angle = (torch.arange(context_length) - chunk_positions)[:, None].float() * inv_freq.cpu().float()
        self._cos, self._sin = (part.repeat(1, 2).to(device) for part in (angle.cos(), angle.sin()))
        key_positions = torch.cat((torch.arange(context_length), context_length + offsets))
        hidden = key_positions[None] > last_positions[:, None]
        hidden[len(recomputed) :, context_length:] |= question_index[:, None] != question_index[None]
        self._mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf")).to(device)
        self._is_independent = example.is_independent
        self._recomputed = recomputed.to(device)
        self._sizes = [*chunk_lengths, len(recomputed), len(offsets)]
        self._causal = causal_mask(torch.arange(context_length), context_length, dtype)[0, 0].to(device)

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return keys, values

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        *chunk_rows, recomputed_rows, question_rows = (query[0] * scaling).split(self._sizes, dim=1)
        *chunks, recomputed, questions = torch.stack((keys[0], values[0])).split(self._sizes, dim=2)  # [2, H, T, D]
        outputs = []
        for index, rows in enumerate(chunk_rows):
            kv = torch.cat((chunks[0], chunks[index]), dim=2) if index else chunks[0]  # chunk 0 is the prefix
            end = kv.shape[2]
            outputs.append(_attend(rows, kv, self._causal[end - rows.shape[1] : end, :end]))
        context = torch.cat(chunks, dim=2)
        if self._is_independent:
            context = torch.stack((self._rerotate(context[0]), context[1]))
        context = context.index_copy(2, self._recomputed, recomputed)
        last_rows = torch.cat((recomputed_rows, question_rows), dim=1)
        outputs.append(_attend(last_rows, torch.cat((context, questions), dim=2), self._mask))
        return torch.cat(outputs, dim=1)[None]

    def _rerotate(self, keys: Tensor) -> Tensor:
        """Return keys [H, T, D] moved from their chunk's positions to those in the context (RoPE)."""
        first, second = keys.float().chunk(2, dim=-1)
        rotated_half = torch.cat((-second, first), dim=-1)
        return (keys.float() * self._cos + rotated_half * self._sin).to(keys.dtype)


def _attend(query: Tensor, kv: Tensor, mask: Tensor) -> Tensor:
    """Return attention [query heads, R, D]; on a CPU its gradient takes half the time of the fused kernel's.

    query  [query heads, R, D], scaled
    kv     [2, H, T, D]
    mask   additive, [R, T]
    """
    heads, rows, width = query.shape
    keys, values = kv
    grouped = (len(keys), heads // len(keys) * rows)  # one product per KV head (grouped-query attention)
    logits = torch.bmm(query.reshape(*grouped, width), keys.transpose(1, 2)).view(heads, rows, -1) + mask
    return torch.bmm(logits.softmax(-1).view(*grouped, -1), values).view(heads, rows, width)


def answer_logits(decoder: Decoder, example: PackedExample) -> tuple[Tensor, Tensor]:
    """Return the logits [tokens, V] in fp32 that predict the answers' tokens, and these [tokens]; differentiable."""
    rows = PackedPass(example, decoder.spec.inv_freq, decoder.dtype, decoder.device)
    hidden = decoder.forward(rows.ids, rows.positions, rows, with_grad=True)
    predicting_rows = list[int]()
    targets = list[int]()
    start = len(example.context) + len(example.recomputed)
    for question, answer in example.questions:
        end = start + len(question) + len(answer) - 1
        predicting_rows += range(end - len(answer), end)
        targets += answer
        start = end
    return decoder.logits(hidden[0, predicting_rows], with_grad=True), torch.tensor(targets, device=decoder.device)


def answer_loss(decoder: Decoder, example: PackedExample) -> Tensor:
    """Return the mean cross-entropy of the answers' tokens, in nats; differentiable."""
    return F.cross_entropy(*answer_logits(decoder, example))
