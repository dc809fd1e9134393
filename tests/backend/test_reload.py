"""Settings change without a restart; after any failure the previous models work again."""

import json
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from types import SimpleNamespace

import pytest
import torch

from backend.interface.models import StaleChunking
from backend.runtime.settings import read_settings
from backend.runtime.tasks import TaskRegistry
from engine.errors import BadRequest, ModelNotReady, PassageInUse
from engine.generation.grounding import GroundingModel
from engine.generation.span_scorer import SpanScorer
from engine.method import default_method
from engine.model.encoder import load_encoder, load_minilm
from engine.request import Request
from engine.scoring.trained_selector import SelectorHead, TokenSelector
from store.errors import StoreFull
from store.preferences import Preferences
from store.retrieval.reranker import RerankerUnusable
from tests.backend.conftest import filled
from tests.server.conftest import until
from tests.support import tiny
from tests.support.doubles import last
from tests.support.fakes import WordEmbedder

ASK = Request("When does the Old Kestrel sail?", max_new_tokens=4)


def change(backend, **choices):
    backend.models.apply(replace(backend.models.current(), **choices))
    backend.loader.wait(60)
    return backend.models.reload_status()


def both(name):
    return {"model": name, "auxiliary_model": name}


def test_a_reload_waits_for_a_short_call_and_later_calls_fail_with_a_message(start, tmp_path, models):
    backend = filled(start(), tmp_path)
    (document,) = backend.documents()
    draining = Event()
    with backend.loader.borrow() as runtime, backend.tasks.track(draining):
        backend.models.apply(replace(backend.models.current(), model=models["two"]))
        assert draining.wait(60)
        assert [document.id] == [each.id for each in runtime.documents.documents()]  # open as before
        for call in (backend.cache.snapshot, partial(backend.library.passages, document.id, 0, 3), backend.clear):
            with pytest.raises(ModelNotReady, match="reloading or closing"):
                call()
        assert backend.documents() == [document] and backend.library.list_with_usage() == []
    backend.loader.wait(60)
    assert backend.documents() == [document] and backend.library.passages(document.id, 0, 3)


def test_another_model_answers_without_a_restart_and_at_the_next_start(start, models, tmp_path):
    backend = filled(start(), tmp_path)
    assert change(backend, **both(models["two"])).error == ""
    assert backend.status().ready and backend.status().message.startswith("two")
    assert last(backend.ask(ASK, Event())).state == "done"
    assert [document.name for document in backend.documents()] == ["boats.txt"]
    assert [hit.chunk.document_name for hit in backend.search(replace(ASK, passages=1))] == ["boats.txt"]
    with pytest.raises(BadRequest):
        backend.search(replace(ASK, passages=0))
    assert read_settings(["--data", str(tmp_path / "data")]).model == models["two"]


def test_kv_of_an_earlier_model_is_reused_when_it_is_loaded_again(start, models, tmp_path):
    backend = filled(start(), tmp_path)
    before = last(backend.ask(ASK, Event()))
    change(backend, **both(models["two"]))
    assert {source.tier for source in last(backend.ask(ASK, Event())).sources} == {"computed"}
    change(backend, **both(models["one"]))
    after = last(backend.ask(ASK, Event()))
    assert {source.tier for source in after.sources} == {"disk"}
    assert after.text == before.text


@pytest.mark.parametrize("wrong", ["<b>typo</b>", "no/such/place/at all"])
def test_an_unknown_model_name_changes_nothing(start, models, tmp_path, wrong):
    backend = filled(start(), tmp_path)
    runtime, status = backend.loader.runtime, backend.status()
    change(backend, model=wrong)
    assert "neither a folder nor a name" in backend.models.reload_status().error
    assert backend.loader.runtime is runtime and backend.status() == status
    assert backend.models.current().model == models["one"] and not Preferences(tmp_path / "data").read()


def test_a_model_that_fails_to_load_is_replaced_by_the_previous_one(start, models, tmp_path):
    backend = filled(start(), tmp_path)
    before, status = last(backend.ask(ASK, Event())), backend.status()
    error = change(backend, model=models["bad"]).error
    assert "bad" in error and "in use again" in error
    assert backend.status() == status and backend.models.current().model == models["one"]
    assert last(backend.ask(ASK, Event())).text == before.text
    assert not Preferences(tmp_path / "data").read()


def test_if_the_previous_model_fails_too_the_status_names_both_errors(start, models, monkeypatch):
    backend = start()

    def no_room(*_):
        raise MemoryError("no room")

    with monkeypatch.context() as broken:
        broken.setattr("backend.runtime.loader.load_models", no_room)
        error = change(backend, model=models["two"]).error
    assert backend.status().failed and backend.status().message.count("no room") == 2
    assert error == backend.status().message
    assert change(backend, model=models["two"]).error == "" and backend.status().ready


def test_after_a_failed_start_another_model_can_be_loaded(start, models, tmp_path):
    backend = start(model=str(tmp_path / "nowhere"))
    assert backend.status().failed
    change(backend, **both(models["one"]))
    assert backend.status().ready and last(backend.ask(ASK, Event())).state == "done"


def test_the_embedder_is_loaded_before_the_first_question_and_kept_across_reloads(start, monkeypatch):
    made = []
    monkeypatch.setattr("backend.runtime.loader.MiniLM", lambda config: made.append(WordEmbedder()) or made[-1])
    backend = start()
    assert [each.num_embedded for each in made] == [1]
    change(backend, chunk_size=64, chunk_overlap=8)
    assert len(made) == 1


def test_a_reload_stops_a_running_question_with_a_message(start, models, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.prompt.template.find_stop_ids", lambda tokenizer: [])
    monkeypatch.setattr("engine.generation.stream.RepetitionDetector.update", lambda detector, text: None)
    backend = filled(start(), tmp_path)
    answers = backend.ask(Request(ASK.question, max_new_tokens=1800, temperature=1.5), Event())
    while next(answers).state != "writing":
        pass
    changing = Thread(target=change, args=[backend], kwargs=both(models["two"]))
    changing.start()
    answer = last(answers)
    changing.join(60)
    assert answer.state == "stopped" and answer.new_tokens < 1800
    assert any("the settings were changed" in note for note in answer.notes)
    assert backend.status().message.startswith("two")


def test_during_a_reload_questions_fail_with_a_message_and_documents_stay_listed(start, models, tmp_path, monkeypatch):
    backend, seen = filled(start(), tmp_path), {}
    opened = backend.loader.open

    def open_and_look(given=None):
        with pytest.raises(ModelNotReady, match="Wait until the status says ready"):
            next(backend.ask(ASK, Event()))
        with pytest.raises(ModelNotReady):
            backend.models.apply(backend.models.current())
        seen.update(documents=backend.documents(), ready=backend.status().ready)
        return opened(given)

    monkeypatch.setattr(backend.loader, "open", open_and_look)
    change(backend, **both(models["two"]))
    assert [document.name for document in seen["documents"]] == ["boats.txt"]
    assert not seen["ready"] and not backend.models.reload_status().running


def test_budgets_and_chunk_sizes_keep_the_loaded_models(start, tmp_path):
    backend = filled(start(), tmp_path)
    loaded = backend.loader.runtime.models
    change(backend, cpu_cache_gib=0.25, eviction_policy="lru", chunk_size=64, chunk_overlap=8)
    assert backend.loader.runtime.models is loaded
    assert backend.tier_usage()[0].budget_bytes == 2**28
    assert last(backend.ask(ASK, Event())).state == "done"
    assert Preferences(tmp_path / "data").read() | {"model": "", "auxiliary_model": ""} == {
        **{"model": "", "auxiliary_model": "", "dtype": "fp32", "span_scorer": "off"},
        **{"cpu_cache_gib": 0.25, "eviction_policy": "lru", "chunk_size": 64, "chunk_overlap": 8},
    }


def test_budgets_alone_apply_at_once_keep_the_cache_and_are_saved(start, tmp_path):
    backend = filled(start(), tmp_path)
    last(backend.ask(ASK, Event()))
    runtime, size_bytes = backend.loader.runtime, backend.tier_usage()[0].size_bytes
    assert not change(backend, cpu_cache_gib=0.25, disk_cache_gib=3.5).error
    assert backend.loader.runtime is runtime and backend.tier_usage()[0].size_bytes == size_bytes > 0
    assert [tier.budget_bytes for tier in backend.tier_usage()] == [2**28, 7 * 2**29]
    backend.cache.set_budget("host", 2**29)
    assert backend.models.current().cpu_cache_gib == 0.5
    assert start().tier_usage()[0].budget_bytes == 2**29


def test_a_budget_below_the_pinned_bytes_is_refused_in_settings_too(start, tmp_path):
    backend = filled(start(), tmp_path)
    last(backend.ask(ASK, Event()))
    backend.cache.pin(backend.cache.snapshot().passages[0].node.key, True)
    with pytest.raises(PassageInUse, match="pinned"):
        change(backend, cpu_cache_gib=0.0)
    assert backend.models.current().cpu_cache_gib == 1.5 and backend.tier_usage()[0].budget_bytes == 3 * 2**29


def test_two_budgets_are_applied_together_or_not_at_all(start, tmp_path):
    backend = filled(start(), tmp_path)
    last(backend.ask(ASK, Event()))
    backend.cache.pin(backend.cache.snapshot().passages[0].node.key, True)
    for budgets in ({"cpu_cache_gib": 1.0, "disk_cache_gib": 0.0}, {"cpu_cache_gib": 0.0, "disk_cache_gib": 4.0}):
        with pytest.raises(PassageInUse, match="pinned"):
            change(backend, **budgets)
        assert [tier.budget_bytes for tier in backend.tier_usage()] == [3 * 2**29, 2**33]
    assert not Preferences(tmp_path / "data").read()


def test_a_budget_set_by_a_flag_cannot_be_changed_on_any_page(start):
    backend = start(overrides={"cpu_cache_gib": "--cpu-cache-gib"})
    with pytest.raises(BadRequest, match="--cpu-cache-gib"):
        change(backend, cpu_cache_gib=0.5)
    with pytest.raises(BadRequest, match="--cpu-cache-gib"):
        backend.cache.set_budget("host", 2**29)
    assert backend.tier_usage()[0].budget_bytes == 3 * 2**29


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_missing_device_is_named_with_its_remedy(start):
    backend = start(device="cuda")
    assert backend.status().message == (
        "The device 'cuda' was requested, but this machine has no CUDA GPU; use --device cpu."
    )
    assert change(backend, device="cuda:1").error.startswith("The device 'cuda:1' was requested")


def test_a_reranker_is_downloaded_while_the_present_models_answer(start, tmp_path, monkeypatch):
    backend, seen = filled(start(), tmp_path), []
    runtime = backend.loader.runtime

    def fetch(name):
        seen.append((name, last(backend.ask(ASK, Event())).state))
        raise RerankerUnusable("The reranker cannot be read.")

    monkeypatch.setattr("backend.runtime.loader.download_reranker", fetch)
    assert "Nothing was changed" in change(backend, reranker="owner/cross").error
    assert seen == [("owner/cross", "done")] and backend.loader.runtime is runtime and backend.status().ready


def test_another_embedding_model_embeds_all_documents_again_in_the_background(start, tmp_path, monkeypatch):
    backend, fetched = filled(start(), tmp_path), []

    def load(name, dtype):
        embedder = WordEmbedder(fingerprint=name)
        embedder.name, embedder.is_english = name, False
        return embedder

    monkeypatch.setattr("backend.runtime.loader.download_embedding_model", fetched.append)
    monkeypatch.setattr("backend.runtime.loader.EmbeddingModel", load)
    assert change(backend, embedding_model="owner/all-languages").error == ""
    assert fetched == ["owner/all-languages"]
    until(lambda: not backend.loader.runtime.documents.documents_without_vectors())
    info = next(info for info in backend.models.loaded() if info.role == "embedder")
    assert info.name == "owner/all-languages" and last(backend.ask(ASK, Event())).state == "done"


def test_a_question_cancelled_during_a_download_does_not_mention_the_settings(start, models, tmp_path, monkeypatch):
    backend, goes_on = filled(start(), tmp_path), Event()
    monkeypatch.setattr("backend.runtime.loader.fetch_models", lambda *_: goes_on.wait(30))
    backend.models.apply(replace(backend.models.current(), **both(models["two"])))
    cancel = Event()
    cancel.set()
    answer = last(backend.ask(ASK, cancel))
    assert answer.state == "stopped" and backend.models.reload_status().running
    assert not any("settings" in note for note in answer.notes)
    goes_on.set()
    backend.loader.wait(60)


def test_hit_statistics_continue_after_a_reload(start, models, tmp_path):
    backend = filled(start(), tmp_path)
    last(backend.ask(ASK, Event()))
    change(backend, **both(models["two"]))
    last(backend.ask(ASK, Event()))
    assert backend.cache.snapshot().totals.number == 2


def test_after_closing_every_call_fails_with_a_message(start, tmp_path):
    backend = filled(start(), tmp_path)
    backend.close()
    assert not backend.status().ready and backend.tier_usage() == []
    assert [document.name for document in backend.documents()] == ["boats.txt"]
    for step in (lambda: last(backend.ask(ASK, Event())), backend.cache.snapshot, backend.clear):
        with pytest.raises(ModelNotReady, match="Closing"):
            step()


def test_samples_whose_ingest_was_stopped_are_added_at_the_next_start(start, tmp_path):
    backend, marker = start(), tmp_path / "data" / "samples-added"
    with backend.tasks.drain(0):
        backend.library.add_samples("tiny")
    assert not marker.exists() and backend.documents() == []
    backend.library.add_samples("tiny")
    assert marker.exists() and len(backend.documents()) == 3


@pytest.mark.parametrize("name", ["lora_adapter", "span_scorer", "token_selector"])
def test_a_folder_without_trained_weights_is_reported_before_anything_is_closed(start, tmp_path, monkeypatch, name):
    backend = start()
    with monkeypatch.context() as patched:
        patched.setattr(backend.loader, "release", lambda: pytest.fail("the runtime was closed"))
        status = change(backend, **{name: str(tmp_path / "nowhere")})
    assert "nowhere" in status.error and f"--{name.replace('_', '-')}" in status.error
    assert backend.status().ready


def test_current_invalid_and_overridden_settings_are_refused_before_anything_happens(start, models, tmp_path):
    backend = start(overrides={"eviction_policy": "--eviction-policy"})
    runtime = backend.loader.runtime
    with pytest.raises(BadRequest, match="already in use"):
        change(backend)
    with pytest.raises(Exception, match="--chunk-overlap 600 must be below"):
        change(backend, chunk_overlap=600)
    with pytest.raises(BadRequest, match="--eviction-policy"):
        change(backend, eviction_policy="lru")
    assert backend.loader.runtime is runtime


def test_overridden_settings_are_not_saved_and_their_saved_values_stay(start, models, tmp_path):
    Preferences(tmp_path / "data").write({"eviction_policy": "lfu", "unknown": 1})
    backend = start(overrides={"eviction_policy": "--eviction-policy", "model": "--model"}, eviction_policy="lru")
    change(backend, cpu_cache_gib=0.5)
    kept = json.loads((tmp_path / "data" / "preferences.json").read_text())
    assert (
        kept["eviction_policy"] == "lfu"
        and kept["cpu_cache_gib"] == 0.5
        and "model" not in kept
        and "unknown" not in kept
    )


def test_loaded_models_are_listed_with_their_self_test(start, models):
    backend = start()
    primary, auxiliary, embedder = backend.models.loaded()
    weights = sum(weight.nbytes for weight in tiny.model().parameters())
    assert (primary.role, primary.name, primary.dtype, primary.memory_bytes) == ("primary", "one", "fp32", weights)
    assert 0 < primary.selftest.deviation < primary.selftest.bound and primary.selftest.ms > 0
    config = tiny.model().config
    kv_width = config.num_key_value_heads * (config.hidden_size // config.num_attention_heads)
    assert primary.kv_token_bytes == 2 * config.num_hidden_layers * kv_width * 4 and embedder.kv_token_bytes == 0
    assert auxiliary.memory_bytes == 0 and "shares" in auxiliary.note
    assert (embedder.role, embedder.dtype, embedder.memory_bytes) == ("embedder", "fp32", 4 * embedder.num_parameters)
    assert default_method(backend.methods()).name == "cacheclip"
    change(backend, auxiliary_model=models["two"])
    assert backend.models.loaded()[1].name == "two" and backend.models.loaded()[1].memory_bytes > 0


def test_a_token_selector_is_listed_with_its_memory(start, tmp_path):
    token_selector = TokenSelector(load_encoder(torch.float32), SelectorHead(384, 8, 32))
    token_selector.save(tmp_path)
    backend = start(token_selector=str(tmp_path))
    info = backend.models.loaded()[2]
    assert default_method(backend.methods()).name == "cacheclip-trained"
    assert (info.role, info.dtype, info.num_parameters) == ("token_selector", "fp32", token_selector.num_parameters)
    assert info.memory_bytes == 4 * info.num_parameters


def test_a_span_scorer_is_listed_with_its_memory(start, monkeypatch):
    span_scorer = SpanScorer(*load_minilm(torch.float32))
    encoder = load_encoder(torch.float32, (6,))
    grounding = GroundingModel(span_scorer, encoder, quote_encoder=encoder)
    monkeypatch.setattr("engine.builder.load_grounding", lambda *_: grounding)
    info, quote_info = start().models.loaded()[2:4]
    assert (quote_info.role, quote_info.num_parameters) == ("quote_encoder", encoder.num_parameters)
    assert quote_info.memory_bytes == 4 * encoder.num_parameters < info.memory_bytes
    assert (info.role, info.dtype, info.num_parameters) == ("span_scorer", "fp32", span_scorer.num_parameters)
    assert info.memory_bytes > 4 * 22_000_000 and "finetuned" in info.name


def test_stale_documents_are_grouped_by_their_chunking(start, monkeypatch):
    backend = start(chunk_size=64, chunk_overlap=8)
    cuts = {"a": (64, 8), "b": (512, 50), "c": (None, None), "d": (64, 0)}
    listed = [SimpleNamespace(id=name, chunk_tokens=cut[0], chunk_overlap=cut[1]) for name, cut in cuts.items()]
    monkeypatch.setattr(backend.loader, "documents", lambda: listed)
    assert backend.models.stale_documents() == [StaleChunking(512, 50, ("b", "c")), StaleChunking(64, 0, ("d",))]


def test_disk_usage_follows_a_linked_models_folder(start, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "weights").write_bytes(b"0" * 9_000_000)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "models").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "costs.json").write_bytes(b"0" * 1000)
    parts = dict(start().models.system_info().disk_usage)
    assert parts["Bundled model"] >= 9_000_000 and 1000 <= parts["Settings and cost measurements"] < 9_000_000


def test_a_memory_estimate_uses_the_requested_dtype(start, models):
    service = start().models
    estimate = service.estimate_memory(models["two"], "primary", service.current())
    assert (
        estimate.weights_bytes == 4 * estimate.num_parameters
        and estimate.dtype == "fp32"
        and not estimate.download_bytes
    )
    spec = start(**both(models["two"])).loader.runtime.models.primary.spec
    assert estimate.max_kv_bytes == spec.kv_bytes(spec.max_positions, 4) < estimate.free_bytes
    assert estimate.typical_kv_bytes == estimate.max_kv_bytes and not estimate.exceeds_memory  # the context is short


def test_cancelling_a_download_keeps_the_loaded_models(start, models, monkeypatch):
    backend, begun = start(), Event()
    runtime = backend.loader.runtime

    def fetch(config, report):
        begun.set()
        while True:
            report("Downloading x/y (9 MB)", 0.1)

    monkeypatch.setattr("backend.runtime.loader.fetch_models", fetch)
    backend.models.apply(replace(backend.models.current(), model="x/y"))
    assert begun.wait(60) and backend.models.reload_status().can_stop
    assert last(backend.ask(ASK, Event())).state == "done"  # the present model answers meanwhile
    backend.models.cancel_download()
    backend.loader.wait(60)
    assert (
        "stopped" in backend.models.reload_status().error
        and backend.loader.runtime is runtime
        and backend.status().ready
    )


def test_draining_waits_for_the_running_tasks_and_cancels_those_that_start_meanwhile():
    tasks, started, ended, first, second, third = TaskRegistry(), *(Event() for _ in range(5))

    def run():
        with tasks.track(first):
            started.set()
            first.wait(60)
            ended.set()

    thread = Thread(target=run)
    thread.start()
    assert started.wait(60)
    with tasks.drain(60):
        assert ended.is_set()
        with tasks.track(second):
            assert second.is_set()
    with tasks.track(third):
        assert not third.is_set()
    thread.join()


def test_without_disk_space_kv_is_kept_in_memory(start, tmp_path, monkeypatch):
    def full(root):
        raise StoreFull("The disk is full.")

    monkeypatch.setattr("backend.runtime.loader.DiskBlobs", full)
    assert {kept.tier for kept in filled(start(), tmp_path).tier_usage() if kept.size_bytes} == {"host"}
