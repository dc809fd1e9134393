"""Tokenize retrieved passages and fit them into the model's context, next to the question and the answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.errors import DocumentTooLong, QuestionTooLong
from engine.model.tokenizer import TokenizedText
from engine.prompt.followups import ContextualQuestion, with_history
from engine.prompt.template import MAX_QUERY_ROWS, PromptTemplate
from engine.request import Request
from engine.strategies import STRATEGIES
from store.types import Hit

MIN_ANSWER_TOKENS = 16  # always left for the answer, unless the request asks for fewer


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt before prefill: what the model will read, in prompt order.

    texts                the passages, stripped, as tokenized
    passages             their token ids and character spans
    standalone_question  the question preceded by the history it needs
    original_question    the question alone
    suffix_ids           ids of everything after the passages
    max_new_tokens       tokens left for the answer
    hits                 the retrieved chunks the passages came from; empty if the passages were given
    num_dropped_chunks   retrieved chunks that did not fit
    """

    texts: tuple[str, ...]
    passages: tuple[TokenizedText, ...]
    standalone_question: str
    original_question: str
    suffix_ids: tuple[int, ...]
    max_new_tokens: int
    hits: tuple[Hit, ...] = ()
    notes: tuple[str, ...] = ()
    num_dropped_chunks: int = 0

    @property
    def passage_ids(self) -> list[tuple[int, ...]]:
        """The token ids of each passage."""
        return [passage.ids for passage in self.passages]

    @property
    def context_tokens(self) -> int:
        return sum(map(len, self.passage_ids))


def same_prompt(one: PreparedPrompt, other: PreparedPrompt) -> bool:
    """Return whether two prompts have the same ids; the scores of their hits may differ."""
    return one.passages == other.passages and one.suffix_ids == other.suffix_ids


def split_budget(template: PromptTemplate, request: Request, max_tokens: int) -> tuple[ContextualQuestion, int, int]:
    """Return the question with its history, and the tokens available for the answer and for the passages.

    Raises QuestionTooLong if the question alone does not fit.
    """
    question = with_history(template, request)
    fixed_tokens = len(template.prefix_ids) + len(question.ids)
    free_tokens = max_tokens - fixed_tokens
    if min(request.max_new_tokens, MIN_ANSWER_TOKENS) > free_tokens:
        raise QuestionTooLong(f"The question has {len(question.ids)} tokens; the model's context has {max_tokens}.")
    answer_tokens = min(request.max_new_tokens, free_tokens, max(MIN_ANSWER_TOKENS, free_tokens // 2))
    return question, answer_tokens, free_tokens - answer_tokens


def pack_greedy(lengths: Sequence[int], max_tokens: int) -> list[int]:
    """Return the indices of the passages that fit, best first; a shorter passage may fit after a longer one did not."""
    indices = []
    for index, length in enumerate(lengths):
        if length <= max_tokens:
            indices.append(index)
            max_tokens -= length
    return indices


def keep_previous_order(hits: Sequence[Hit], indices: Sequence[int], previous: Sequence[str]) -> list[int]:
    """Return the indices reordered: chunks of the previous prompt first, in their order there, then the others.

    The set does not change, so a previous chunk never displaces a better one.
    """
    positions = {chunk_id: position for position, chunk_id in enumerate(previous)}
    return sorted(indices, key=lambda index: positions.get(hits[index].chunk.id, len(positions)))


def pack(template: PromptTemplate, request: Request, hits: Sequence[Hit], max_tokens: int) -> PreparedPrompt:
    """Return the prompt with those hits, best first, that fit next to prefix, question and answer.

    Chunks of the previous prompt come first, in their previous order, so that their knowledge-tree path is exact again.

    Raises QuestionTooLong if the question alone does not fit, DocumentTooLong if a whole document does not.
    """
    question, answer_tokens, passage_tokens = split_budget(template, request, max_tokens)
    passages = list(_tokenize(template, hits, passage_tokens if request.whole_document else None))
    indices = pack_greedy([len(passage.ids) for passage in passages], passage_tokens)
    if request.history and not request.whole_document:
        indices = keep_previous_order(hits, indices, request.history[-1].chunk_ids)
    num_dropped, notes = len(hits) - len(indices), list(question.notes)
    if num_dropped:
        notes.append(f"{num_dropped} of {len(hits)} passages did not fit into the model's {max_tokens} tokens.")
    if STRATEGIES[request.method].score_mode and len(question.ids) > MAX_QUERY_ROWS:
        notes.append(f"The question is long: only its last {MAX_QUERY_ROWS} tokens select what is recomputed.")
    if not hits:
        where, hint = (" in the chosen documents", "") if request.documents else ("", " Add documents first.")
        notes.append(f"No passage was found{where}: the answer comes from the model alone.{hint}")
    return PreparedPrompt(
        texts=tuple(hits[index].chunk.text.strip() for index in indices),
        passages=tuple(passages[index] for index in indices),
        standalone_question=question.text,
        original_question=request.question.strip(),
        suffix_ids=question.ids,
        max_new_tokens=answer_tokens,
        hits=tuple(hits[index] for index in indices),
        notes=tuple(notes),
        num_dropped_chunks=num_dropped,
    )


def _tokenize(template: PromptTemplate, hits: Sequence[Hit], max_tokens: int | None) -> Iterator[TokenizedText]:
    """Yield the passages of the hits; stop at `max_tokens`, because counting 16 MB would take 20 s.

    Raises DocumentTooLong if they have more than `max_tokens` tokens.
    """
    tokens = 0
    for number, hit in enumerate(hits, start=1):
        passage = template.passage(hit.chunk.text)
        yield passage
        tokens += len(passage.ids)
        if max_tokens is not None and tokens > max_tokens:
            estimate = tokens * len(hits) // number
            raise DocumentTooLong(
                f"{hit.chunk.document_name} has about {estimate} tokens; "
                f"{max_tokens} fit next to the question and its answer."
            )
