"""The main job on the real bundled model: documents in, cited answers out, over HTTP too, fast after a restart."""

import json
import re
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
import torch
from starlette.applications import Starlette
from starlette.testclient import TestClient
from torch.testing import assert_close

from app import SAMPLE_QUESTIONS
from backend.services.library import SAMPLES
from engine.analysis.comparison import CompareRequest
from engine.kv.chunk_cache import ChunkCache, assemble
from engine.method import default_method
from engine.model.loading.load import load_decoder
from engine.prompt.template import PromptTemplate
from engine.request import ChatTurn, Request
from server.routes import app_kwargs
from store.feedback import RatedPassage, Rating
from tests.support.doubles import last, make_hierarchy
from tests.support.tolerance import DEEP
from ui.pages.lab.compare.part import FAILING_METHODS, FAILING_QUESTION

pytestmark = [pytest.mark.embedded]
QUESTIONS = json.loads((Path(__file__).parents[1] / "support" / "data" / "sample_questions.json").read_text())
# Short: what is tested does not depend on the length, and 13 methods compute every passage.
QUESTION, OTHER_QUESTION, *_ = SAMPLE_QUESTIONS
ASK = Request(QUESTION, max_new_tokens=12, passages=2)


def answer_of(backend, request):
    return last(backend.ask(request, Event()))


def size_bytes(backend):
    return sum(tier.size_bytes for tier in backend.tier_usage())


def test_a_first_start_holds_the_samples_and_answers_from_them(app):
    backend = app.running()
    assert {document.name for document in backend.documents()} == {path.name for path in SAMPLES.iterdir()}
    answer = answer_of(backend, ASK)
    assert answer.state == "done" and answer.text
    assert {source.tier for source in answer.sources} <= {"host", "disk"}  # prefilled when it was added
    assert 0.15 < answer.actual_ratio <= 0.2


def test_after_a_restart_everything_is_there_and_the_answers_are_the_same(app):
    in_full = replace(ASK, question=OTHER_QUESTION, method="full")
    before, exact = answer_of(app.running(), ASK), answer_of(app.running(), in_full)
    backend = app.restarted()
    after = answer_of(backend, ASK)
    assert after.text == before.text
    assert {source.tier for source in after.sources} == {"disk"}
    assert {source.tier for source in answer_of(backend, ASK).sources} == {"host"}
    again = answer_of(backend, replace(in_full, method="prefix"))
    assert again.text == exact.text and again.sources[0].cache_result == "exact prefix hit"


def test_recomputing_everything_gives_full_prefills_greedy_answer_in_bf16(app):
    backend = app.running()
    everything = answer_of(backend, replace(ASK, recompute_ratio=1.0))
    assert everything.actual_ratio == 1.0
    assert everything.text == answer_of(backend, replace(ASK, method="full")).text


@pytest.mark.slow
def test_every_method_answers_and_reports_recomputed_tokens(app):
    backend, realised = app.running(), {}
    backend.clear()  # also the exact paths that full prefills have left
    for method in backend.methods():
        answer = answer_of(backend, replace(ASK, method=method.name, max_new_tokens=2))
        assert answer.state == "done" and answer.text, method.name
        realised[method.name] = answer.actual_ratio
    assert realised["direct"] == realised["naive"] == realised["ape"] == 0.0 and realised["full"] == 1.0
    selecting = ("cacheclip", "cacheclip-trained", "cacheclip-joint", "cacheblend", "prophetkv", "infoflow", "qcfuse")
    for name in (*selecting, "random", "oracle"):
        assert realised[name] == pytest.approx(ASK.recompute_ratio, abs=0.01), name
    assert realised["cacheclip-v1"] < ASK.recompute_ratio  # isolated candidates are dropped


def test_what_was_read_in_full_is_exact_the_next_time(app):
    backend = app.running()
    text = answer_of(backend, replace(ASK, method="full")).text
    for method in ("prefix", ASK.method):
        answer = answer_of(backend, replace(ASK, method=method))
        assert answer.text == text and answer.sources[0].cache_result == "exact prefix hit"
    assert {source.cache_result for source in answer.sources} == {"exact prefix hit"} and answer.actual_ratio == 0.0


def test_clearing_takes_the_kv_and_leaves_the_documents(app):
    backend = app.running()
    before = answer_of(backend, ASK)
    assert size_bytes(backend) > 0
    backend.clear()
    assert size_bytes(backend) == 0
    after = answer_of(backend, ASK)
    assert after.text == before.text and {source.cache_result for source in after.sources} == {"miss"}


def test_an_inspection_finds_the_auxiliary_and_the_last_layer_alike(app):
    """Both are the same model here, so what differs is only that the auxiliary reads each passage apart."""
    *_, last = app.running().inspect(ASK, Event())
    seen = last.inspection.as_dict()
    assert seen["kl_layers"][-1] == pytest.approx(0.0, abs=1e-5)
    assert seen["kl_auxiliary"] < max(seen["kl_layers"])
    assert len(json.dumps(seen)) < 1_000_000


@pytest.mark.slow
def test_direct_reuse_fails_on_the_question_that_compare_offers_and_cacheclip_does_not(app):
    ((question, document),) = FAILING_QUESTION.items()
    backend = app.running()
    documents = tuple(each.id for each in backend.documents() if each.name == document)
    *_, comparison = backend.compare(CompareRequest(question, FAILING_METHODS, (0.2,), documents=documents), Event())
    answers = {outcome.method: outcome.answer for outcome in comparison.outcomes}
    assert "2196458" in answers["full"] and "2196458" in answers["cacheclip-trained"]
    assert "2196458" not in answers["direct"]


def test_the_passages_found_hold_the_answer(app):
    backend, found = app.running(), 0
    for each in QUESTIONS:
        *_, hits = backend.loader.runtime.engine.finder.retrieve_stages(each["question"], 4)
        found += any(each["answer"] in hit.chunk.text for hit in hits)
    assert found >= 11, f"{found} of {len(QUESTIONS)}"


def test_a_deleted_document_is_gone_and_its_kv_freed(app, tmp_path):
    backend, file = app.running(), tmp_path / "note.txt"
    file.write_text("The spare key to the boathouse hangs behind the red fire bucket in the workshop.")
    *_, ended = backend.ingest([(file, "note.txt")], Event())
    assert ended[0].stage == "done"
    (note,) = [document for document in backend.documents() if document.name == "note.txt"]
    request = replace(ASK, question="Where does the spare key to the boathouse hang?")
    answer = answer_of(backend, request)
    assert "note.txt" in {source.document for source in answer.sources}
    passages = tuple(RatedPassage(source.document_id, source.text) for source in answer.sources)
    backend.feedback.put(Rating("1", 0.0, request.question, answer.text, True, request.method, passages))
    backend.loader.runtime.tiers.drain()  # the answer, too, has computed what is to be written
    held = size_bytes(backend)
    backend.delete(note.id)
    assert size_bytes(backend) < held and backend.feedback.ratings() == []
    assert "note.txt" not in {source.document for source in answer_of(backend, request).sources}


def test_two_versions_of_a_document_are_compared_as_a_whole(app, tmp_path):
    backend, old = app.running(), "The pier opens at nine. Dogs wait outside. A berth costs 4 euros."
    texts = {"pier-2024.md": old, "pier-2025.md": old.replace("nine", "eight").replace("4 euros", "5 euros")}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    *_, _ = backend.ingest([(tmp_path / name, name) for name in texts], Event())
    answer = answer_of(backend, replace(ASK, question="What changed from pier-2024 to pier-2025?"))
    assert answer.text.split("\n") == [
        *("nine → eight", "The pier opens at nine. [1]", "The pier opens at eight. [2]", ""),
        *("4 euros → 5 euros", "A berth costs 4 euros. [1]", "A berth costs 5 euros. [2]"),
    ]
    assert [source.document for source in answer.sources] == list(texts) and answer.confidence == 1.0
    for document in backend.documents():
        if document.name in texts:
            backend.delete(document.id)


def test_a_question_that_still_finds_a_document_under_deletion_leaves_no_kv_of_it(app, tmp_path, monkeypatch):
    backend, file = app.running(), tmp_path / "bell.txt"
    file.write_text("The fog bell of the north pier is rung by hand every four minutes.")
    *_, _ = backend.ingest([(file, "bell.txt")], Event())
    (bell,) = [document for document in backend.documents() if document.name == "bell.txt"]
    runtime, request = (
        backend.loader.runtime,
        replace(ASK, question="How often is the fog bell of the north pier rung?"),
    )
    delete = runtime.documents.delete

    def late(document_id):  # its KV has been forgotten, the index still has it
        assert "bell.txt" in {source.document for source in answer_of(backend, request).sources}
        return delete(document_id)

    monkeypatch.setattr(runtime.documents, "delete", late)
    backend.delete(bell.id)
    cache, prompt = runtime.engine.cache, runtime.engine.template
    assert not runtime.tiers.tree.match_prefix([cache.chunk_key(prompt.encode_passage(file.read_text()).ids)])


def test_a_document_is_reindexed_and_its_deletion_frees_the_reported_bytes(app, tmp_path):
    backend, file = app.running(), tmp_path / "buoy.txt"
    file.write_text("The green buoy off the stone quay is lit from dusk until dawn.")
    *_, _ = backend.ingest([(file, "buoy.txt")], Event())
    tree = backend.loader.runtime.tiers.tree
    (buoy,) = [usage for usage in backend.library.list_with_usage() if usage.document.name == "buoy.txt"]
    assert buoy.kv_bytes > 0 and not buoy.needs_rechunk
    *_, ended = backend.library.reindex([buoy.document.id], Event())
    assert (ended[0].name, ended[0].stage) == ("buoy.txt", "done")
    (passage,) = backend.library.passages(buoy.document.id, 0, 20)
    assert passage.tier == "host" and passage.chunk.id.endswith(".1-0") and passage.tokens > 10
    excerpt = backend.library.excerpt(passage.chunk.id)
    assert excerpt.text[excerpt.start : excerpt.end] == passage.chunk.text == file.read_text()
    assert backend.library.rename(buoy.document.id, "lights.txt").name == "lights.txt"
    before, freed = (
        sum(tier.size_bytes for tier in tree.tiers),
        backend.library.bytes_freed_by_delete([buoy.document.id]),
    )
    backend.delete(buoy.document.id)
    assert before - sum(tier.size_bytes for tier in tree.tiers) == freed > 0


def test_a_streamed_conversation_equals_the_answers_of_the_ui_and_hits_the_memory_tier(app):
    backend, messages, earlier = app.running(), [], []
    method = default_method(backend.methods()).name
    assert method == "cacheclip-trained"
    client = TestClient(Starlette(**app_kwargs(backend, "127.0.0.1")), base_url="http://127.0.0.1")

    def num_answers():
        name = "vllm:time_to_first_token_seconds_count"
        found = re.search(rf'^{name}{{model_name="kvscope/{method}"}} (.+)$', client.get("/metrics").text, re.M)
        return float(found[1]) if found else 0.0

    before = num_answers()
    for question in list(SAMPLE_QUESTIONS)[:2]:
        messages.append({"role": "user", "content": question})
        asked = {"messages": messages, "max_tokens": 24, "stream": True, "stream_options": {"include_usage": True}}
        lines = client.post("/v1/chat/completions", json=asked).text.split("\n\n")
        assert lines[-2:] == ["data: [DONE]", ""]
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1])

        shown = last(backend.ask(Request(question, method, max_new_tokens=24, history=tuple(earlier)), Event()))
        assert text == shown.text != ""
        assert chunks[-1]["usage"]["completion_tokens"] == shown.new_tokens
        assert {source["document"] for source in chunks[-2]["kvscope"]["sources"]} == {
            s.document for s in shown.sources
        }
        assert chunks[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        messages.append({"role": "assistant", "content": text})
        earlier.append(ChatTurn(question, text))
    assert num_answers() == before + 4
    assert client.get("/healthz").json()["status"] == "ok"


def test_in_fp32_recomputing_everything_equals_transformers_within_tolerance(models):
    """Law 2 on real weights and real text; bf16 is judged by its greedy answers above."""
    decoder = load_decoder(models / "SmolLM2-135M-Instruct", torch.device("cpu"), torch.float32)
    prompt = PromptTemplate(decoder.tokenizer)
    cache = ChunkCache(decoder, prompt.prefix_ids, make_hierarchy().tree)
    passages = [prompt.passage(part).ids for part in (SAMPLES / "faq.txt").read_text().split("\n\n")[1:6]]
    question = prompt.suffix_ids("How much does the island card cost?")
    ids = torch.tensor([*prompt.prefix_ids, *(token for passage in passages for token in passage), *question])
    buffer = decoder.new_buffer(len(ids))
    assemble(buffer, cache.prefix, [cache.get_or_compute(passage)[0] for passage in passages], decoder.spec.inv_freq)
    rows = torch.arange(len(prompt.prefix_ids), len(ids))
    assert_close(decoder.forward_rows(ids[rows], buffer, rows), decoder.reference_logits(ids), **DEEP)
