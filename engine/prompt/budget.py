"""How a request would share out the model's context, told before it is asked: passages are counted, not searched."""

from itertools import islice

from engine.prompt.builder import pack_greedy, split_budget
from engine.prompt.template import Prompt
from engine.request import ContextBudget, Request
from store.types import Finder

COUNTED = 128  # passages whose tokens are counted; more are taken to be like them


def budget(finder: Finder, prompt: Prompt, request: Request, max_tokens: int) -> ContextBudget:
    """Return the shares of a request; its question may still be empty.

    Raises QuestionTooLong if the question alone does not fit.
    """
    question, answer, room = split_budget(prompt, request, max_tokens)
    chosen = [each for each in finder.documents() if not request.documents or each.id in request.documents]
    texts = (chunk.text for document in chosen for chunk in finder.chunks(document.id))
    counted = [len(prompt.passage(text).ids) for text in islice(texts, COUNTED)]
    chunks = max(len(counted), sum(document.chunks for document in chosen))
    usual = sum(counted) / len(counted) if counted else 0.0
    documents = round(usual * chunks)
    alone = len(chosen) == 1 and len(request.documents) == 1
    if request.whole and alone:
        wanted = counted + [round(usual)] * (chunks - len(counted))
    else:
        wanted = [round(usual)] * min(request.passages, chunks)
    fitting = pack_greedy(wanted, room)
    return ContextBudget(
        max_tokens=max_tokens,
        prefix=len(prompt.prefix),
        passages=sum(wanted[number] for number in fitting),
        question=len(question.ids),
        answer=answer,
        left_out=len(wanted) - len(fitting),
        documents=documents,
        fits_whole=alone and documents <= room,
    )
