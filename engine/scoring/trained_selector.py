"""A trained token selector: predicts which context tokens are worth recomputing for a question.

Passages and questions are encoded independently by the first layers of the search model (engine.model.encoder). A
trained head maps a question's vectors to queries and a passage's vectors to keys. A token's score is its attention
over all passages: late interaction (ColBERT, arXiv:2004.12832), trained on where recomputation helps most. Keys of a
passage are computed once, so a question costs one short encoder pass and one product; neither the auxiliary model nor
its KV is needed. Trained by `python -m training selector`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event

import numpy as np
import torch
from torch import Tensor, nn

from engine.errors import Cancelled, TokenSelectorUnusable
from engine.model.encoder import Encoder
from engine.model.tokenizer import TokenizedText
from engine.model.trained_head import TrainedHead, load_head

SELECTOR_FILE = "selector.safetensors"
NUM_DISTANCE_CLASSES = 9  # distances of 0, 1-2, 3-6, 7-14, ..., 255 and more tokens
MAX_QUESTION_PIECES = 254  # word pieces; of a longer question the last ones
MAX_CACHED_PASSAGES = 256  # passages whose keys stay in memory, half a kilobyte a token


class SelectorHead(nn.Module):
    """Multi-head attention from a question to context tokens. Attribute names are tensor names in the file.

    width        of the encoder's vectors
    heads, size  of the queries and keys

    Scores are weighted by three distances: to the passage's start, to its end and to the question. The first tokens of
    a passage change most when recomputed, and the last passages receive most attention.
    """

    def __init__(self, width: int, heads: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, heads * size)
        self.key = nn.Linear(width, heads * size, bias=False)
        self.votes = nn.Parameter(torch.zeros(heads))
        self.places = nn.Parameter(torch.zeros(3, NUM_DISTANCE_CLASSES))

    def forward(self, question: Tensor, keys: Tensor, lengths: Sequence[int]) -> Tensor:
        """Return a score for each context token, [T] fp32; the scores after the first passage sum to 1.

        question  [Q, width] vectors of the question
        keys      [T, heads * size], `key` of the token vectors
        lengths   tokens of each passage, T in total; the first passage is always exact, so it does not compete
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


class TokenSelector(TrainedHead[SelectorHead, Tensor]):
    """The selector head over its encoder, trained for one main model."""

    file_name = SELECTOR_FILE

    def __init__(self, encoder: Encoder, head: SelectorHead) -> None:
        super().__init__(encoder, head.to(encoder.dtype), MAX_CACHED_PASSAGES)

    @torch.inference_mode()
    def score(
        self, question: str, texts: Sequence[str], passages: Sequence[TokenizedText], cancel: Event | None = None
    ) -> Tensor:
        """Return a score for each of the main model's context tokens, [T] fp32; see `SelectorHead.forward`.

        texts     the passages
        passages  the same as encoded by the main model: T tokens in total

        Raises Cancelled between two passages once `cancel` is set.
        """
        keys = []
        for text, passage in zip(texts, passages, strict=True):
            if cancel is not None and cancel.is_set():
                raise Cancelled
            keys.append(self._passages(text.strip(), passage))
        return self.head(
            question_vectors(self.encoder, question), torch.cat(keys), [len(passage.ids) for passage in passages]
        )

    @torch.inference_mode()
    def _encode_passage(self, text: str, passage: TokenizedText) -> Tensor:
        """Return the keys of a passage's tokens, [tokens, heads * size]."""
        return self.head.key(token_vectors(self.encoder, text, passage))


def load_token_selector(folder: Path, encoder: Encoder) -> TokenSelector:
    """Load a selector over this encoder.

    Raises TokenSelectorUnusable if the file is missing or damaged, or was trained for another encoder.
    """

    def build(tensors: Mapping[str, Tensor]) -> SelectorHead:
        num_heads = len(tensors["votes"])
        return SelectorHead(encoder.width, num_heads, len(tensors["key.weight"]) // num_heads)

    return TokenSelector(encoder, load_head(folder / SELECTOR_FILE, build, "token selector", TokenSelectorUnusable))


def token_vectors(encoder: Encoder, text: str, passage: TokenizedText) -> Tensor:
    """Return the vector of each of a passage's tokens, [tokens, width].

    passage  the text as encoded by the main model
    """
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
    """Return for each token of a passage the first word piece that ends after the token's start, or else the last.

    passage, pieces  the same text in the main model's tokens and in word pieces
    """
    starts = np.array([start for start, _ in passage.spans])
    ends = np.array([end for _, end in pieces.spans])
    return torch.from_numpy(np.searchsorted(ends, starts, side="right").clip(max=len(ends) - 1))


def distance_classes(lengths: Sequence[int]) -> Tensor:
    """Return each token's distance to its passage's start, to its end and to the question, [3, T].

    Distances are classes 0 to 8, one class for each doubling.
    """
    start = torch.cat([torch.arange(length) for length in lengths])
    end = torch.cat([torch.arange(length - 1, -1, -1) for length in lengths])
    question = torch.arange(len(start) - 1, -1, -1)
    return torch.stack((start, end, question)).add(1).log2().floor().long().clamp(max=NUM_DISTANCE_CLASSES - 1)
