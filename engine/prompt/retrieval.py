"""From a request to the passages that would be read, after each stage of the search.

A question of its own is searched for as it stands. One that leans on those before it is searched for twice, alone and
behind them, and what was read last is a third ranking: "Who owns it?" then finds what "Which boat ...?" has found.
Passages that were read last and are chosen again keep their old order in front, so that their path in the knowledge
tree is exact and a follow-up costs little more than its own tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from engine.errors import BadRequest
from engine.prompt.builder import PreparedPrompt, pack
from engine.prompt.followups import relevant_turns
from engine.prompt.template import Prompt
from engine.request import Request
from engine.trace import Trace
from store.types import Chunk, Finder, Hit

K = 60  # of reciprocal rank fusion, as in the store's own


def prepared_prompts(
    finder: Finder, prompt: Prompt, request: Request, max_tokens: int, trace: Trace
) -> Iterator[PreparedPrompt]:
    """Yield what would be read after each stage of the search, fitted into the context; the last one is final.

    Raises QuestionTooLong or DocumentTooLong, and BadRequest where the whole document to read is not there.
    """
    notes, began = _gone(finder, request), trace.now_ms()
    for hits in retrieve(finder, request):
        trace.add("search", began)
        with trace.stage("lookup"):
            reading = pack(prompt, request, hits, max_tokens)
        yield replace(reading, notes=notes + reading.notes)
        began = trace.now_ms()


def retrieve(finder: Finder, request: Request) -> Iterator[list[Hit]]:
    """Yield the passages found after each stage of the search, best first; for a whole document, all of it in order."""
    if request.whole:
        chunks = [chunk for document in request.documents for chunk in finder.chunks(document)]
        if not chunks:
            raise BadRequest("The document to read is not in the library any more. Choose another.")
        yield [_unscored(chunk) for chunk in chunks]
        return
    top, documents = request.passages, request.documents
    leaning = relevant_turns(request.question, request.earlier)
    if not leaning:
        yield from finder.stages(request.question, top, documents)
        return
    read = request.earlier[-1].passages
    behind = " ".join([*(exchange.question for exchange in leaning), request.question])
    for found in _together([finder.stages(question, top, documents) for question in (request.question, behind)]):
        held = finder.chunks_by_id(read)
        again = [_unscored(held[chunk]) for chunk in read if chunk in held and _within(held[chunk], documents)]
        yield rrf([*found, again])[:top]


def _gone(finder: Finder, request: Request) -> tuple[str, ...]:
    """Say which of the chosen documents are not there."""
    there = {document.id for document in finder.documents()} if request.documents else set()
    gone = len(set(request.documents) - there)
    if not gone:
        return ()
    if gone == len(set(request.documents)):
        return ("None of the chosen documents is in the library any more. Choose others.",)
    return (f"Not in the library any more: {gone} of the {len(set(request.documents))} chosen documents.",)


def rrf(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Join rankings by rank alone: the score is the sum of 1 / (K + rank) over the rankings that hold a chunk.

    Equal scores keep the order in which the chunks first appear. A hit says what any of the searches knows of it.
    """
    hits: dict[str, Hit] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            before = hits.get(hit.chunk.id, replace(hit, score=0.0))
            hits[hit.chunk.id] = replace(
                before,
                score=before.score + 1 / (K + rank),
                similarity=hit.similarity if before.similarity is None else before.similarity,
                matched_words=before.matched_words or hit.matched_words,
            )
    return sorted(hits.values(), key=lambda hit: -hit.score)


def _together(searches: Sequence[Iterable[list[Hit]]]) -> Iterator[list[list[Hit]]]:
    """Yield what all searches have found after each stage; one that has ended stays as it is."""
    latest: list[list[Hit]] = [[] for _ in searches]
    for stage in zip_longest(*searches):
        latest = [before if now is None else now for before, now in zip(latest, stage, strict=True)]
        yield latest


def _within(chunk: Chunk, documents: Sequence[str]) -> bool:
    return not documents or chunk.document_id in documents


def _unscored(chunk: Chunk) -> Hit:
    return Hit(chunk, score=0.0, similarity=None, matched_words=False)
