"""Tokenize retrieved passages and fit them into the model's context, next to the question and the answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from engine.errors import DocumentTooLong, QuestionTooLong
from engine.model.tokenizer import TokenizedText
from engine.prompt.followups import ContextualQuestion, with_history
from engine.prompt.tables.totals import NO_ROWS, TableRows
from engine.prompt.template import MAX_QUERY_ROWS, PromptTemplate
from engine.request import ContextBudget, Quote, Request
from engine.strategies import STRATEGIES
from store.types import Finder, Hit

MIN_ANSWER_TOKENS = 16  # always left for the answer, unless the request asks for fewer
MAX_COUNTED_PASSAGES = 128  # by an estimate; further passages are assumed to have their mean length


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt before prefill: what the model will read, in prompt order."""

    texts: tuple[str, ...]  # of the passages, stripped
    passages: tuple[TokenizedText, ...]
    standalone_question: str  # with the history it needs before it
    original_question: str
    suffix_ids: tuple[int, ...]  # everything after the passages
    max_new_tokens: int  # tokens left for the answer
    hits: tuple[Hit, ...] = ()  # of the passages; empty if they were given
    notes: tuple[str, ...] = ()
    num_dropped_chunks: int = 0
    changes: tuple[tuple[Quote, ...], ...] = ()  # between two documents, for a question about them
    sections: tuple[str, ...] = ()  # titles of those of the document that a question asks to summarize
    table_rows: TableRows = NO_ROWS  # of a whole table that a question asks to list, to count or to add up

    @property
    def passage_ids(self) -> list[tuple[int, ...]]:
        return [passage.ids for passage in self.passages]

    @property
    def context_tokens(self) -> int:
        return sum(map(len, self.passage_ids))


def same_prompt(one: PreparedPrompt, other: PreparedPrompt) -> bool:
    """Return whether two prompts have the same ids; the scores of their hits may differ."""
    return one.passages == other.passages and one.suffix_ids == other.suffix_ids


def split_budget(template: PromptTemplate, request: Request, max_tokens: int) -> tuple[ContextualQuestion, int, int]:
    """Return the question with its history, and the tokens left for answer and passages. Raises QuestionTooLong."""
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
    """Return the indices reordered: chunks of the previous prompt first, in their order there, then the others."""
    positions = {chunk_id: position for position, chunk_id in enumerate(previous)}
    return sorted(indices, key=lambda index: positions.get(hits[index].chunk.id, len(positions)))


def pack(template: PromptTemplate, request: Request, hits: Sequence[Hit], max_tokens: int) -> PreparedPrompt:
    """Return the prompt with those hits, best first, that fit next to prefix, question and answer.

    Chunks of the previous prompt come first, in their previous order, so that their knowledge-tree path is exact again.
    Raises QuestionTooLong, and DocumentTooLong if a whole document does not fit.
    """
    question, answer_tokens, passage_tokens = split_budget(template, request, max_tokens)
    passages = list(_tokenize(template, hits, passage_tokens if request.whole_document else None))
    indices = pack_greedy([len(passage.ids) for passage in passages], passage_tokens)
    if request.history and not request.whole_document:
        indices = keep_previous_order(hits, indices, request.history[-1].chunk_ids)
    notes = list(question.notes)
    if num_dropped := len(hits) - len(indices):
        notes.append(f"{num_dropped} of {len(hits)} passages did not fit into the model's {max_tokens} tokens.")
    if STRATEGIES[request.method].score_mode and len(question.ids) > MAX_QUERY_ROWS:
        notes.append(f"The question is long: only its last {MAX_QUERY_ROWS} tokens select what is recomputed.")
    if not hits:
        where, hint = (" in the chosen documents", "") if request.documents else ("", " Add documents first.")
        notes.append(f"No passage was found{where}: the answer comes from the model alone.{hint}")
    return PreparedPrompt(
        texts=tuple(hits[index].chunk.passage.strip() for index in indices),
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
    """Yield the passages of the hits. Raises DocumentTooLong beyond `max_tokens`: counting 16 MB would take 20 s."""
    tokens = 0
    for number, hit in enumerate(hits, start=1):
        passage = template.passage(hit.chunk.passage)
        yield passage
        tokens += len(passage.ids)
        if max_tokens is not None and tokens > max_tokens:
            estimate = tokens * len(hits) // number
            raise DocumentTooLong(
                f"{hit.chunk.document_name} has about {estimate} tokens; "
                f"{max_tokens} fit next to the question and its answer."
            )


def estimate_budget(finder: Finder, template: PromptTemplate, request: Request, max_tokens: int) -> ContextBudget:
    """Estimate how a request would divide the context: passages are counted, not searched. Raises QuestionTooLong."""
    question, answer_tokens, passage_tokens = split_budget(template, request, max_tokens)
    chosen = [document for document in finder.documents() if document.is_in(request.documents)]
    texts = (chunk.passage for document in chosen for chunk in finder.chunks(document.id))
    counted = [len(template.passage(text).ids) for text in islice(texts, MAX_COUNTED_PASSAGES)]
    num_chunks = max(len(counted), sum(document.num_chunks for document in chosen))
    mean_tokens = sum(counted) / len(counted) if counted else 0.0
    document_tokens = round(mean_tokens * num_chunks)
    has_one_document = len(chosen) == 1 and len(request.documents) == 1
    if request.whole_document and has_one_document:
        lengths = counted + [round(mean_tokens)] * (num_chunks - len(counted))
    else:
        lengths = [round(mean_tokens)] * min(request.passages, num_chunks)
    fitting = pack_greedy(lengths, passage_tokens)
    return ContextBudget(
        max_tokens=max_tokens,
        prefix_tokens=len(template.prefix_ids),
        passage_tokens=sum(lengths[index] for index in fitting),
        question_tokens=len(question.ids),
        answer_tokens=answer_tokens,
        num_dropped_passages=len(lengths) - len(fitting),
        document_tokens=document_tokens,
        fits_whole=has_one_document and document_tokens <= passage_tokens,
    )
