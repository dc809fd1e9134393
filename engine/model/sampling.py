"""Decode token by token on the prompt's own buffer (prefill once, then one row a step, as nanoVLM teaches it)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import Cancelled
from engine.model.decoder import Decoder
from engine.model.kv_buffer import BatchDecode, KVBuffer


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is chosen.

    temperature  0 takes the likeliest token
    top_p        keeps the likeliest tokens whose probabilities sum to at least this
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ValueError(f"need temperature >= 0 and 0 < top_p <= 1, got {self.temperature} and {self.top_p}")

    def sampler(self) -> "Sampler":
        return TokenSampler(self)


class Sampler(Protocol):
    """Chooses the tokens of one answer, one after the other."""

    def sample(self, logits: Tensor) -> int:
        """Return a token id for logits [V]."""
        ...


COLD = 1e-4  # below it the likeliest token is all there is, and logits over it overflow


class TokenSampler:
    """Chooses tokens with a random generator of its own, so that a seed repeats an answer."""

    def __init__(self, sampling: SamplingParams) -> None:
        self._sampling = sampling
        self._generator = torch.Generator().manual_seed(sampling.seed)

    def sample(self, logits: Tensor) -> int:
        """Return a token id for logits [V]."""
        if self._sampling.temperature < COLD:
            return int(logits.argmax())
        chances, ids = (logits.cpu() / self._sampling.temperature).softmax(-1).sort(descending=True)
        before = chances.cumsum(-1) - chances
        chances = chances.masked_fill(before >= self._sampling.top_p, 0.0)
        return int(ids[torch.multinomial(chances, 1, generator=self._generator)])


def decode(
    decoder: Decoder,
    buffer: KVBuffer,
    first: int,
    chooser: Sampler,
    stop_ids: frozenset[int],
    max_new_tokens: int,
    cancel: Event | None = None,
) -> Iterator[int]:
    """Yield `first` and its successors until a stop id, `max_new_tokens`, or a full buffer.

    buffer  holds the whole prompt; every yielded token but the last gets a slot in it

    Raises Cancelled between two tokens once `cancel` is set.
    """
    token = first
    for step in range(max_new_tokens):
        if token in stop_ids:
            return
        yield token
        if cancel is not None and cancel.is_set():
            raise Cancelled
        if step + 1 == max_new_tokens or buffer.length == buffer.capacity:
            return
        logits = decoder.prefill(torch.tensor([token]), buffer, torch.tensor([buffer.length]))
        token = chooser.sample(logits)


def decode_together(
    decoder: Decoder,
    buffers: list[KVBuffer],
    firsts: list[int],
    choosers: list[Sampler],
    stop_ids: frozenset[int],
    max_new_tokens: int,
) -> list[list[int]]:
    """Return the continuation of each buffer's prompt, decoded side by side in one batch.

    firsts    the first token of each, which its chooser chose

    Reading the weights is most of a step's time, so ten prompts take little longer than one. Each answer is the one
    that `decode` gives, up to rounding.
    """
    answers: list[list[int]] = [[] for _ in buffers]
    tokens, going = list(firsts), list(range(len(buffers)))
    for step in range(max_new_tokens):
        going = [i for i in going if tokens[i] not in stop_ids]
        for i in going:
            answers[i].append(tokens[i])
        going = [i for i in going if buffers[i].length < buffers[i].capacity]
        if not going or step + 1 == max_new_tokens:
            break
        batch = BatchDecode([buffers[i] for i in going])
        hidden = decoder.forward(torch.tensor([[tokens[i]] for i in going]), batch.positions, batch)
        for i, logits in zip(going, decoder.logits(hidden[:, -1]), strict=True):
            tokens[i] = choosers[i].sample(logits)
    return answers


def cut_at(pieces: Iterable[str], stops: tuple[str, ...]) -> Iterator[str]:
    """Yield the text of `pieces` up to the first stop string, holding back what may be the start of one."""
    held = ""
    for piece in pieces:
        held += piece
        ends = [at for stop in stops if (at := held.find(stop)) >= 0]
        if ends:
            yield held[: min(ends)]
            return
        keep = max((size for stop in stops for size in range(1, len(stop)) if held.endswith(stop[:size])), default=0)
        yield held[: len(held) - keep]
        held = held[len(held) - keep :]
    yield held
