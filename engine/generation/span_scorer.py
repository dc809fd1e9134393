"""Score each word piece of the passages by how likely it is part of the answer to a question.

Passages and questions are encoded independently by the search model (engine.model.encoder), so a passage is encoded
once for all questions: phrase retrieval (DenSPI, arXiv:1906.05807), with a few small layers instead of one dot product.
The encoder is bidirectional and the generator is not, so the two make different errors; engine.generation.grounding
combines them. Trained by `python -m training span-scorer`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Event

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from engine.errors import Cancelled, SpanScorerUnusable
from engine.model.encoder import Encoder, TrainedHead
from engine.model.tokenizer import TokenizedText

SPAN_SCORER_FILE = "pointer.safetensors"
NUM_HEADS = 4
CONVOLUTIONS = ((5, 1), (7, 3), (7, 1))  # of each layer: kernel size and dilation
MAX_QUESTION_TOKENS = 64  # word pieces; of a longer question the last ones


@dataclass(frozen=True)
class EncodedText:
    """A text's word pieces and their vectors [pieces, width], in fp16."""

    pieces: TokenizedText
    vectors: Tensor


@dataclass(frozen=True)
class PaddedBatch:
    """B texts, padded to the longest: vectors [B, L, width] in fp32, ids [B, L], and mask [B, L], False for padding."""

    vectors: Tensor
    ids: Tensor
    mask: Tensor


@dataclass(frozen=True)
class SpanScores:
    """How likely each piece of a passage is part of the answer."""

    spans: Sequence[tuple[int, int]]  # (start, end) characters of each piece
    log_odds: Tensor  # [pieces] in nats, relative to the most likely piece of all passages: 0 or less


class SpanScorerLayer(nn.Module):
    """Cross-attention to the question and a depthwise convolution over the passage, each with a residual connection."""

    def __init__(self, size: int, kernel_size: int, dilation: int) -> None:
        super().__init__()
        padding = dilation * (kernel_size // 2)
        self.looking = nn.LayerNorm(size)
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, 2 * size)  # and value
        self.seen = nn.Linear(size, size)
        self.nearing = nn.LayerNorm(size)
        self.near = nn.Conv1d(size, size, kernel_size, padding=padding, dilation=dilation, groups=size)
        self.up = nn.Linear(size, 2 * size)
        self.down = nn.Linear(2 * size, size)
        self.dropout = nn.Dropout(0.1)

    def forward(self, passages: Tensor, passage_mask: Tensor, questions: Tensor, question_mask: Tensor) -> Tensor:
        """Return the updated passages [B, L, size]; questions is [B, Q, size], the masks are [B, L] and [B, Q]."""
        projections = (self.query(self.looking(passages)), *self.key(questions).chunk(2, -1))
        query, key, value = (each.unflatten(-1, (NUM_HEADS, -1)).transpose(1, 2) for each in projections)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=question_mask[:, None, None])
        passages = passages + self.dropout(self.seen(attended.transpose(1, 2).flatten(2)))
        normalized = self.nearing(passages) * passage_mask[..., None]
        local = self.near(normalized.transpose(1, 2)).transpose(1, 2)
        return passages + self.dropout(self.down(F.gelu(self.up(local))))


class SpanScorerNet(nn.Module):
    """Layers that score the pieces of passages against a question. Attribute names are tensor names in the file."""

    def __init__(self, width: int, encoder_layers: int, size: int, vocabulary_size: int) -> None:
        super().__init__()
        self.encoder_layers = encoder_layers
        self.passage = nn.Linear(width, size)
        self.question = nn.Linear(width, size)
        self.passage_norm = nn.LayerNorm(size)
        self.question_norm = nn.LayerNorm(size)
        self.likeness = nn.Linear(encoder_layers + 2, size)
        self.layers = nn.ModuleList(SpanScorerLayer(size, *convolution) for convolution in CONVOLUTIONS)
        self.norm = nn.LayerNorm(size)
        self.points = nn.Linear(size, 1)
        self.rarity: Tensor  # [vocabulary] inverse document frequency of each piece
        self.register_buffer("rarity", torch.zeros(vocabulary_size))

    def forward(self, passages: PaddedBatch, questions: PaddedBatch) -> Tensor:
        """Return a logit for each piece of the passages, [B, L]; -inf for padding."""
        features = self.likeness(self.match_features(passages, questions))
        hidden = self.passage_norm(self.passage(passages.vectors)) + features
        question = self.question_norm(self.question(questions.vectors))
        for layer in self.layers:
            hidden = layer(hidden, passages.mask, question, questions.mask)
        logits: Tensor = self.points(self.norm(hidden))[..., 0]
        return logits.masked_fill(~passages.mask, -torch.inf)

    def match_features(self, passages: PaddedBatch, questions: PaddedBatch) -> Tensor:
        """Return how each piece matches the question, [B, L, encoder_layers + 2].

        Per encoder layer, the cosine with the most similar piece of the question; the idf of a piece that the question
        contains too, else 0; and the passage's mean MaxSim by the last layer (ColBERT, arXiv:2004.12832).
        """
        features = []
        layers = (batch.vectors.chunk(self.encoder_layers, -1) for batch in (passages, questions))
        for passage_vectors, question_vectors in zip(*layers, strict=True):
            cosines = F.normalize(passage_vectors, dim=-1) @ F.normalize(question_vectors, dim=-1).transpose(1, 2)
            features.append(cosines.masked_fill(~questions.mask[:, None], -1.0).amax(2))
        max_sim = cosines.masked_fill(~passages.mask[..., None], -1.0).amax(1)
        mean_max_sim = (max_sim * questions.mask).sum(1, keepdim=True) / questions.mask.sum(1, keepdim=True)
        is_shared = ((passages.ids[:, :, None] == questions.ids[:, None]) & questions.mask[:, None]).any(2)
        idf = 0.1 * is_shared * self.rarity[passages.ids]
        return torch.stack((*features, idf, (5 * mean_max_sim - 3).expand_as(idf)), -1)


class SpanScorer(TrainedHead[SpanScorerNet, EncodedText]):
    """The encoder with the trained layers; it reads text, so it serves any main model."""

    kind = "span scorer"
    error = SpanScorerUnusable
    file_name = SPAN_SCORER_FILE
    cache_size = 65_536  # word pieces of passages whose vectors stay in memory, 1.5 KB each

    @staticmethod
    def _untrained_head(encoder: Encoder, tensors: Mapping[str, Tensor]) -> SpanScorerNet:
        size = tensors["points.weight"].shape[-1]
        return SpanScorerNet(encoder.width, len(encoder.layers), size, encoder.tokenizer.template.get_vocab_size())

    @torch.inference_mode()
    def score(self, question: str, texts: Sequence[str], cancel: Event | None = None) -> list[SpanScores]:
        """Return the scores of each passage's pieces for a question. Raises Cancelled once `cancel` is set."""
        encoded_question = encode_text(self.encoder, question, MAX_QUESTION_TOKENS)
        passages = list[EncodedText]()
        for text in texts:
            if cancel is not None and cancel.is_set():
                raise Cancelled
            passages.append(self.passages(text))
        if not any(passage.pieces.ids for passage in passages) or not encoded_question.pieces.ids:
            return [SpanScores(passage.pieces.spans, torch.zeros(len(passage.pieces.ids))) for passage in passages]
        logits = self.head(pad_batch(passages), pad_batch([encoded_question] * len(passages)))
        log_odds = logits - logits.max()
        spans = (passage.pieces.spans for passage in passages)
        return [SpanScores(each, row[: len(each)]) for each, row in zip(spans, log_odds, strict=True)]

    def _encode_passage(self, text: str, passage: TokenizedText | None = None) -> EncodedText:
        return encode_text(self.encoder, text)

    def _size_of(self, data: EncodedText) -> int:
        return len(data.pieces.ids)


def encode_text(encoder: Encoder, text: str, max_tokens: int = 0) -> EncodedText:
    """Return a text's word pieces with their vectors, or its last `max_tokens` ones (0: all)."""
    pieces = encoder.tokenizer.encode(text)
    pieces = TokenizedText(pieces.ids[-max_tokens:], pieces.spans[-max_tokens:])
    return EncodedText(pieces, encoder.embed(pieces.ids).half())


def pad_batch(texts: Sequence[EncodedText]) -> PaddedBatch:
    """Return texts as the rows of one batch."""
    lengths = torch.tensor([len(text.pieces.ids) for text in texts])
    vectors = pad_sequence([text.vectors.float() for text in texts], batch_first=True)
    ids = pad_sequence([torch.tensor(text.pieces.ids, dtype=torch.long) for text in texts], batch_first=True)
    return PaddedBatch(vectors, ids, torch.arange(ids.shape[1]) < lengths[:, None])


def char_log_odds(text: str, passages: Sequence[str], span_scores: Sequence[SpanScores]) -> list[float]:
    """Return the largest log-odds, or -inf, of each character of `text`: the passages with different white space."""
    aligned = [-math.inf] * len(text)
    offsets = (offset for offset, character in enumerate(text) if not character.isspace())
    for passage, scores in zip(passages, span_scores, strict=True):
        log_odds = [-math.inf] * len(passage)
        for (start, end), value in zip(scores.spans, scores.log_odds.tolist(), strict=True):
            log_odds[start:end] = [max(value, other) for other in log_odds[start:end]]
        for character, value in zip(passage, log_odds, strict=True):
            if not character.isspace():
                aligned[next(offsets)] = value
    return aligned
