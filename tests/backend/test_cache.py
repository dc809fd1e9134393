"""The cache service over an engine on a tiny model."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from backend.services.cache import ChunkOwners, LocalCacheService
from engine.cache.admin import CacheAdmin
from engine.errors import PassageInUse
from engine.request import Request
from store.types import Chunk, Document
from tests.support import tiny
from tests.support.doubles import TEXTS, FixedFinder, last, make_engine

ASK = Request("When does the Old Kestrel sail?", passages=3, max_new_tokens=2)


class Library:
    """Each text is a document of one chunk."""

    def __init__(self, *names):
        self.texts = {name: TEXTS[name] for name in names}

    def documents(self):
        return [Document(name, f"{name}.txt", 1, None, 1, 0.0) for name in self.texts]

    def chunks(self, document_id):
        text = self.texts[document_id]
        return [Chunk(f"{document_id}-0", document_id, f"{document_id}.txt", 0, None, 0, len(text), text)]

    def chunks_by_id(self, ids):
        return {chunk.id: chunk for name in self.texts for chunk in self.chunks(name) if chunk.id in ids}


def open_service(folder, *names, **settings):
    """Return a cache service, its engine and its documents."""
    engine, library = make_engine(**settings), Library(*names)
    models = SimpleNamespace(primary=engine.cache.decoder)
    runtime = SimpleNamespace(engine=engine, documents=library, tiers=engine.tiers, models=models)
    loader = SimpleNamespace(
        borrow=lambda: nullcontext(runtime),
        settings=SimpleNamespace(data=folder),
        set_budgets=CacheAdmin(engine.tiers.tree).set_budgets,
    )
    return LocalCacheService(loader, ChunkOwners()), engine, library


def ask(engine, *names, method="full"):
    engine.finder = FixedFinder(*names)
    return last(engine.ask(replace(ASK, method=method)))


def test_every_key_is_mapped_to_its_passage_and_model(tmp_path):
    service, engine, _ = open_service(
        tmp_path, "ferry", "tern", "fares", auxiliary=tiny.decoder(tiny.qwen2, seed=3, vocab_size=300)
    )
    ask(engine, "ferry", "tern")
    engine.passages.warm(TEXTS["fares"])
    ask(engine, "fares", method="naive")
    shown = [(one.chunk.document_id, one.role, one.node.parent is None) for one in service.snapshot().passages]
    assert sorted(shown) == [
        ("fares", "alone", True),
        ("fares", "auxiliary", True),
        ("fares", "primary", True),
        ("ferry", "primary", True),
        ("tern", "primary", False),
    ]


def test_kv_of_unknown_documents_has_the_role_other(tmp_path):
    service, engine, library = open_service(tmp_path, "ferry")
    ask(engine, "ferry", "tern")
    assert [(one.chunk is None, one.role) for one in service.snapshot().passages] == [
        (False, "primary"),
        (True, "other"),
    ]
    library.texts = {"tern": TEXTS["tern"]}
    assert [one.role for one in service.snapshot().passages] == ["other", "primary"]


def test_another_snapshot_tokenizes_only_new_chunks(tmp_path):
    service, engine, library = open_service(tmp_path, "ferry", "tern")
    tokenized, passage = [], engine.template.encode_passage
    engine.template.encode_passage = lambda text: tokenized.append(text) or passage(text)
    service.snapshot()
    service.snapshot()
    assert tokenized == [TEXTS["ferry"], TEXTS["tern"]]
    library.texts["fares"] = TEXTS["fares"]
    service.snapshot()
    assert tokenized[2:] == [TEXTS["fares"]]


def test_a_long_library_is_mapped_over_several_snapshots(tmp_path, monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr("backend.services.cache.monotonic", lambda: 0.1 * next(now))
    service, engine, _ = open_service(tmp_path, "ferry", "tern", "fares")
    ask(engine, "ferry", "tern", "fares")
    seen = []
    while not seen or not seen[-1].is_complete:
        seen.append(service.snapshot())
    assert [sum(one.chunk is not None for one in view.passages) for view in seen] == [1, 2, 3]


def test_a_snapshot_has_tiers_their_limits_and_hit_statistics(tmp_path):
    service, engine, _ = open_service(tmp_path, "ferry")
    ask(engine, "ferry")
    ask(engine, "ferry", method="prefix")
    view = service.snapshot()
    assert [tier.name for tier in view.tiers] == ["host", "disk"] and view.policy == "PGDSF"
    assert all(limit >= tier.budget_bytes for limit, tier in zip(view.max_budget_bytes, view.tiers, strict=True))
    assert [(one.exact > 0, one.full > 0) for one in view.recent_queries] == [(False, True), (True, False)]
    assert view.totals.number == 2


def test_pins_evictions_and_budgets_reach_the_tree(tmp_path):
    service, engine, _ = open_service(tmp_path, "ferry", "tern")
    ask(engine, "ferry", "tern")
    first, second = (one.node.key for one in service.snapshot().passages)
    service.pin(second, True)
    with pytest.raises(PassageInUse):
        service.evict(first)
    with pytest.raises(PassageInUse):
        service.set_budget("host", 0)
    service.pin(second, False)
    assert service.set_budget("host", 0).num_replicas == 2
    assert service.snapshot().tiers[0].size_bytes == 0
    for one in service.snapshot().passages[:1]:
        service.evict(one.node.key)
    assert service.snapshot().passages == ()
    assert [source.cache_result for source in ask(engine, "ferry", method="prefix").sources] == ["miss"]
