"""One differentiable pass over packed examples: the passages as the engine prefills them, then every question.

An example's rows are [prefix and passages | recomputed rows | questions with their answers]. The questions are masked
from one another. The attention is the engine's own, but no buffer is written in place, so that gradients pass through.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.model.decoder import Decoder

Ids = tuple[int, ...]  # token ids
ROW_UNIT = 16  # parts of the rows are padded to multiples of it on a GPU, whose kernels need aligned masks


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

    @property
    def chunk_lengths(self) -> list[int]:
        """The tokens of the prefix and of each passage, if these are independent; otherwise of the whole context."""
        return [len(self.prefix), *map(len, self.passages)] if self.is_independent else [len(self.context)]


class PackedPass:
    """Positions, attention masks and attention of packed examples; replaces the cache in transformers' layers.

    Each part of the rows is as long as the longest example's; the rows that pad the others see something, and nothing
    sees them.
    """

    def __init__(self, decoder: Decoder, examples: Sequence[PackedExample]) -> None:
        device, dtype = decoder.device, decoder.dtype
        unit = ROW_UNIT if prefers_large_calls(device) else 1
        contexts = [torch.tensor(example.context) for example in examples]
        rows = [torch.tensor([id for pair in each.questions for id in sum(pair, ())[:-1]]) for each in examples]
        recomputed = [torch.tensor(example.recomputed, dtype=torch.long) for example in examples]
        sizes = [_round_up(max(map(len, part)), unit) for part in (contexts, recomputed, rows)]
        self.sizes = num_context, num_recomputed, num_rows = sizes
        chunk_lengths = [each.chunk_lengths for each in examples]
        question_lengths = [[len(sum(pair, ())) - 1 for pair in example.questions] for example in examples]
        chunk_index, chunk_starts = (_pad(part, num_context, device) for part in _runs(chunk_lengths))
        question_index, question_starts = (_pad(part, num_rows, device, -1) for part in _runs(question_lengths))
        slots = _pad(recomputed, num_recomputed, device)
        lengths = torch.tensor([[len(context)] for context in contexts], device=device)

        context = torch.arange(num_context, device=device)[None]
        prefix_lengths = torch.tensor([[len(example.prefix)] for example in examples], device=device)
        chunk_positions = context - chunk_starts + (chunk_index > 0) * prefix_lengths
        offsets = torch.arange(num_rows, device=device) - question_starts
        last_positions = torch.cat((slots, lengths + offsets), 1)
        self.positions = torch.cat((chunk_positions, last_positions), 1)
        ids = _pad(contexts, num_context, device)
        self.ids = torch.cat((ids, ids.gather(1, slots), _pad(rows, num_rows, device)), 1)

        self._is_independent = any(example.is_independent for example in examples)
        angle = (context - chunk_positions)[:, None, :, None].float() * decoder.spec.inv_freq.to(device).float()
        self._cos, self._sin = (part.repeat(1, 1, 1, 2) for part in (angle.cos(), angle.sin()))
        sources = context.expand(len(examples), -1).clone()  # of each slot's KV: a context row or a recomputed one
        for source, each in zip(sources, recomputed, strict=True):
            source[each.to(device)] = num_context + torch.arange(len(each), device=device)
        self._sources = sources[None, :, None, :, None] if num_recomputed else None

        causal = context[:, None] > context[..., None]
        if not prefers_large_calls(device) and len(examples) == 1:
            (chunks,), mask, prefix_length = chunk_lengths, _additive(causal, dtype), len(examples[0].prefix)
            self._blocks = list[tuple[slice, int, Tensor]]()
            for end, length in zip(accumulate(chunks), chunks, strict=True):
                num_before = prefix_length if end > length else 0
                num_keys = num_before + length
                own = mask[:, num_keys - length : num_keys, :num_keys]
                self._blocks.append((slice(end - length, end), num_before, own))
        else:
            is_elsewhere = (chunk_index[:, None] != chunk_index[..., None]) & (chunk_index[:, None] > 0)
            self._blocks = [(slice(0, num_context), 0, _additive(causal | is_elsewhere, dtype))]
        unseen = (context[:, None] > last_positions[..., None]) | (context >= lengths)[:, None]
        is_later = offsets[:, None] > offsets[..., None]
        unseen_rows = is_later | (question_index[:, None] != question_index[..., None])
        unseen_rows = torch.cat((unseen_rows.new_ones(len(examples), num_recomputed, num_rows), unseen_rows), 1)
        self._mask = _additive(torch.cat((unseen, unseen_rows), 2), dtype)

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return keys, values

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        query = query * scaling
        context, recomputed, rows = torch.stack((keys, values)).split(self.sizes, dim=3)  # [2, B, H, R, D]
        outputs = []
        for part, num_before, mask in self._blocks:
            kv = context[:, :, :, part]
            if num_before:
                kv = torch.cat((context[:, :, :, :num_before], kv), dim=3)
            outputs.append(_attend(query[:, :, part], kv, mask))
        if self._is_independent:
            context = torch.stack((self._rerotate(context[0]), context[1]))
        if self._sources is not None:
            context = torch.cat((context, recomputed), 3)
            context = context.gather(3, self._sources.expand(*context.shape[:3], -1, context.shape[4]))
        outputs.append(_attend(query[:, :, self.sizes[0] :], torch.cat((context, rows), dim=3), self._mask))
        return torch.cat(outputs, dim=2)

    def _rerotate(self, keys: Tensor) -> Tensor:
        """Return keys [B, H, T, D] moved from their chunk's positions to those in the context (RoPE)."""
        first, second = keys.float().chunk(2, dim=-1)
        rotated_half = torch.cat((-second, first), dim=-1)
        return (keys.float() * self._cos + rotated_half * self._sin).to(keys.dtype)


def prefers_large_calls(device: torch.device) -> bool:
    """Return whether one masked, fused call takes less time than several small, explicit ones: on a GPU."""
    return device.type != "cpu"


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _runs(lengths: Sequence[Sequence[int]]) -> tuple[list[Tensor], list[Tensor]]:
    """Return for each row of each example the index of its run of rows, and where that starts."""
    indices = [torch.repeat_interleave(torch.tensor(each)) for each in lengths]
    starts = [torch.tensor([0, *each]).cumsum(0)[index] for each, index in zip(lengths, indices, strict=True)]
    return indices, starts


def _pad(parts: Sequence[Tensor], length: int, device: torch.device, value: int = 0) -> Tensor:
    return torch.stack([F.pad(part, (0, length - len(part)), value=value) for part in parts]).to(device)


def _additive(hidden: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))


def _attend(query: Tensor, kv: Tensor, mask: Tensor) -> Tensor:
    """Return attention [B, query heads, R, D]; on a CPU, explicit products take half the time of the fused gradient.

    query  [B, query heads, R, D], scaled
    kv     [2, B, H, T, D]
    mask   additive, [B, R, T]
    """
    batch, heads, num_rows, width = query.shape
    keys, values = kv
    groups = heads // keys.shape[1]
    if prefers_large_calls(query.device):
        keys, values = kv.repeat_interleave(groups, 2)
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):  # cuDNN compiles for each shape
            return F.scaled_dot_product_attention(query, keys, values, mask[:, None].expand(-1, heads, -1, -1), scale=1)
    grouped = (batch * keys.shape[1], groups * num_rows)  # one product per KV head (grouped-query attention)
    logits = torch.bmm(query.reshape(*grouped, width), keys.flatten(0, 1).transpose(1, 2))
    probabilities = (logits.view(batch, heads, num_rows, -1) + mask[:, None]).softmax(-1)
    return torch.bmm(probabilities.view(*grouped, -1), values.flatten(0, 1)).view(query.shape)


def answer_logits(decoder: Decoder, *examples: PackedExample) -> tuple[Tensor, Tensor]:
    """Return the logits [tokens, V] in fp32 that predict the answers' tokens, and these [tokens]; differentiable."""
    rows = PackedPass(decoder, examples)
    hidden = decoder.forward(rows.ids, rows.positions, rows, with_grad=True)
    predicting_rows = list[int]()
    targets = list[int]()
    for index, example in enumerate(examples):
        end = (index + 1) * rows.ids.shape[1] - rows.sizes[2]
        for question, answer in example.questions:
            end += len(question) + len(answer) - 1
            predicting_rows += range(end - len(answer), end)
            targets += answer
    predicting = hidden.flatten(0, 1)[torch.tensor(predicting_rows, device=decoder.device)]
    return decoder.logits(predicting, with_grad=True), torch.tensor(targets, device=decoder.device)


def answer_loss(decoder: Decoder, *examples: PackedExample) -> Tensor:
    """Return the mean cross-entropy of the answers' tokens, in nats; differentiable."""
    return F.cross_entropy(*answer_logits(decoder, *examples))
