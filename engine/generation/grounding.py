"""Score every possible next piece of an answer by the passage sentence that the answer would then be quoting.

A small model finds the right passage, then quotes the wrong sentence of it or misspells the name that it copies. Word
overlap with the question detects both. During decoding each candidate token gets the score of the sentence that the
answer would be quoting: the idf-weighted question words in that sentence, plus those elsewhere in its passage. A word
that no passage contains scores like the worst sentence, and so does an answer that only repeats the question. A refusal
("The passages do not ...") loses nothing after its first word. Word overlap does not tell apart two numbers of one
sentence, so a span scorer (engine.generation.span_scorer), if there is one, adds a score for each word.

Adding an external score to the logits at each step is shallow fusion (arXiv:1503.03535); following the passages' text
makes it a soft form of constrained decoding. It is the same for every method, so it favours none. Comparisons and
benchmarks of methods use it; an answer of the application is chosen by engine.generation.evidence where that can.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from threading import Event

import torch
from torch import Tensor

from engine.generation.evidence import Evidence
from engine.generation.ranking import UnitRanker
from engine.generation.span_scorer import SpanScorer, SpanScores, char_log_odds
from engine.model.encoder import Encoder
from engine.model.kernels.slot_attention import SlotAttention
from engine.model.sampling import Sampler
from engine.prompt.overlap import CHOICE_WORDS, sentence_scores
from engine.prompt.pack import PreparedPrompt
from engine.prompt.template import NO_ANSWER, PromptTemplate
from engine.text import UNSPACED_SCRIPTS, split_sentences, split_words

SENTENCE_WEIGHT = 0.3  # fusion weight: nats added to a logit per nat of sentence score
SPAN_WEIGHT = 0.5  # fusion weight of the span scorer's log-odds, in nats added to a logit per nat
MAX_RANGE = 33.0  # nats between the best and the worst sentence; 99 of 100 held-out questions have less
MAX_SPAN_PENALTY = 6.0  # nats; lower log-odds of the span scorer are clipped to this
LINE_WRAP = re.compile(r"\n(?=[a-z])")  # inside a sentence
_LETTER = rf"[^\W{UNSPACED_SCRIPTS}]"
WORD = re.compile(rf"[{UNSPACED_SCRIPTS}]|{_LETTER}+(?:(?<=\d)[.,](?=\d){_LETTER}+)*")  # 1,684,000 and 14th are one
WORD_INTERIOR = re.compile(rf"(?<={_LETTER})(?={_LETTER})|(?<=\d)(?=[.,]\d)|(?<=\d[.,])(?=\d)")


@dataclass(frozen=True, slots=True)
class QuoteState:
    """A partial answer, and the passage text that its end may be quoting: the state of the constrained decoder."""

    text: str = ""
    ends: tuple[int, ...] = ()  # of the quoted text at each place where it occurs, in characters of all passages joined
    score: float = 0.0  # of the best sentence (or word, with a span scorer) there, in nats below the best of all


class SentenceScores:
    """Scores partial answers by the sentences of the passages of one prompt.

    Sentences are scored by the words of the standalone question, which includes earlier turns. An answer that only
    repeats the original question is no answer.
    """

    def __init__(
        self,
        passages: Sequence[str],
        standalone_question: str,
        original_question: str | None = None,
        span_scores: SpanScores | None = None,
    ) -> None:
        sentences_of = [_normalized_sentences(passage) for passage in passages]
        sentences = [sentence for of_passage in sentences_of for sentence in of_passage]
        self._text = " ".join(sentences)
        # Of sentences, or of words once span scores are added.
        self._unit_starts = list(accumulate((len(sentence) + 1 for sentence in sentences[:-1]), initial=0))
        self._word_starts: dict[str, list[int]] = defaultdict(list)  # by the word's first character
        for word in WORD.finditer(self._text):
            self._word_starts[word.group()[0]].append(word.start())
        self._question_words = set(split_words(standalone_question if original_question is None else original_question))
        if CHOICE_WORDS & self._question_words:
            self._question_words.clear()
        scores = sentence_scores(sentences_of, standalone_question)
        best = max(scores, default=0.0)
        scale = min(1.0, MAX_RANGE / best) if best else 1.0
        self._unit_scores = [scale * (score - best) for score in scores]
        self.min_score = -scale * best  # of a word that no passage contains, in nats
        self._refusal_score = self._follow(QuoteState(), NO_ANSWER.split()[0])[1]  # of its first word
        if span_scores is not None:
            self._add_span_scores(char_log_odds(self._text, passages, span_scores))

    def advance(self, state: QuoteState, piece: str) -> QuoteState:
        """Return the state after `piece` is appended to the answer."""
        text = state.text + piece
        ends, score = self._follow(state, piece)
        answer = text.strip()
        if answer and NO_ANSWER.startswith(answer):
            score = 0.0 if " " in answer else max(score, self._refusal_score)
        return QuoteState(text, ends, score)

    def end_score(self, state: QuoteState) -> float:
        """Return the score of ending the answer; empty answers, incomplete words and echoes get the minimum."""
        is_echo = set(split_words(state.text)) <= self._question_words
        return self.min_score if is_echo or self._is_inside_word(state) else state.score

    def _add_span_scores(self, char_scores: Sequence[float]) -> None:
        """Replace the sentence scores by word scores: the sentence's plus the span scorer's best for its characters."""
        scale = SPAN_WEIGHT / SENTENCE_WEIGHT
        starts = [0]
        scores = [self.min_score - scale * MAX_SPAN_PENALTY]
        for word in WORD.finditer(self._text):
            span_score = max(-MAX_SPAN_PENALTY, *char_scores[word.start() : word.end()])
            starts.append(word.start())
            scores.append(self._score_at((word.end(),)) + scale * span_score)
        best = max(scores)
        self._unit_starts = starts
        self._unit_scores = [score - best for score in scores]
        self.min_score -= scale * MAX_SPAN_PENALTY + best
        self._refusal_score -= scale * MAX_SPAN_PENALTY / 2  # no span supports a refusal: half the penalty of a word

    def _follow(self, state: QuoteState, piece: str) -> tuple[tuple[int, ...], float]:
        """Return the end offsets of the quote after `piece` is appended, and its score."""
        continued = tuple(end + len(piece) for end in state.ends if self._text.startswith(piece, end))
        if continued:
            return continued, self._score_at(continued)
        text = state.text + piece
        word = WORD.search(piece)
        if word is None:
            return (), self.min_score if self._is_inside_word(state) else state.score
        start = piece[word.start() :]
        if WORD_INTERIOR.match(text, len(text) - len(start)):  # it continues a word in a way that no passage does
            return (), self.min_score
        candidates = self._word_starts.get(start[0], ())
        ends = tuple(offset + len(start) for offset in candidates if self._text.startswith(start, offset))
        return ends, self.min_score if self._is_inside_word(state) else self._score_at(ends)

    def _is_inside_word(self, state: QuoteState) -> bool:
        """Return whether the quoted text ends inside a word at each of its places."""
        return bool(state.ends) and all(WORD_INTERIOR.match(self._text, end) for end in state.ends)

    def _score_at(self, ends: Sequence[int]) -> float:
        units = (bisect_right(self._unit_starts, end - 1) - 1 for end in ends)
        return max((self._unit_scores[unit] for unit in units), default=self.min_score)


def _normalized_sentences(passage: str) -> list[str]:
    """Return the sentences of a passage, with single spaces and without blank ones."""
    sentences = (" ".join(sentence.split()) for sentence in split_sentences(LINE_WRAP.sub(" ", passage)))
    return [sentence for sentence in sentences if sentence]


@dataclass(frozen=True)
class GroundingModel:
    """What evidence and grounded decoding need beyond the prompt; without a span scorer, words score the sentences."""

    span_scorer: SpanScorer | None = None
    encoder: Encoder | None = None  # embeds sentences; loaded with a span scorer
    quote_encoder: Encoder | None = None  # the same, finetuned; the bundled search model has these weights too
    is_extractive: bool = True  # the main model was finetuned to quote: answers are quotes or spans where possible

    def use_kernel(self, kernel: SlotAttention | None) -> None:
        """Attend with a kernel from now on, in bf16."""
        for model in (self.span_scorer, self.encoder, self.quote_encoder):
            if model is not None:
                model.use_kernel(kernel)

    def evidence(self, prepared: PreparedPrompt, cancel: Event | None = None) -> Evidence | None:
        """Return what the passages say about the question; None without passages or span scorer. Raises Cancelled."""
        if self.span_scorer is None or not prepared.texts:
            return None
        ranker = UnitRanker(prepared, self.encoder, self.quote_encoder)
        return Evidence(self.span_scorer, prepared, ranker, cancel)

    def sampler(
        self, sampler: Sampler, prepared: PreparedPrompt, prompt: PromptTemplate, evidence: Evidence | None
    ) -> "GroundedSampler":
        """Return the sampler for one answer."""
        span_scores = evidence.scores if evidence else None
        question = prepared.standalone_question
        scores = SentenceScores(prepared.texts, question, prepared.original_question, span_scores)
        return GroundedSampler(sampler, scores, prompt.tokenizer.decode, prompt.stop_ids)


@dataclass
class GroundedSampler:
    """Samples one answer token by token from logits plus sentence scores (shallow fusion)."""

    sampler: Sampler
    scores: SentenceScores
    decode: Callable[[Sequence[int]], str]
    stop_ids: frozenset[int]
    _state: QuoteState = field(default_factory=QuoteState)
    _last_ids: Sequence[int] = ()  # of the last complete piece
    _last_text: str = ""
    _pending_ids: Sequence[int] = ()  # of a character that is still incomplete

    def sample(self, logits: Tensor) -> int:
        """Return a token id for logits [V].

        Tokens that lie so far below the most likely one that no score could lift them above it get the minimum score.
        """
        margin = -SENTENCE_WEIGHT * self.scores.min_score
        candidates = (logits >= logits.max() - margin).nonzero()[:, 0]
        bonuses = [SENTENCE_WEIGHT * self._token_score(token) for token in candidates.tolist()]
        fused = logits - margin
        fused[candidates] = logits[candidates] + torch.tensor(bonuses, device=logits.device)
        token = self.sampler.sample(fused)
        if (piece := self._piece(token)) is None:
            self._pending_ids = [*self._pending_ids, token]
        else:
            self._state = self.scores.advance(self._state, piece)
            self._last_ids = [*self._pending_ids, token]
            self._last_text = self.decode(self._last_ids)
            self._pending_ids = ()
        return token

    def _token_score(self, token: int) -> float:
        if token in self.stop_ids:
            return self.scores.end_score(self._state)
        piece = self._piece(token)
        return self._state.score if piece is None else self.scores.advance(self._state, piece).score

    def _piece(self, token: int) -> str | None:
        """Return the text that a token adds; None if it ends inside a character.

        It is decoded together with the piece before it: some tokenizers drop the space of the first token of a text.
        """
        text = self.decode([*self._last_ids, *self._pending_ids, token])
        return None if text.endswith("\ufffd") else text[len(self._last_text) :]
