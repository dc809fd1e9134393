"""A trained pointer: tells where in the passages the answer to a question stands, piece by piece.

Passages and questions are read apart by the search model (engine.model.encoder), so that a passage is read once,
whatever is asked of it: phrase retrieval (DenSPI, arXiv:1906.05807), with a few small layers in place of one product.
They look from each piece of a passage at the question's pieces and at the pieces around it. The encoder reads in both
directions, which a decoder does not, so it errs elsewhere than the reader that it helps (engine.generation.grounding).
Made by `python -m training pointer`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.errors import Cancelled, SpanScorerUnusable
from engine.lru import LRUCache
from engine.model.encoder import Encoder
from engine.model.tokenizer import Encoded

SPAN_SCORER_FILE = "pointer.safetensors"
HEADS = 4
AROUND = ((5, 1), (7, 3), (7, 1))  # of each layer: how many pieces it looks at, and every how many-th
MAX_QUESTION_TOKENS = 64  # word pieces of a question, its last ones
CACHE_TOKENS = 65_536  # word pieces of passages whose vectors stay in memory, 1.5 KB each


@dataclass(frozen=True)
class Pieces:
    """A text's word pieces and their vectors [pieces, width]."""

    read: Encoded
    vectors: Tensor


@dataclass(frozen=True)
class SpanScores:
    """What the pointer says of one passage.

    spans  characters of each piece
    nats   [pieces], how much less likely than the likeliest piece of all passages it is part of the answer: 0 or less
    """

    spans: Sequence[tuple[int, int]]
    nats: Tensor


class Layer(nn.Module):
    """One look at the question, one at the neighbourhood, with what was known before added to each."""

    def __init__(self, size: int, around: int, apart: int) -> None:
        super().__init__()
        self.looking, self.query, self.key = nn.LayerNorm(size), nn.Linear(size, size), nn.Linear(size, 2 * size)
        self.seen = nn.Linear(size, size)
        self.nearing = nn.LayerNorm(size)
        self.near = nn.Conv1d(size, size, around, padding=apart * (around // 2), dilation=apart, groups=size)
        self.up, self.down, self.dropout = nn.Linear(size, 2 * size), nn.Linear(2 * size, size), nn.Dropout(0.1)

    def forward(self, pieces: Tensor, held: Tensor, asked: Tensor, asks: Tensor) -> Tensor:
        """Return the pieces [B, L, size], of which held [B, L] are there, after a look at asked [B, Q, size], of which
        asks [B, Q] are."""
        query = self.query(self.looking(pieces))
        query, key, value = (
            each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in (query, *self.key(asked).chunk(2, -1))
        )
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=asks[:, None, None])
        pieces = pieces + self.dropout(self.seen(seen.transpose(1, 2).flatten(2)))
        near = self.near((self.nearing(pieces) * held[..., None]).transpose(1, 2)).transpose(1, 2)
        return pieces + self.dropout(self.down(F.gelu(self.up(near))))


class SpanScorerNet(nn.Module):
    """Layers that point from a question at the pieces of its answer.

    width   of the encoder's vectors
    parts   layers of the encoder that they are made of
    size    of the layers here
    pieces  of the encoder's vocabulary, for how rare each is
    """

    def __init__(self, width: int, parts: int, size: int, pieces: int) -> None:
        super().__init__()
        self.parts = parts
        self.passage, self.question = nn.Linear(width, size), nn.Linear(width, size)
        self.passage_norm, self.question_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.likeness = nn.Linear(parts + 2, size)
        self.layers = nn.ModuleList(Layer(size, *around) for around in AROUND)
        self.norm, self.points = nn.LayerNorm(size), nn.Linear(size, 1)
        self.rarity: Tensor
        self.register_buffer("rarity", torch.zeros(pieces))

    def forward(self, passages: "Padded", asked: "Padded") -> Tensor:
        """Return how much speaks for each piece, logits [B, L]; -inf behind a passage's end."""
        like = self.likeness(self._likeness(passages, asked))
        found = self.passage_norm(self.passage(passages.vectors)) + like
        question = self.question_norm(self.question(asked.vectors))
        for layer in self.layers:
            found = layer(found, passages.held, question, asked.held)
        logits: Tensor = self.points(self.norm(found))[..., 0]
        return logits.masked_fill(~passages.held, -torch.inf)

    def _likeness(self, passages: "Padded", asked: "Padded") -> Tensor:
        """Return for each piece, [B, L, parts + 2]: its cosine with the nearest piece of the question, by each part of
        the vectors; how rare it is if the question has it too; how near the question's pieces come to the passage in
        the mean, by the last part (ColBERT, arXiv:2004.12832)."""
        found = []
        for one, other in zip(passages.vectors.chunk(self.parts, -1), asked.vectors.chunk(self.parts, -1), strict=True):
            cosines = F.normalize(one, dim=-1) @ F.normalize(other, dim=-1).transpose(1, 2)
            found.append(cosines.masked_fill(~asked.held[:, None], -1.0).amax(2))
        best = cosines.masked_fill(~passages.held[..., None], -1.0).amax(1)
        near = (best * asked.held).sum(1, keepdim=True) / asked.held.sum(1, keepdim=True)
        same = ((passages.ids[:, :, None] == asked.ids[:, None]) & asked.held[:, None]).any(2)
        rare = 0.1 * same * self.rarity[passages.ids]
        return torch.stack((*found, rare, (5 * near - 3).expand_as(rare)), -1)


@dataclass(frozen=True)
class Padded:
    """Texts of B rows, padded to the longest.

    vectors [B, L, width], ids [B, L], held [B, L]: where a row has a piece
    """

    vectors: Tensor
    ids: Tensor
    held: Tensor


class SpanScorer:
    """An encoder and the trained layers over it; serves any primary, since it reads text."""

    def __init__(self, encoder: Encoder, net: SpanScorerNet) -> None:
        self.encoder, self.net = encoder, net.eval().requires_grad_(False)
        self._passage = LRUCache(self._read, CACHE_TOKENS, lambda pieces: len(pieces.read.ids))

    @property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in (*self.encoder.parameters, *self.net.parameters()))

    @property
    def size_bytes(self) -> int:
        return sum(weight.nbytes for weight in (*self.encoder.parameters, *self.net.parameters()))

    def warm(self, text: str) -> None:
        """Read a passage while there is room to hold it."""
        if not self._passage.full:
            self._passage(text.strip())

    def forget(self, text: str) -> None:
        """Drop a passage's vectors."""
        self._passage.forget(text.strip())

    def clear(self) -> None:
        """Drop the vectors of all passages."""
        self._passage.clear()

    @torch.inference_mode()
    def point(self, question: str, texts: Sequence[str], cancel: Event | None = None) -> list[SpanScores]:
        """Return where in the passages the answer to a question may stand.

        Raises Cancelled between two passages once `cancel` is set.
        """
        asked, found = self._read(question, MAX_QUESTION_TOKENS), list[Pieces]()
        for text in texts:
            if cancel is not None and cancel.is_set():
                raise Cancelled
            found.append(self._passage(text))
        if not any(pieces.read.ids for pieces in found) or not asked.read.ids:
            return [SpanScores(pieces.read.spans, torch.zeros(len(pieces.read.ids))) for pieces in found]
        logits = self.net(padded(found), padded([asked] * len(found)))
        logits = logits - logits.max()
        return [SpanScores(p.read.spans, row[: len(p.read.ids)]) for p, row in zip(found, logits, strict=True)]

    @torch.inference_mode()
    def _read(self, text: str, last: int = 0) -> Pieces:
        """Return a text's pieces, or its `last` ones; vectors in fp16."""
        read = self.encoder.tokens.encode(text)
        read = Encoded(read.ids[-last:], read.spans[-last:])
        return Pieces(read, self.encoder.vectors(read.ids).half())

    def save(self, folder: Path) -> None:
        """Write the layers in bf16; the encoder is whoever installed it has."""
        named = {name: weight.to(torch.bfloat16).contiguous() for name, weight in self.net.state_dict().items()}
        save_file(named, folder / SPAN_SCORER_FILE)


def padded(texts: Sequence[Pieces]) -> Padded:
    """Return texts as rows of one batch, in fp32."""
    longest = max(len(pieces.read.ids) for pieces in texts)
    vectors = torch.zeros(len(texts), longest, texts[0].vectors.shape[-1])
    ids, held = torch.zeros(len(texts), longest, dtype=torch.long), torch.zeros(len(texts), longest, dtype=torch.bool)
    for row, pieces in enumerate(texts):
        length = len(pieces.read.ids)
        vectors[row, :length], ids[row, :length] = pieces.vectors, torch.tensor(pieces.read.ids, dtype=torch.long)
        held[row, :length] = True
    return Padded(vectors, ids, held)


def load_span_scorer(folder: Path, encoder: Encoder) -> SpanScorer:
    """Return the pointer in a folder, over this encoder.

    Raises PointerUnusable for a file that is missing or torn, or was made for another encoder.
    """
    path = folder / SPAN_SCORER_FILE
    try:
        named = load_file(path)
    except (OSError, SafetensorError) as error:
        raise SpanScorerUnusable(f"The pointer in {path} cannot be read ({error}).") from error
    try:
        size, pieces = named["points.weight"].shape[-1], encoder.tokens.template.get_vocab_size()
        net = SpanScorerNet(encoder.width, len(encoder.layers), size, pieces)
        net.load_state_dict(named)
    except (RuntimeError, KeyError, TypeError, IndexError, ValueError) as error:
        raise SpanScorerUnusable(f"The pointer in {path} was made for another encoder or version.") from error
    return SpanScorer(encoder, net)


def char_log_probs(text: str, passages: Sequence[str], pointed: Sequence[SpanScores]) -> list[float]:
    """Return what is pointed out for each character of a text that says what the passages say, spaced otherwise."""
    found = [-math.inf] * len(text)
    places = (place for place, character in enumerate(text) if not character.isspace())
    for passage, one in zip(passages, pointed, strict=True):
        nats = [-math.inf] * len(passage)
        for (start, end), value in zip(one.spans, one.nats.tolist(), strict=True):
            nats[start:end] = [max(value, before) for before in nats[start:end]]
        for character, value in zip(passage, nats, strict=True):
            if not character.isspace():
                found[next(places)] = value
    return found
