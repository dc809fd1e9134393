"""A trained token selector: predicts which context tokens are worth recomputing for a question.

Passages and questions are encoded independently (engine.model.encoder). A trained head maps a question's vectors to
queries and a passage's vectors to keys, which are computed once. A token's score is its attention over all passages:
late interaction (ColBERT, arXiv:2004.12832). Trained by `python -m training selector`.
"""

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from threading import Event
from typing import Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.errors import Cancelled, TokenSelectorUnusable
from engine.lru import LRUCache
from engine.model.encoder import Encoder
from engine.model.tokenizer import TokenizedText

SELECTOR_FILE = "selector.safetensors"
NUM_DISTANCE_CLASSES = 9  # distances of 0, 1-2, 3-6, 7-14, ..., 255 and more tokens
MAX_QUESTION_PIECES = 254  # word pieces; of a longer question the last ones
MAX_CACHED_BYTES = 128 * 2**20  # of keys, half a kilobyte a token: about 1,000 passages


class SelectorHead(nn.Module):
    """Multi-head attention from a question to context tokens, weighted by a token's three distances.

    They are to its passage's start, to its end and to the question. Attribute names are tensor names in the file.
    """

    def __init__(self, width: int, heads: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, heads * size)
        self.key = nn.Linear(width, heads * size, bias=False)
        self.votes = nn.Parameter(torch.zeros(heads))
        self.places = nn.Parameter(torch.zeros(3, NUM_DISTANCE_CLASSES))

    def forward(self, question: Tensor, keys: Tensor, lengths: Sequence[int]) -> Tensor:
        """Return a score for each context token, [T] fp32; those after the first passage, which is exact, sum to 1.

        question  [Q, width] vectors of the question
        keys      [T, heads * size], `key` of the token vectors
        lengths   tokens of each passage, T in total
        """
        num_heads = len(self.votes)
        queries, keys = (each.unflatten(-1, (num_heads, -1)).transpose(0, 1) for each in (self.query(question), keys))
        logits = (keys @ queries.transpose(1, 2)).transpose(1, 2).contiguous().float()  # [heads, Q, T]
        logits *= queries.shape[-1] ** -0.5
        competing = slice(lengths[0] if len(lengths) > 1 else 0, None)
        attention = (logits - logits[..., competing].logsumexp(-1, keepdim=True)).exp().mean(1)  # [heads, T]
        distance_weights = self.places.float().gather(1, distance_classes(lengths)).sum(0).exp()
        scores = self.votes.float().softmax(0) @ attention * distance_weights
        return scores / scores[competing].sum()


class TokenSelector:
    """A frozen encoder and the head trained on its vectors, for one main model; keys of passages are cached."""

    def __init__(self, encoder: Encoder, head: SelectorHead) -> None:
        self.encoder = encoder
        self.head = head.to(encoder.dtype).eval().requires_grad_(False)
        self.passage_keys = LRUCache(self._encode_passage, MAX_CACHED_BYTES, attrgetter("nbytes"))

    @classmethod
    def load(cls, folder: Path, encoder: Encoder) -> Self:
        """Return the selector in a folder. Raises TokenSelectorUnusable if it is damaged or of another encoder."""
        path = folder / SELECTOR_FILE
        try:
            tensors = load_file(path)
        except (OSError, SafetensorError) as cause:
            raise TokenSelectorUnusable(f"The token selector in {path} cannot be read ({cause}).") from cause
        try:
            num_heads = len(tensors["votes"])
            head = SelectorHead(encoder.width, num_heads, len(tensors["key.weight"]) // num_heads)
            head.load_state_dict(tensors)
        except (RuntimeError, KeyError, TypeError, IndexError, ValueError, ArithmeticError) as cause:
            raise TokenSelectorUnusable(
                f"The token selector in {path} was trained for another encoder or version."
            ) from cause
        return cls(encoder, head)

    @property
    def num_parameters(self) -> int:
        return sum(weight.numel() for weight in self._weights)

    @property
    def size_bytes(self) -> int:
        return sum(weight.nbytes for weight in self._weights)

    @property
    def _weights(self) -> list[Tensor]:
        return [*self.encoder.model.parameters(), *self.head.parameters()]

    def warm(self, text: str, passage: TokenizedText) -> None:
        """Cache the keys of a passage."""
        self.passage_keys(text.strip(), passage)

    def evict(self, text: str) -> None:
        """Drop a passage from the cache."""
        self.passage_keys.evict(text.strip())

    def clear(self) -> None:
        """Empty the cache."""
        self.passage_keys.clear()

    def save(self, folder: Path) -> None:
        """Write the head in bf16."""
        tensors = {name: weight.to(torch.bfloat16).contiguous() for name, weight in self.head.state_dict().items()}
        save_file(tensors, folder / SELECTOR_FILE)

    @torch.inference_mode()
    def score(
        self, question: str, texts: Sequence[str], passages: Sequence[TokenizedText], cancel: Event | None = None
    ) -> Tensor:
        """Return a score for each token of the texts as encoded by the main model, [T] fp32. Raises Cancelled."""
        keys = []
        for text, passage in zip(texts, passages, strict=True):
            if cancel is not None and cancel.is_set():
                raise Cancelled
            keys.append(self.passage_keys(text.strip(), passage))
        return self.head(
            question_vectors(self.encoder, question), torch.cat(keys), [len(passage.ids) for passage in passages]
        )

    @torch.inference_mode()
    def _encode_passage(self, text: str, passage: TokenizedText) -> Tensor:
        return self.head.key(token_vectors(self.encoder, text, passage))


def token_vectors(encoder: Encoder, text: str, passage: TokenizedText) -> Tensor:
    """Return the vector of each token of a passage, which is the text as encoded by the main model: [tokens, width]."""
    pieces = _encode_pieces(encoder, text.strip())
    return encoder.embed(pieces.ids)[align_to_pieces(passage, pieces)]


def question_vectors(encoder: Encoder, question: str) -> Tensor:
    """Return the vectors of a question's word pieces, [Q, width]."""
    return encoder.embed(_encode_pieces(encoder, question).ids[-MAX_QUESTION_PIECES:])


def _encode_pieces(encoder: Encoder, text: str) -> TokenizedText:
    """Return a text's word pieces, or the pieces of "." if it has none."""
    pieces = encoder.tokenizer.encode(text)
    return pieces if pieces.ids else encoder.tokenizer.encode(".")


def align_to_pieces(passage: TokenizedText, pieces: TokenizedText) -> Tensor:
    """Return for each token of a passage the first piece of the same text that ends after its start, or the last."""
    starts = np.array([start for start, _ in passage.spans])
    ends = np.array([end for _, end in pieces.spans])
    return torch.from_numpy(np.searchsorted(ends, starts, side="right").clip(max=len(ends) - 1))


def distance_classes(lengths: Sequence[int]) -> Tensor:
    """Return each token's distance class to its passage's start, its end and the question, [3, T]; 0 to 8, doubling."""
    start = torch.cat([torch.arange(length) for length in lengths])
    end = torch.cat([torch.arange(length - 1, -1, -1) for length in lengths])
    question = torch.arange(len(start) - 1, -1, -1)
    return torch.stack((start, end, question)).add(1).log2().floor().long().clamp(max=NUM_DISTANCE_CLASSES - 1)
