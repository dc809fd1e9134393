"""The desk behind the Cache page, over a real engine with tiny models: every key is turned back into its passage."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from backend.services.cache import LocalCacheService
from backend.services.kv_owners import ChunkOwners
from engine.cache.admin import CacheAdmin
from engine.errors import PassageInUse
from engine.request import Request
from store.types import Chunk
from tests.support import tiny
from tests.support.doubles import TEXTS, FixedLibrary, last, make_engine

ASK = Request("When does the Old Kestrel sail?", passages=3, max_new_tokens=2)


class Documents:
    """Each text is a document of one chunk."""

    def __init__(self, *names):
        self.texts = {name: TEXTS[name] for name in names}

    def documents(self):
        return [SimpleNamespace(id=name, num_num_chunks=1) for name in self.texts]

    def chunks(self, document_id):
        text = self.texts[document_id]
        return [Chunk(f"{document_id}-0", document_id, f"{document_id}.txt", 0, None, 0, len(text), text)]

    def chunks_by_id(self, ids):
        return {chunk.id: chunk for name in self.texts for chunk in self.chunks(name) if chunk.id in ids}


def opened(folder, *names, filed=None, **settings):
    """A desk, its engine and its documents."""
    made, documents = make_engine(**settings), Documents(*names)
    models = SimpleNamespace(primary=made.cache.decoder)
    house = SimpleNamespace(engine=made, library=documents, tiers=made.tiers, models=models)
    control = CacheAdmin(made.tiers.tree)
    loader = SimpleNamespace(borrow=lambda: nullcontext(house))
    return LocalCacheService(loader, folder / "kv", control.set_budgets, filed or ChunkOwners()), made, documents


def ask(made, *names, method="full"):
    made.finder = FixedLibrary(*names)
    return last(made.ask(replace(ASK, method=method)))


def test_every_key_is_turned_back_into_its_passage_and_the_model_it_belongs_to(tmp_path):
    desk, made, _ = opened(tmp_path, "ferry", "tern", "fares", auxiliary=tiny.decoder(tiny.qwen2, seed=3, words=300))
    ask(made, "ferry", "tern")
    made.passages.warm(TEXTS["fares"])
    ask(made, "fares", method="naive")
    shown = [(one.chunk.document_id, one.role, one.node.parent is None) for one in desk.snapshot().passages]
    assert sorted(shown) == [
        ("fares", "alone", True),
        ("fares", "auxiliary", True),
        ("fares", "primary", True),
        ("ferry", "primary", True),
        ("tern", "primary", False),
    ]


def test_passages_of_documents_that_nobody_has_are_told_apart(tmp_path):
    desk, made, documents = opened(tmp_path, "ferry")
    ask(made, "ferry", "tern")
    assert [(one.chunk is None, one.role) for one in desk.snapshot().passages] == [(False, "primary"), (True, "other")]
    documents.texts = {"tern": TEXTS["tern"]}
    assert [one.role for one in desk.snapshot().passages] == ["other", "primary"]


def test_looking_again_tokenises_only_what_is_new(tmp_path):
    desk, made, documents = opened(tmp_path, "ferry", "tern")
    asked, passage = [], made.prompt.encode_passage
    made.prompt.encode_passage = lambda text: asked.append(text) or passage(text)
    desk.snapshot()
    desk.snapshot()
    assert asked == [TEXTS["ferry"], TEXTS["tern"]]
    documents.texts["fares"] = TEXTS["fares"]
    desk.snapshot()
    assert asked[2:] == [TEXTS["fares"]]


def test_a_library_too_long_for_one_look_is_told_apart_over_several(tmp_path):
    now = iter(range(100))
    desk, made, _ = opened(tmp_path, "ferry", "tern", "fares", filed=ChunkOwners(clock=lambda: 0.1 * next(now)))
    ask(made, "ferry", "tern", "fares")
    seen = []
    while not seen or not seen[-1].is_complete:
        seen.append(desk.snapshot())
    assert [sum(one.chunk is not None for one in view.passages) for view in seen] == [1, 2, 3]


def test_the_view_has_tiers_limits_and_how_questions_were_served(tmp_path):
    desk, made, _ = opened(tmp_path, "ferry")
    ask(made, "ferry")
    ask(made, "ferry", method="prefix")
    view = desk.snapshot()
    assert [tier.name for tier in view.tiers] == ["host", "disk"] and view.policy == "PGDSF"
    assert all(limit >= tier.budget_bytes for limit, tier in zip(view.max_budget_bytes, view.tiers, strict=True))
    assert [(one.exact > 0, one.full > 0) for one in view.recent_queries] == [(False, True), (True, False)]
    assert view.totals.questions == 2


def test_pins_evictions_and_budgets_reach_the_tree(tmp_path):
    desk, made, _ = opened(tmp_path, "ferry", "tern")
    ask(made, "ferry", "tern")
    first, second = (one.node.key for one in desk.snapshot().passages)
    desk.pin(second, True)
    with pytest.raises(PassageInUse):
        desk.evict(first)
    with pytest.raises(PassageInUse):
        desk.set_budget("host", 0)
    desk.pin(second, False)
    assert desk.set_budget("host", 0).replicas == 2
    assert desk.snapshot().tiers[0].size_bytes == 0
    for one in desk.snapshot().passages[:1]:
        desk.evict(one.node.key)
    assert desk.snapshot().passages == () and [s.cache_result for s in ask(made, "ferry", method="prefix").sources] == [
        "miss"
    ]
