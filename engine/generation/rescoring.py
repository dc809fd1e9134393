"""Let the main model choose among possible answers: the likelihood of each, on the KV buffer of the prompt.

All candidates are scored in one forward pass, in which each attends to the prompt and to itself: n-best rescoring. That
takes about as long as decoding one token, and an answer is always a span of a passage.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine.model.attention import attend, attend_parallel, attention_logits
from engine.model.decoder import Decoder
from engine.model.kernels.slot_attention import SlotAttention
from engine.model.kv_buffer import KVBuffer
from engine.model.sampling import TokenSampler, decode


class CandidatesPass:
    """A pass over the tokens of several continuations of a prompt; the buffer stays as it is.

    `candidates` [R] says which continuation each row belongs to; rows of one are adjacent and in order.
    """

    def __init__(self, buffer: KVBuffer, candidates: Tensor) -> None:
        self._buffer = buffer
        self._kernel = buffer.kernel if buffer.parallel is None else None
        rows = len(candidates)
        is_masked = (candidates[:, None] != candidates) | torch.ones(rows, rows, dtype=torch.bool).triu(1)
        mask = torch.zeros(rows, 0 if self._kernel else buffer.length, dtype=buffer.keys.dtype)
        own_mask = torch.zeros(rows, rows, dtype=buffer.keys.dtype).masked_fill_(is_masked, float("-inf"))
        self._mask = torch.cat((mask, own_mask), dim=1)[None, None].to(buffer.keys.device)
        self._last_slot = torch.full((rows,), buffer.length - 1)

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if self._kernel is not None:
            return keys, values  # the prompt's are read where they are
        prompt = slice(0, self._buffer.length)
        return (
            torch.cat((self._buffer.keys[layer, None, :, prompt], keys), dim=2),
            torch.cat((self._buffer.values[layer, None, :, prompt], values), dim=2),
        )

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        if self._kernel is not None:
            return self._attend_with_kernel(self._kernel, layer, query, keys, values, scaling)
        part = query, keys, values, scaling, self._mask
        return attend_parallel(*part, self._buffer.parallel) if self._buffer.parallel else attend(*part)

    def _attend_with_kernel(
        self, kernel: SlotAttention, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float
    ) -> Tensor:
        """Merge the attention to the prompt and to the candidate's own tokens by their log-sum-exps."""
        prompt = self._buffer.keys[layer, None], self._buffer.values[layer, None]
        to_prompt, prompt_lse = kernel.attend_with_log_sums(query, *prompt, self._last_slot, scaling)
        logits = attention_logits(query, keys, scaling, self._mask)
        to_own = (logits.softmax(-1) @ values.float()).view(query.shape)
        weight = torch.sigmoid(prompt_lse - logits.logsumexp(-1).view(prompt_lse.shape))[..., None]
        return (weight * to_prompt + (1 - weight) * to_own).to(query.dtype)


@torch.inference_mode()
def log_likelihoods(
    decoder: Decoder, buffer: KVBuffer, logits: Tensor, continuations: Sequence[Sequence[int]]
) -> list[float]:
    """Return for each continuation of a prompt the log-probability of its ids in nats.

    buffer         the prompt's KV
    logits         [V] of the token after the prompt
    continuations  ids; each has one at least
    """
    lengths = torch.tensor([len(ids) - 1 for ids in continuations])  # the last id is not read, only predicted
    candidates = torch.arange(len(lengths)).repeat_interleave(lengths)
    predictions = logits[None].expand(len(lengths), -1)  # of the first ids, then of the others
    if len(candidates):
        rows = torch.tensor([token for ids in continuations for token in ids[:-1]])
        slots = buffer.length + torch.cat([torch.arange(int(length)) for length in lengths])
        positions = buffer.positions(slots.to(buffer.keys.device))
        hidden = decoder.forward(rows[None], positions[None], CandidatesPass(buffer, candidates))
        predictions = torch.cat((predictions, decoder.logits(hidden[0])))
    targets = torch.tensor([ids[0] for ids in continuations] + [token for ids in continuations for token in ids[1:]])
    log_probs = predictions.log_softmax(-1).gather(1, targets.to(predictions.device)[:, None])[:, 0].cpu()
    owners = torch.cat((torch.arange(len(lengths)), candidates))
    return torch.zeros(len(lengths)).index_add_(0, owners, log_probs).tolist()


def most_likely(
    decoder: Decoder, buffer: KVBuffer, logits: Tensor, stop_ids: frozenset[int], max_new_tokens: int
) -> list[int]:
    """Return the tokens of the greedy answer to a prompt, whose buffer is as before afterwards.

    logits  [V] of the token after the prompt
    """
    length, sampler = buffer.length, TokenSampler()
    try:
        return list(decode(decoder, buffer, [sampler.sample(logits)], sampler, stop_ids, max_new_tokens))
    finally:
        buffer.length = length
