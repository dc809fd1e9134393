"""Sampling, and decoding on the prompt's KV buffer: after the prefill, step by step."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import Cancelled
from engine.model.decoder import Decoder
from engine.model.kernels.decode_step import MAX_ROWS
from engine.model.kv_buffer import KVBuffer, RowPass
from engine.model.prompt_lookup import PromptLookup
from engine.model.step_batcher import DecodeRows

LOGITS_ROWS = 64  # rows whose logits are in memory together
MIN_TEMPERATURE = 1e-4  # greedy below it: dividing logits by less overflows


class Sampler(Protocol):
    """Chooses the tokens of one answer in order."""

    def sample(self, logits: Tensor) -> int:
        """Return a token id for logits [V]."""
        ...


@dataclass
class TokenSampler:
    """Samples by temperature (0 is greedy) and top-p (nucleus sampling, arXiv:1904.09751), with its own generator."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        self._generator = torch.Generator().manual_seed(self.seed)

    def sample(self, logits: Tensor) -> int:
        if self.temperature < MIN_TEMPERATURE:
            return int(logits.numpy(force=True).argmax())  # in this thread alone, unlike torch
        probs, ids = (logits.cpu() / self.temperature).softmax(-1).sort(descending=True)
        preceding = probs.cumsum(-1) - probs
        probs = probs.masked_fill(preceding >= self.top_p, 0.0)
        # By id, so that similar logits and the same seed mostly give the same token (engine.generation.draft).
        return int(torch.multinomial(torch.zeros_like(probs).scatter(0, ids, probs), 1, generator=self._generator))


def decode(
    decoder: Decoder,
    buffer: KVBuffer,
    sampled: Sequence[int],
    sampler: Sampler,
    stop_ids: frozenset[int],
    max_new_tokens: int,
    cancel: Event | None = None,
    lookup: PromptLookup | None = None,
) -> Iterator[int]:
    """Yield the tokens of an answer until a stop id, `max_new_tokens` or a full buffer. Raises Cancelled.

    sampled  the first tokens, at least one; the KV of all but the last is in the buffer
    lookup   holds the prompt; a step may then give several tokens, the same as without it up to rounding
    """
    pending = list(sampled)
    with decoder.batcher.answer():
        for step in range(max_new_tokens):
            token = pending.pop(0)
            if token in stop_ids:
                return
            yield token
            if cancel is not None and cancel.is_set():
                raise Cancelled
            if lookup is not None:
                lookup.append(token)
            if pending:
                continue
            num_left = min(buffer.capacity - buffer.length, max_new_tokens - step - 1)
            if num_left == 0:
                return
            num_rows = min(num_left, decoder.batcher.max_rows)
            proposed = lookup.propose()[: num_rows - 1] if lookup is not None else []
            pending = extend(decoder, buffer, token, proposed, sampler)


@torch.inference_mode()
def extend(
    decoder: Decoder,
    buffer: KVBuffer,
    token: int,
    proposed: Sequence[int],
    sampler: Sampler,
    cancel: Event | None = None,
) -> list[int]:
    """Return the tokens after `token`: the proposed ones as long as the sampler chooses them too, and its next one.

    One pass over all of them (speculative decoding, arXiv:2211.17192, with a sampler that chooses as it would without
    proposals). The buffer then holds the KV of all but the last token returned. Raises Cancelled.
    """
    start = buffer.length
    ids = [token, *proposed]
    blocks: Iterable[Tensor]
    if len(ids) <= MAX_ROWS:
        blocks = [decoder.batcher.step(ids, buffer, start)]
    else:
        slots = torch.arange(start, start + len(ids))
        hidden = decoder.forward(torch.tensor([ids]), buffer.positions(slots)[None], RowPass(buffer, slots), cancel)[0]
        blocks = (decoder.logits(block) for block in hidden.split(LOGITS_ROWS))
    chosen: list[int] = []
    for block in blocks:
        for logits in block:
            chosen.append(sampler.sample(logits))
            if list(proposed[: len(chosen)]) != chosen:
                buffer.length = start + len(chosen)
                return chosen
    raise AssertionError("the last row has no proposed token to agree with")


def decode_batch(
    decoder: Decoder,
    buffers: list[KVBuffer],
    firsts: list[int],
    samplers: list[Sampler],
    stop_ids: frozenset[int],
    max_new_tokens: int,
) -> list[list[int]]:
    """Return what `decode` yields for each buffer, up to rounding, decoded as one batch.

    A step mostly waits for the weights, so ten prompts take little longer than one.
    """
    answers: list[list[int]] = [[] for _ in buffers]
    tokens = list(firsts)
    running = list(range(len(buffers)))
    for step in range(max_new_tokens):
        running = [i for i in running if tokens[i] not in stop_ids]
        for i in running:
            answers[i].append(tokens[i])
        running = [i for i in running if buffers[i].length < buffers[i].capacity]
        if not running or step + 1 == max_new_tokens:
            break
        stepping = [i for i in running if decoder.can_step(buffers[i])]
        groups = [stepping[start : start + MAX_ROWS] for start in range(0, len(stepping), MAX_ROWS)]
        groups.append([i for i in running if i not in stepping])
        for group in filter(None, groups):
            rows = [DecodeRows([tokens[i]], buffers[i], buffers[i].length) for i in group]
            for i, after in zip(group, decoder.run_rows(rows), strict=True):
                tokens[i] = samplers[i].sample(after[-1])
    return answers


def truncate_at(pieces: Iterable[str], stops: tuple[str, ...]) -> Iterator[str]:
    """Yield the text of `pieces` up to the first stop string; the possible start of one is held back."""
    pending = ""
    for piece in pieces:
        pending += piece
        ends = [at for stop in stops if (at := pending.find(stop)) >= 0]
        if ends:
            yield pending[: min(ends)]
            return
        keep = max((size for stop in stops for size in range(1, len(stop)) if pending.endswith(stop[:size])), default=0)
        yield pending[: len(pending) - keep]
        pending = pending[len(pending) - keep :]
    yield pending
