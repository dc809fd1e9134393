"""Retrieve the passages for a request, stage by stage, and pack each stage's hits into a prompt.

A follow-up is searched for twice, alone and after the questions it needs, and the chunks of the previous prompt are a
third ranking: "Who owns it?" then finds the chunks of "Which boat sails the Bay Route?" again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from engine.errors import BadRequest
from engine.prompt.edition_changes import compare_editions, with_counterparts
from engine.prompt.editions import other_editions, tells_edition
from engine.prompt.followups import YEAR, naming_rows, relevant_turns
from engine.prompt.named_documents import ALL_DOCUMENTS, most_named, several_documents, split_topic
from engine.prompt.pack import PreparedPrompt, pack
from engine.prompt.question_kind import QuestionKind, question_kind
from engine.prompt.section_versions import compare_sections
from engine.prompt.spelling import corrected
from engine.prompt.tables.rows import with_deciding_rows
from engine.prompt.tables.totals import NO_ROWS
from engine.prompt.template import PromptTemplate
from engine.prompt.titles import section_titles
from engine.prompt.versions import compare_documents
from engine.request import Request
from engine.trace import Trace
from store.fusion import rrf
from store.types import Chunk, Finder, Hit

MAX_TABLE_HITS = 12  # whose tables may have the result that a question asks for
MAX_OPENINGS = 12  # of the newest documents, in a summary of all


def prepare_stages(
    finder: Finder, template: PromptTemplate, request: Request, max_tokens: int, trace: Trace
) -> Iterator[PreparedPrompt]:
    """Yield the packed prompt after each stage of the search; the last one is final. Raises as `pack`, `retrieve`."""
    notes, start_ms = _missing_documents_note(finder, request) + _openings_note(finder, request), trace.now_ms()
    ways = compare_documents, compare_sections, compare_editions
    compared = next(filter(None, (compare(finder, request) for compare in ways)), None)
    different = compared.hits() if compared else []
    for hits in [different] if different else retrieve(finder, request):
        question = corrected(request.question, (hit.chunk.passage for hit in hits), template.is_word)
        rows_of = "" if different else naming_rows(question, request.history)
        follow_up = question if rows_of != question else ""
        found, table_rows = hits, NO_ROWS
        if rows_of:
            found, table_rows = with_deciding_rows(
                finder, rows_of, hits, follow_up, partial(_more, finder, request, rows_of)
            )
        hits = hits if request.whole_document else found  # those of a whole document stay in its order
        trace.add("search", start_ms)
        with trace.stage("lookup"):
            packed = pack(template, replace(request, question=question), hits, max_tokens)
            read_as = (f"Read as: {question}",) if question != request.question else ()
            sections = _sections(finder, packed)
            prepared = replace(packed, table_rows=table_rows, sections=sections, notes=read_as + packed.notes)
            if compared:
                prepared = compared.add_to(prepared)
        yield replace(prepared, notes=notes + prepared.notes)
        start_ms = trace.now_ms()


def search(finder: Finder, request: Request) -> list[Hit]:
    """Return the hits of the last search stage, best first, for the question as it is."""
    *_, hits = finder.retrieve_stages(request.question, request.passages, request.documents)
    return hits


def retrieve(finder: Finder, request: Request) -> Iterator[list[Hit]]:
    """Yield the hits after each stage of the search, best first; for a whole document, all its chunks in order.

    Raises BadRequest if the whole document to read does not exist.
    """
    if request.whole_document:
        chunks = [chunk for document in request.documents for chunk in finder.chunks(document)]
        if not chunks:
            raise BadRequest("The document is no longer in the library. Choose another.")
        yield [_unscored(chunk) for chunk in chunks]
        return
    top_k, documents = request.passages, request.documents
    turns = relevant_turns(request.question, request.history)
    if not turns:
        if several := _several_documents(finder, request):
            yield from _of_each(finder, request, several)
            return
        kind = question_kind(request.question)
        if kind is QuestionKind.SUMMARY:
            yield from _summarized(finder, request)
            return
        for hits in _retrieve(finder, request, request.question):
            yield with_counterparts(finder, request, hits) if kind is QuestionKind.COMPARISON else hits
        return
    previous = request.history[-1].chunk_ids
    earlier = " ".join(turn.question for turn in turns)
    if YEAR.search(request.question):  # the same about another year
        earlier = YEAR.sub("", earlier)
    searches = [_retrieve(finder, request, each) for each in (request.question, f"{earlier} {request.question}")]
    rankings: list[list[Hit]] = [[], []]
    for stage in zip_longest(*searches):
        rankings = _latest(rankings, stage)
        chunks_by_id = finder.chunks_by_id(previous)
        again = [chunks_by_id[chunk_id] for chunk_id in previous if chunk_id in chunks_by_id]
        scope = {document.id for document in finder.documents() if document.is_in(documents)} if documents else set()
        allowed = [_unscored(chunk) for chunk in again if not documents or chunk.document_id in scope]
        yield fuse_hits([*rankings, allowed])[:top_k]


def fuse_hits(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Merge rankings by reciprocal rank fusion; a chunk keeps the first known similarity and any lexical match."""
    return [
        replace(
            hits[0],
            score=score,
            similarity=next((hit.similarity for hit in hits if hit.similarity is not None), None),
            matched_words=any(hit.matched_words for hit in hits),
        )
        for hits, score in rrf(rankings, key=lambda hit: hit.chunk.id)
    ]


def _more(finder: Finder, request: Request, question: str) -> list[Hit]:
    """Return the hits of a longer search for a question."""
    *_, hits = _retrieve(finder, replace(request, passages=MAX_TABLE_HITS), question)
    return hits


def _summarized(finder: Finder, request: Request) -> Iterator[list[Hit]]:
    """Yield what a summary reads: the openings of all documents if it is of these, else chunks of one of them.

    That is the one which the question names, or else the one with the best hit.
    """
    if all_documents := _all_documents(finder, request):
        openings = (finder.chunks(document)[:1] for document in all_documents[:MAX_OPENINGS])
        yield [_unscored(chunk) for chunks in openings for chunk in chunks]
        return
    names = {document.id: document.name for document in finder.documents() if document.is_in(request.documents)}
    named = replace(request, documents=tuple(most_named(request.question, names)) or request.documents)
    for hits in _retrieve(finder, named, request.question):
        yield _with_opening(finder, hits, request.passages)


def _sections(finder: Finder, prompt: PreparedPrompt) -> tuple[str, ...]:
    """Return the titles of the sections of the document that a question asks to summarize; often none."""
    documents = {hit.chunk.document_id for hit in prompt.hits}
    is_of_one = question_kind(prompt.original_question) is QuestionKind.SUMMARY and len(documents) == 1
    return section_titles(finder.chunks(documents.pop())) if is_of_one else ()


def _all_documents(finder: Finder, request: Request) -> list[str]:
    """Return the ids of the documents in the scope, newest first, if the question wants a summary of all; else none."""
    is_of_all = question_kind(request.question) is QuestionKind.SUMMARY and ALL_DOCUMENTS.search(request.question)
    found = [each.id for each in finder.documents() if each.is_in(request.documents)] if is_of_all else []
    return found if len(found) > 1 else []


def _with_opening(finder: Finder, hits: Sequence[Hit], top_k: int) -> list[Hit]:
    """Return hits in the best hit's document, with its opening, and the chunks after that if there are too few hits.

    A summary is of one document, and its opening says what that is about.
    """
    chunks = finder.chunks(hits[0].chunk.document_id) if hits else []
    if not chunks:  # nothing found, or deleted in the meantime
        return list(hits)
    first, *rest = chunks
    by_id = {hit.chunk.id: hit for hit in hits if hit.chunk.document_id == first.document_id}
    found = [hit for hit in by_id.values() if hit.chunk.id != first.id][: top_k - 1]
    others = [_unscored(chunk) for chunk in rest if chunk.id not in by_id]
    return [by_id.get(first.id) or _unscored(first), *found, *others][:top_k]


def _several_documents(finder: Finder, request: Request) -> list[str]:
    """Return the ids of the documents in the scope that the question asks about one topic, by name; none if not two."""
    if not split_topic(request.question)[1]:
        return []
    names = {document.id: document.name for document in finder.documents() if document.is_in(request.documents)}
    return sorted(several_documents(request.question, names), key=names.__getitem__)


def _of_each(finder: Finder, request: Request, documents: Sequence[str]) -> Iterator[list[Hit]]:
    """Yield hits of each of the documents in turn: the best ones of all may be from one.

    The scores of different searches are not comparable, so the hits are scored by their place.
    """
    searches = [finder.retrieve_stages(request.question, request.passages, (document,)) for document in documents]
    rankings: list[list[Hit]] = [[] for _ in documents]
    for stage in zip_longest(*searches):
        rankings = _latest(rankings, stage)
        in_turn = [hit for hits in zip_longest(*rankings) for hit in hits if hit is not None]
        yield [replace(hit, score=1 / place) for place, hit in enumerate(in_turn[: request.passages], 1)]


def _retrieve(finder: Finder, request: Request, question: str) -> Iterator[list[Hit]]:
    """Yield the hits for a question after each stage, without those of editions that the request does not mean."""
    if not tells_edition(request.question):
        yield from finder.retrieve_stages(question, request.passages, request.documents)
        return
    for hits in finder.retrieve_stages(question, 2 * request.passages, request.documents):
        excluded = other_editions(request.question, [hit.chunk.document_name for hit in hits]).excluded
        yield [hit for position, hit in enumerate(hits) if position not in excluded][: request.passages]


def _latest(rankings: list[list[Hit]], stage: Sequence[list[Hit] | None]) -> list[list[Hit]]:
    """Return the rankings after a stage of several searches; one that has finished keeps its last hits."""
    return [last if hits is None else hits for last, hits in zip(rankings, stage, strict=True)]


def _missing_documents_note(finder: Finder, request: Request) -> tuple[str, ...]:
    chosen = set(request.documents)
    existing = finder.documents() if chosen else []
    missing = {each for each in chosen if not any(document.is_in([each]) for document in existing)}
    if missing and missing == chosen:
        return ("None of the chosen documents is in the library any more. Choose others.",)
    note = f"Not in the library any more: {len(missing)} of the {len(chosen)} chosen documents."
    return (note,) if missing else ()


def _openings_note(finder: Finder, request: Request) -> tuple[str, ...]:
    count = len(_all_documents(finder, request))
    return (f"The {MAX_OPENINGS} newest of {count} documents are summarized.",) if count > MAX_OPENINGS else ()


def _unscored(chunk: Chunk) -> Hit:
    return Hit(chunk, score=0.0, similarity=None, matched_words=False)
