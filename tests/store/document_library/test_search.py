"""Each stage of retrieval ranks better than the last, and none holds a lock while the caller pauses."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from store.document_library import RERANKED_PER_HIT
from tests.store.conftest import best_cosine, search
from tests.support.fakes import FakeReranker, WordEmbedder

ROOT = Path(__file__).parents[3]
BIRDS = (
    "The heron waits in the reeds. " * 8
    + "\n\nThe kingfisher dives for small fish near code 566362.\n\n"
    + "Swans sleep on the water. " * 20
)
ROCKS = "Granite cools slowly under ground. " * 8 + "\n\nBasalt cools quickly in the open sea.\n\n" + "Chalk. " * 30
QUESTION = "What dives near the open sea?"


@pytest.fixture
def filled(open_library, file_of):
    """Open a library with two documents in it."""

    def open_(**given):
        library = open_library(**given)
        for name, text in [("birds.txt", BIRDS), ("rocks.txt", ROCKS)]:
            list(library.add(file_of(text, name), name))
        return library

    return open_


def ids(hits):
    return [hit.chunk.id for hit in hits]


def all_chunks(library):
    return [chunk for document in library.documents() for chunk in library.chunks(document.id)]


@pytest.mark.parametrize("reranker", [None, FakeReranker(len)], ids=["fused", "reranked"])
@pytest.mark.parametrize("question", [QUESTION, "566362", "?", " ", ""])
def test_every_stage_is_deterministic(filled, question, reranker):
    library = filled(reranker=reranker)
    assert list(library.retrieve_stages(question, 3)) == list(library.retrieve_stages(question, 3))


@pytest.mark.parametrize("reranker, stages", [(None, 2), (FakeReranker(len), 3)], ids=["fused", "reranked"])
def test_every_stage_gives_top_k_distinct_hits_best_first(filled, reranker, stages):
    library = filled(reranker=reranker)
    results = list(library.retrieve_stages(QUESTION, 3))
    assert len(results) == stages
    for hits in results:
        assert len(set(ids(hits))) == len(hits) == 3
        assert all(hit.chunk in library.chunks(hit.chunk.document_id) for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_first_stage_is_the_ranking_by_vectors_alone(filled):
    library = filled()
    best = {chunk.id: best_cosine(WordEmbedder(), QUESTION, chunk) for chunk in all_chunks(library)}
    first = next(library.retrieve_stages(QUESTION, 3))
    assert [hit.similarity for hit in first] == pytest.approx(sorted(best.values(), reverse=True)[:3], abs=1e-5)
    assert [hit.similarity for hit in first] == pytest.approx([best[chunk_id] for chunk_id in ids(first)], abs=1e-5)
    assert not any(hit.matched_words for hit in first)


def test_lexical_search_finds_what_vectors_cannot_distinguish(filled):
    library = filled(embedder=WordEmbedder(width=1))
    first, second = library.retrieve_stages("566362", 2)
    assert not any("566362" in hit.chunk.text for hit in first)
    assert [("566362" in hit.chunk.text, hit.matched_words) for hit in second].count((True, True)) == 1


@pytest.mark.parametrize("is_english, weight", [(True, 2), (False, 1)], ids=["English model", "multilingual"])
def test_words_weigh_more_in_a_german_question_to_an_english_model(filled, monkeypatch, is_english, weight):
    monkeypatch.setattr(WordEmbedder, "is_english", is_english)
    library = filled()
    scores = []
    for question in ("ist 566362", "xyz 566362"):  # the same words for both searches, one of them German
        by_vector, both = ({hit.chunk.id: hit.score for hit in hits} for hits in library.retrieve_stages(question, 99))
        scores.append(max(both[chunk] - by_vector[chunk] for chunk in both))
    assert scores[0] == pytest.approx(weight * scores[1], rel=0.05) and scores[1] > 0


def test_the_reranker_ranks_the_best_fused_chunks(filled):
    library = filled(reranker=(reranker := FakeReranker(lambda text: text.count("e") / len(text))))
    _, fused, final = library.retrieve_stages(QUESTION, 2)
    ((question, texts),) = reranker.calls
    assert question == QUESTION and len(texts) == 2 * RERANKED_PER_HIT
    assert texts[:2] == [hit.chunk.passage for hit in fused]
    best = sorted(texts, key=reranker.score_text, reverse=True)[:2]
    assert [(hit.chunk.passage, hit.score) for hit in final] == [(text, reranker.score_text(text)) for text in best]
    assert ids(final) != ids(fused)


def test_reranked_hits_keep_similarity_and_matched_words(filled):
    expected = {hit.chunk.id: (hit.similarity, hit.matched_words) for hit in search(filled(), QUESTION, 99)}
    final = search(filled(reranker=FakeReranker(len)), QUESTION, 99)
    assert {hit.chunk.id: (hit.similarity, hit.matched_words) for hit in final} == expected
    assert {matched for _, matched in expected.values()} == {True, False}


def test_a_constant_reranker_keeps_the_order(filled):
    fused = search(filled(), QUESTION, 3)
    assert ids(search(filled(reranker=FakeReranker(lambda text: 0)), QUESTION, 3)) == ids(fused)


def test_stopping_early_skips_the_reranker(filled):
    library = filled(reranker=(reranker := FakeReranker(len)))
    with closing(library.retrieve_stages(QUESTION, 3)) as stages:
        next(stages), next(stages)
    assert reranker.calls == []


@pytest.mark.parametrize("question, documents", [("heron", 0), ("", 1), (" \n", 1)])
def test_a_blank_question_or_an_empty_library_gives_one_empty_stage(open_library, file_of, question, documents):
    library = open_library(reranker=FakeReranker(len))
    for _ in range(documents):
        list(library.add(file_of(BIRDS), "birds.txt"))
    assert list(library.retrieve_stages(question, 3)) == [[]]


def test_top_k_below_one_is_rejected_at_the_first_step(filled):
    with pytest.raises(ValueError, match="at least 1, got 0"):
        next(filled().retrieve_stages("heron", 0))


@pytest.mark.parametrize("before", [1, 2])
def test_a_document_deleted_between_two_stages_is_in_no_later_one(filled, before):
    library = filled(reranker=FakeReranker(len))
    birds = next(document for document in library.documents() if document.name == "birds.txt")
    stages = library.retrieve_stages("the heron waits", 3)
    seen = [next(stages) for _ in range(before)][-1]
    assert birds.id in {hit.chunk.document_id for hit in seen}
    library.delete(birds.id)
    assert all(hit.chunk.document_id != birds.id for hits in stages for hit in hits)


def test_a_document_deleted_during_reranking_is_not_in_the_result(filled):
    def delete_all(text):
        return len([library.delete(document.id) for document in library.documents()])

    library = filled(reranker=FakeReranker(delete_all))
    assert search(library, QUESTION, 3) == []


def test_a_document_that_is_rechunked_between_two_stages_is_found_again(filled):
    library = filled()
    birds = next(document for document in library.documents() if document.name == "birds.txt")
    stages = library.retrieve_stages("the heron waits", 3, (birds.id,))
    before = next(stages)
    list(library.reindex(birds.id))
    (after,) = stages
    assert len(after) == 3 and not set(ids(before)) & set(ids(after))


def test_chunks_without_vectors_are_found_by_their_words(filled):
    library = filled()
    birds = next(document for document in library.documents() if document.name == "birds.txt")
    library._vectors.delete(birds.id)
    first, *_ = hits = search(library, "566362", 2)
    assert len(hits) == 2 and "566362" in first.chunk.text and first.matched_words and first.similarity is None


def test_no_lock_is_held_between_two_stages(filled):
    library = filled(reranker=FakeReranker(len))
    with ThreadPoolExecutor(1) as others, closing(library.retrieve_stages(QUESTION, 3)) as stages:
        for _ in stages:
            assert others.submit(search, library, QUESTION, 3).result(60)


def test_no_lock_is_held_during_reranking(filled):
    with ThreadPoolExecutor(1) as others:
        library = filled(reranker=FakeReranker(lambda text: len(others.submit(library.documents).result(60))))
        assert search(library, QUESTION, 3)


def test_the_library_itself_imports_no_model():
    loaded = "'torch' in sys.modules or 'sentence_transformers' in sys.modules"
    code = f"import sys; from store import document_library; sys.exit({loaded})"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
