"""Find the span of the passages that answers a question: extractive question answering with a small cross-encoder.

all-MiniLM-L6-v2 is finetuned to read the question and a passage together and to score every
word piece as the start and as the end of the answer (BERT, arXiv:1810.04805, section 4.2). The scores of what is read
are normalized together, with one more outcome: that none of them answers (shared normalization, arXiv:1710.10723; no
answer as in SQuAD 2.0, arXiv:1806.03822). The encoder is bidirectional and the generator is not, so the two make
different errors; engine.generation.grounding combines them. Trained by `python -m training span-scorer`.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from threading import Event
from typing import Any, Self

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from engine.errors import Cancelled, SpanScorerUnusable
from engine.model.encoder import last_hidden_states, supported_kernel
from engine.model.kernels.slot_attention import SlotAttention
from engine.model.tokenizer import TextTokenizer, TokenizedText
from store.weights_file import load_weights, save_weights, trained_weights

SPAN_SCORER_FILE = "span_scorer.safetensors"
MAX_QUESTION_PIECES = 64  # of a longer question the last ones
MAX_PIECES = 512  # of question, passage and special tokens: the encoder has so many positions
NUM_SPECIAL = 3  # [CLS], and [SEP] after question and passage
MAX_LIKELY_SPANS = 24  # of a quote, of which the first that may be an answer is taken
MAX_SPAN_PIECES = 400  # a list or the steps of a procedure can be long
MIN_PROBABILITY = 1e-12  # lower ones are clipped
BATCH_PAIRS = 8  # per forward pass on a CPU; bounds its memory
GPU_BATCH_PAIRS = 512  # per forward pass on a GPU, where several small ones take longer


@dataclass(frozen=True)
class Window:
    """The pieces of one passage, or of a part of a longer one, that are read together with the question."""

    passage: int
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]  # characters of each piece in the passage

    def first(self, character: int) -> int:
        """Return the first piece that ends behind a character of the passage."""
        return bisect_right(self.spans, character, key=lambda span: span[1])

    def last(self, character: int) -> int:
        """Return the number of pieces that start before a character of the passage."""
        return bisect_left(self.spans, character, key=lambda span: span[0])


@dataclass(frozen=True)
class Span:
    """A possible answer: characters of a passage, and the probability that this is the answer."""

    passage: int
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class SpanScores:
    """How likely each piece of some windows starts, and ends, the answer to a question.

    Log-probabilities [windows, pieces] in nats, -inf for padding. Those of all windows and of no answer sum to 1.
    """

    windows: tuple[Window, ...]
    starts: Tensor
    ends: Tensor
    no_answer: float  # probability that no passage answers

    @cached_property
    def best(self) -> Span | None:
        """The most likely span; None without passages."""
        best = None
        for window, starts, ends in zip(self.windows, self.starts, self.ends, strict=True):
            joint = _joint(starts, ends)
            start, end = divmod(int(joint.argmax()), len(starts))
            probability = math.exp(0.5 * float(joint[start, end]))
            if best is None or probability > best.probability:
                best = Span(window.passage, window.spans[start][0], window.spans[end][1], probability)
        return best

    def likely_between(self, passage: int, start: int, end: int) -> list[Span]:
        """Return the most likely spans between two characters of a passage, the best first; they may overlap."""
        spans = []
        for window, starts, ends in zip(self.windows, self.starts, self.ends, strict=True):
            pieces = slice(window.first(start), window.last(end))
            if window.passage == passage and pieces.start < pieces.stop:
                joint = _joint(starts[pieces], ends[pieces])
                values, indices = joint.flatten().topk(min(MAX_LIKELY_SPANS, joint.numel()))
                for value, index in zip(values.tolist(), indices.tolist(), strict=True):
                    first, last = divmod(index, len(joint))
                    if first <= last:
                        span = window.spans[pieces.start + first][0], window.spans[pieces.start + last][1]
                        spans.append(Span(passage, *span, math.exp(0.5 * value)))
        return sorted(spans, key=lambda span: -span.probability)

    def mass(self, passage: int, start: int, end: int) -> float:
        """Return the probability that the answer starts or ends in characters of a passage: the mean of both."""
        total = 0.0
        for window, sums in zip(self.windows, self._sums, strict=True):
            if window.passage == passage:
                total += sums[window.last(end)] - sums[window.first(start)]
        return total

    @cached_property
    def _sums(self) -> list[list[float]]:
        """For each window, the sum over its first n pieces of the mean of start and end probability, by n."""
        means = 0.5 * (self.starts.exp() + self.ends.exp())
        return [[0.0, *row.cumsum(0).tolist()] for row in means]

    def log_odds(self) -> list[Tensor]:
        """Return for each window the log-probability of its pieces to lie inside the answer, relative to the largest.

        A piece is inside if the answer starts at or before it and ends at or after it.
        """
        log_probs = [inside.clamp_min(MIN_PROBABILITY).log() for inside in self.inside()]
        best = max((float(row.max()) for row in log_probs), default=0.0)
        return [row - best for row in log_probs]

    def inside(self) -> list[Tensor]:
        """Return for each window the probability of its pieces to lie inside the answer."""
        inside = self.starts.exp().cumsum(1) - self.ends.exp().cumsum(1) + self.ends.exp()
        return [row[: len(window.ids)].clamp(0, 1) for window, row in zip(self.windows, inside, strict=True)]


class SpanScorer(nn.Module):
    """A BERT encoder with start and end scores for each word piece."""

    def __init__(self, encoder: Any, tokenizer: Tokenizer) -> None:
        super().__init__()
        encoder.pooler = None  # unused
        self.encoder = encoder
        self.outputs = nn.Linear(encoder.config.hidden_size, 2, dtype=encoder.dtype)
        self.tokenizer = TextTokenizer(tokenizer)
        ids = self.tokenizer.template.get_vocab()
        self._cls, self._sep = ids["[CLS]"], ids["[SEP]"]
        self._kernel: SlotAttention | None = None

    @classmethod
    def load(cls, folder: Path, encoder: Any, tokenizer: Tokenizer) -> Self:
        """Return the scorer in a folder. Raises SpanScorerUnusable if its file is damaged or of another encoder."""
        path = folder / SPAN_SCORER_FILE
        scorer = cls(encoder, tokenizer)
        try:
            load_weights(path, scorer)
        except (OSError, SafetensorError, ValueError) as cause:
            raise SpanScorerUnusable(f"The span scorer in {path} cannot be used ({cause}).") from cause
        return scorer.eval().requires_grad_(False)

    def use_kernel(self, kernel: SlotAttention | None) -> None:
        """Attend with a kernel from now on, in bf16; not for training."""
        self._kernel = supported_kernel(self.encoder, kernel)

    def save(self, folder: Path) -> None:
        """Write the trained weights."""
        save_weights(trained_weights(self), folder / SPAN_SCORER_FILE)

    @property
    def device(self) -> torch.device:
        return self.outputs.weight.device

    @property
    def num_parameters(self) -> int:
        return sum(weight.numel() for weight in self.parameters())

    @property
    def size_bytes(self) -> int:
        return sum(weight.nbytes for weight in self.parameters())

    def windows(self, question_ids: Sequence[int], passages: Iterable[TokenizedText]) -> list[Window]:
        """Return the windows of passages that fit next to a question; a longer passage is cut into equal parts."""
        max_pieces = MAX_PIECES - NUM_SPECIAL - len(question_ids)
        windows = []
        for index, passage in enumerate(passages):
            size = math.ceil(len(passage.ids) / max(1, math.ceil(len(passage.ids) / max_pieces)))
            for start in range(0, len(passage.ids), size or 1):
                part = slice(start, start + size)
                windows.append(Window(index, passage.ids[part], passage.spans[part]))
        return windows

    def forward(
        self, pairs: Sequence[tuple[Sequence[int], Window]], cancel: Event | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return start and end logits, [pairs, pieces] each, of pairs of a question's ids and a window; -inf pads.

        Pairs of similar length share a pass of the encoder. Raises Cancelled once `cancel` is set.
        """
        rows = [torch.empty(0, 2)] * len(pairs)
        by_length = sorted(range(len(pairs)), key=lambda index: len(pairs[index][0]) + len(pairs[index][1].ids))
        size = BATCH_PAIRS if self.device.type == "cpu" else GPU_BATCH_PAIRS
        for start in range(0, len(pairs), size):
            if cancel is not None and cancel.is_set():
                raise Cancelled
            batch = by_length[start : start + size]
            for index, logits in zip(batch, self._batch_logits([pairs[index] for index in batch]), strict=True):
                rows[index] = logits
        starts, ends = pad_sequence(rows, batch_first=True, padding_value=-torch.inf).unbind(-1)
        return starts, ends

    def _batch_logits(self, pairs: Sequence[tuple[Sequence[int], Window]]) -> list[Tensor]:
        """Return start and end logits [pieces, 2] of each pair's window."""
        ids = [torch.tensor([self._cls, *question, self._sep, *window.ids, self._sep]) for question, window in pairs]
        offsets = [len(question) + 2 for question, _ in pairs]
        types = [(torch.arange(len(row)) >= offset).long() for row, offset in zip(ids, offsets, strict=True)]
        states = last_hidden_states(self.encoder, ids, types, self._kernel)
        of_windows = [each[offset:-1] for each, offset in zip(states, offsets, strict=True)]
        logits = self.outputs(torch.cat(of_windows)).float()
        return list(logits.split([len(each) for each in of_windows]))

    @torch.inference_mode()
    def score(
        self, question: str, texts: Sequence[str], cancel: Event | None = None, read: Sequence[int] | None = None
    ) -> SpanScores:
        """Return the scores of the pieces of passages for a question. Raises Cancelled once `cancel` is set.

        `read` are the indices of the passages to read, all by default; the others have no windows.
        """
        question_ids = self.encode_question(question)
        read = range(len(texts)) if read is None else read
        encoded = (self.tokenizer.encode(texts[index]) for index in read)
        windows = [replace(each, passage=read[each.passage]) for each in self.windows(question_ids, encoded)]
        if not windows:
            return SpanScores((), torch.empty(0, 0), torch.empty(0, 0), 1.0)
        starts, ends = (part.cpu() for part in self([(question_ids, window) for window in windows], cancel))
        (starts, no_start), (ends, no_end) = normalize(starts), normalize(ends)
        return SpanScores(tuple(windows), starts, ends, math.exp(0.5 * float(no_start + no_end)))

    def encode_question(self, question: str) -> tuple[int, ...]:
        return self.tokenizer.encode(question).ids[-MAX_QUESTION_PIECES:]


def normalize(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of logits [windows, pieces], and of no answer, whose logit is 0."""
    log_sum = torch.cat([logits.flatten(), logits.new_zeros(1)]).logsumexp(0)
    return logits - log_sum, -log_sum


def _joint(starts: Tensor, ends: Tensor) -> Tensor:
    """Return the sums of start and end log-probabilities [pieces, pieces]; -inf where they are no span."""
    return (starts[:, None] + ends).masked_fill(~_ordered(len(starts)), -torch.inf)


@cache
def _ordered(num_pieces: int) -> Tensor:
    """Return which pairs of a start and an end [pieces, pieces] are a span that is not too long."""
    return torch.ones(num_pieces, num_pieces, dtype=torch.bool).triu().tril(MAX_SPAN_PIECES - 1)


def char_log_odds(text: str, passages: Sequence[str], scores: SpanScores) -> list[float]:
    """Return the largest log-odds, or -inf, of each character of `text`: the passages with different white space."""
    by_passage = [[-math.inf] * len(passage) for passage in passages]
    for window, log_odds in zip(scores.windows, scores.log_odds(), strict=True):
        of_passage = by_passage[window.passage]
        for (start, end), value in zip(window.spans, log_odds.tolist(), strict=True):
            of_passage[start:end] = [max(value, other) for other in of_passage[start:end]]
    aligned = [-math.inf] * len(text)
    offsets = (offset for offset, character in enumerate(text) if not character.isspace())
    for passage, values in zip(passages, by_passage, strict=True):
        for character, value in zip(passage, values, strict=True):
            if not character.isspace():
                aligned[next(offsets)] = value
    return aligned
