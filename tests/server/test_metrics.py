"""The metrics that the HTTP server exports."""

from threading import Event

import httpx
from prometheus_client.parser import text_string_to_metric_families

from engine.request import Request
from store.types import Document
from tests.support.fake_backend.backend import FakeBackend

CHAT = "v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "why?"}]}


def post(url, **fields):
    return httpx.post(f"{url}{CHAT}", json={**ASK, **fields}, timeout=30)


def measured(url, name, **labels):
    """Return the sum of a metric's samples that have these labels."""
    text = httpx.get(f"{url}metrics", timeout=60).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())


def test_metrics_count_drafts_by_what_verification_found(url, backend):
    for draft in ("other", backend.answer, ""):
        backend.draft = draft
        list(backend.ask(Request("why?", draft=True), Event()))
    assert [measured(url, "kvscope:drafts_total", status=each) for each in ("changed", "unchanged")] == [1, 1]
    assert measured(url, "kvscope:drafts_total") == 2


def test_metrics_count_every_request_once_wherever_it_came_from(url, backend):
    assert post(url, stream=True).status_code == post(url).status_code == 200
    *_, paged = backend.ask(Request("the page asks too", method="full"), Event())
    assert post(url, kvscope={"options": {"x": 1}}).status_code == 400
    left = backend.ask(Request("why?", method="epic"), Event())
    next(left)
    assert measured(url, "vllm:num_requests_waiting") == 1
    left.close()
    assert measured(url, "vllm:num_requests_waiting") == measured(url, "vllm:num_requests_running") == 0
    for model, reason, count in (("cacheclip", "stop", 2), ("full", "stop", 1), ("epic", "abort", 1)):
        labels = {"model_name": f"kvscope/{model}", "finished_reason": reason}
        assert measured(url, "vllm:request_success_total", **labels) == count
    assert measured(url, "vllm:request_success_total") == 4
    assert measured(url, "kvscope:request_failures_total", error="BadRequest") == 1
    assert measured(url, "vllm:time_to_first_token_seconds_count") == 3
    assert measured(url, "vllm:time_to_first_token_seconds_sum", model_name="kvscope/full") == paged.trace.ttft_ms / 1e3


def test_metrics_count_passage_tokens_by_cache_result(url, backend):
    (*_, answer), (*_, full) = (backend.ask(Request("why?", method=m), Event()) for m in ("cacheclip", "full"))
    for kind, found in (("exact", "exact prefix hit"), ("chunk", "chunk hit"), ("missed", "miss")):
        tokens = sum(source.tokens for source in answer.sources if source.cache_result == found)
        assert measured(url, "kvscope:passage_tokens_total", found=kind) == tokens > 0
    assert measured(url, "kvscope:passage_tokens_total", found="unused") == full.context_tokens
    assert measured(url, "vllm:prefix_cache_queries_total") == answer.context_tokens
    assert measured(url, "vllm:prefix_cache_hits_total") == measured(url, "kvscope:passage_tokens_total", found="exact")
    reused = sum(source.tokens - source.recomputed_tokens for source in answer.sources if source.cache_result != "miss")
    assert measured(url, "vllm:prompt_tokens_cached_total") == reused
    assert measured(url, "vllm:generation_tokens_total") == answer.new_tokens + full.new_tokens


def test_metrics_have_the_tiers_and_nothing_of_other_backends(url, backend):
    backend.stored_documents = [Document("a" * 64, "a.txt", 1, None, 1, 0.0)]
    host, disk = backend.tier_usage()
    assert measured(url, "kvscope:kv_bytes", tier="disk") == disk.size_bytes
    assert measured(url, "vllm:kv_cache_usage_perc") == host.size_bytes / host.budget_bytes
    list(FakeBackend(0).ask(Request("elsewhere"), Event()))
    assert measured(url, "vllm:request_success_total") == 0
