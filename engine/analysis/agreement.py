"""How alike two prefills of one prompt go on: their next tokens after each token that full prefill said."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer, RowPass

FOLLOWED = 16  # tokens of full prefill's answer along which others are compared with it


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far one's next tokens lie from full prefill's.

    kl           KL(full || one) of the first token, nats
    top1         1 if the likeliest first token is the same, else 0
    answer_kl    mean KL along full prefill's answer, the first token among it
    answer_top1  share of its tokens where the likeliest is the same
    """

    kl: float
    top1: float
    answer_kl: float
    answer_top1: float


def logits_along(decoder: Decoder, buffer: KVBuffer, logits: Tensor, prompt_tokens: int, said: Sequence[int]) -> Tensor:
    """Return the logits [max(1, tokens of `said`), V] with which a prefill would go on after each of these tokens.

    logits  [V] of the first token
    said    token ids; they are written into the buffer behind the prompt, over whatever was decoded there
    """
    if len(said) < 2:
        return logits[None]
    slots = torch.arange(len(said) - 1) + prompt_tokens
    hidden = decoder.forward(torch.tensor([said[:-1]]), buffer.positions(slots)[None], RowPass(buffer, slots))
    return torch.cat((logits[None], decoder.logits(hidden[0])))


def compare_logits(full: Tensor, one: Tensor) -> Agreement:
    """Return how far `one` lies from `full`, logits [T, V] each, as `along` gives them."""
    reference, found = full.log_softmax(-1), one.log_softmax(-1)
    kl = F.kl_div(found, reference, log_target=True, reduction="none").sum(-1).clamp(min=0)
    agree = (full.argmax(-1) == one.argmax(-1)).float()
    return Agreement(float(kl[0]), float(agree[0]), float(kl.mean()), float(agree.mean()))
