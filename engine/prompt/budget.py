"""Estimate how a request would divide the model's context before it runs: passages are counted, not searched."""

from itertools import islice

from engine.prompt.pack import pack_greedy, split_budget
from engine.prompt.template import PromptTemplate
from engine.request import ContextBudget, Request
from store.types import Finder

MAX_COUNTED_PASSAGES = 128  # further passages are assumed to have their mean length


def estimate_budget(finder: Finder, template: PromptTemplate, request: Request, max_tokens: int) -> ContextBudget:
    """Return the estimate; the question may still be empty.

    Raises QuestionTooLong if the question alone does not fit.
    """
    question, answer_tokens, passage_tokens = split_budget(template, request, max_tokens)
    chosen = [document for document in finder.documents() if not request.documents or document.id in request.documents]
    texts = (chunk.text for document in chosen for chunk in finder.chunks(document.id))
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
