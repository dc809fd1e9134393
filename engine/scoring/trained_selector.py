"""A trained selector: a small model of its own that tells which tokens are worth recomputing for a question.

Passages and questions are read apart by the first layers of the search model (engine.model.encoder). Learned heads turn
a question's vectors into queries and a passage's into keys; what the queries point at, over all passages together, is
the score: late interaction (ColBERT, arXiv:2004.12832), taught to point where recomputing helps most. A passage's keys
are made once, so a question costs one short pass and one product, and neither the auxiliary model nor its KV is needed.
Made by `python -m training selector`.
"""

from collections.abc import Sequence
from pathlib import Path
from threading import Event

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.errors import Cancelled, SelectorUnusable
from engine.lru import LRUCache
from engine.model.encoder import Encoder
from engine.model.tokenizer import Encoded

FILE = "selector.safetensors"
PLACES = 9  # how far a token stands from somewhere: 0, 1-2, 3-6, 7-14, ..., 255 and more
ASKED = 254  # word pieces of a question, its last ones
HELD = 256  # passages whose keys stay in memory, half a kilobyte a token


class SelectorHead(nn.Module):
    """Heads that point from a question at what to recompute.

    width        of the encoder's vectors
    heads, size  of the queries and keys

    Where a token stands counts as well, as distances from its passage's start, from its end, and from the question: the
    first tokens of a passage change most when they are recomputed, the last passages are looked at most.
    """

    def __init__(self, width: int, heads: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, heads * size)
        self.key = nn.Linear(width, heads * size, bias=False)
        self.votes = nn.Parameter(torch.zeros(heads))
        self.places = nn.Parameter(torch.zeros(3, PLACES))

    def forward(self, asked: Tensor, keys: Tensor, lengths: Sequence[int]) -> Tensor:
        """Return the score of each context token, [T] in fp32; those behind the first passage sum to 1.

        asked    [Q, width], a question's vectors
        keys     [T, heads * size], `key` of the vectors of the primary's tokens
        lengths  tokens of each passage, T in sum; the first is exact wherever it stands, so it does not compete
        """
        queries, heads = self.query(asked), len(self.votes)
        queries, keys = (each.unflatten(-1, (heads, -1)).transpose(0, 1) for each in (queries, keys))
        logits = (keys @ queries.transpose(1, 2)).transpose(1, 2).contiguous().float()  # [heads, Q, T]
        logits *= queries.shape[-1] ** -0.5
        behind = slice(lengths[0] if len(lengths) > 1 else 0, None)
        paid = (logits - logits[..., behind].logsumexp(-1, keepdim=True)).exp().mean(1)
        factors = self.places.float().gather(1, places(lengths)).sum(0).exp()
        score = self.votes.float().softmax(0) @ paid * factors
        return score / score[behind].sum()


class TokenSelector:
    """An encoder and its trained heads, for one primary."""

    def __init__(self, encoder: Encoder, heads: SelectorHead) -> None:
        self.encoder, self.heads = encoder, heads.eval().requires_grad_(False).to(encoder.dtype)
        self._passage = LRUCache(self._read, HELD)

    @property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in (*self.encoder.parameters, *self.heads.parameters()))

    @property
    def size_bytes(self) -> int:
        return sum(weight.nbytes for weight in (*self.encoder.parameters, *self.heads.parameters()))

    def warm(self, text: str, passage: Encoded) -> None:
        """Make a passage's keys while there is room to hold them; the arguments are as in `score`."""
        if not self._passage.full:
            self._passage(text.strip(), passage)

    def forget(self, text: str) -> None:
        """Drop the keys of a passage."""
        self._passage.forget(text.strip())

    def clear(self) -> None:
        """Drop the keys of all passages."""
        self._passage.clear()

    @torch.inference_mode()
    def score(
        self, question: str, texts: Sequence[str], passages: Sequence[Encoded], cancel: Event | None = None
    ) -> Tensor:
        """Return the score of each of the primary's context tokens, [T], fp32: see `Heads`.

        texts     the passages
        passages  the same as the primary reads them: T tokens in sum

        Raises Cancelled between two passages once `cancel` is set.
        """
        found = []
        for text, passage in zip(texts, passages, strict=True):
            if cancel is not None and cancel.is_set():
                raise Cancelled
            found.append(self._passage(text.strip(), passage))
        asked = vectors_asked(self.encoder, question)
        return self.heads(asked, torch.cat(found), [len(passage.ids) for passage in passages])

    @torch.inference_mode()
    def _read(self, text: str, passage: Encoded) -> Tensor:
        """Return the keys of a passage's tokens, [tokens, heads * size]."""
        return self.heads.key(vectors_of(self.encoder, text, passage))

    def save(self, folder: Path) -> None:
        """Write the heads in bf16; the encoder is whoever installed it has."""
        named = {name: weight.to(torch.bfloat16).contiguous() for name, weight in self.heads.state_dict().items()}
        save_file(named, folder / FILE)


def load_token_selector(folder: Path, encoder: Encoder) -> TokenSelector:
    """Return the selector in a folder, over this encoder.

    Raises SelectorUnusable for a file that is missing or torn, or was made for another encoder.
    """
    path = folder / FILE
    try:
        named = load_file(path)
    except (OSError, SafetensorError) as error:
        raise SelectorUnusable(f"The selector in {path} cannot be read ({error}).") from error
    votes, key = named.get("votes", torch.empty(0)), named.get("key.weight", torch.empty(0))
    try:
        heads = SelectorHead(encoder.width, len(votes), len(key) // len(votes))
        heads.load_state_dict(named)
    except (RuntimeError, TypeError, ArithmeticError) as error:
        raise SelectorUnusable(f"The selector in {path} was made for another encoder or version.") from error
    return TokenSelector(encoder, heads)


def vectors_of(encoder: Encoder, text: str, passage: Encoded) -> Tensor:
    """Return the vector of each of a passage's tokens, [tokens, width].

    passage  the text as the primary reads it
    """
    read = _pieces(encoder, text.strip())
    return encoder.vectors(read.ids)[piece_of(passage, read)]


def vectors_asked(encoder: Encoder, question: str) -> Tensor:
    """Return the vectors of a question's word pieces, [Q, width]."""
    return encoder.vectors(_pieces(encoder, question).ids[-ASKED:])


def _pieces(encoder: Encoder, text: str) -> Encoded:
    """Return a text's word pieces; one stands for a text of nothing that the encoder can read."""
    found = encoder.tokens.encode(text)
    return found if found.ids else encoder.tokens.encode(".")


def piece_of(passage: Encoded, read: Encoded) -> Tensor:
    """Return for each of the primary's tokens the first word piece that ends behind its start, the last one at most.

    passage, read  the same text in the primary's tokens and in word pieces
    """
    starts, ends = np.array([start for start, _ in passage.spans]), np.array([end for _, end in read.spans])
    return torch.from_numpy(np.searchsorted(ends, starts, side="right").clip(max=len(ends) - 1))


def places(lengths: Sequence[int]) -> Tensor:
    """Return how far each token stands from its passage's start, from its end, and from the question, [3, T].

    As classes 0 to 8: doubled distances are one class apart.
    """
    start = torch.cat([torch.arange(length) for length in lengths])
    end = torch.cat([torch.arange(length - 1, -1, -1) for length in lengths])
    question = torch.arange(len(start) - 1, -1, -1)
    return torch.stack((start, end, question)).add(1).log2().floor().long().clamp(max=PLACES - 1)
