"""The engine end to end on a tiny model: exactness against transformers, cancellation, deletion, notes."""

import itertools
from copy import copy
from dataclasses import replace
from threading import Event, Thread
from unittest.mock import Mock

import pytest
import torch
from torch.testing import assert_close

from engine.errors import BadRequest, QuestionTooLong
from engine.generation.grounding import GroundingModel
from engine.prompt.pack import pack
from engine.prompt.template import MAX_QUERY_ROWS
from engine.prompt.validate import build_strategy
from engine.request import Request
from engine.scoring.trained_selector import SelectorHead, TokenSelector
from engine.strategies import STRATEGIES
from engine.trace import Trace
from tests.support import tiny
from tests.support.doubles import TEXTS, MemoryBlobs, last, make_engine, make_hit
from tests.support.tolerance import EXACT, REORDERED

ASK = Request("What is the maintenance code?", method="cacheclip", recompute_ratio=0.2, passages=6, max_new_tokens=12)


def logits_of(engine, request, names):
    prepared = pack(engine.template, request, [make_hit(name, TEXTS[name]) for name in names], engine.max_tokens)
    return engine.prefill(prepared, build_strategy(request), Trace()).logits


@torch.no_grad()
def reference_logits(engine, names, request=ASK):
    """Transformers' own forward pass over the joined ids."""
    ids = [
        *engine.template.prefix_ids,
        *(token for name in names for token in engine.template.passage(TEXTS[name]).ids),
    ]
    return tiny.model()(torch.tensor([[*ids, *engine.template.suffix_ids(request.question)]])).logits[0, -1]


@pytest.mark.parametrize("method, ratio", [("full", 0.0), ("cacheclip", 1.0)])
def test_full_prefill_and_ratio_one_equal_transformers(method, ratio):
    engine, names = make_engine(), ["ferry", "tern", "fares"]
    found = logits_of(engine, replace(ASK, method=method, recompute_ratio=ratio), names)
    assert_close(found, reference_logits(engine, names), **REORDERED)


@pytest.mark.parametrize("method", ["cacheclip", "infoflow", "qcfuse"])
def test_ratio_one_equals_full_prefill_bit_for_bit(method):
    engine, names = make_engine(), ["ferry", "tern", "fares"]
    everything = logits_of(engine, replace(ASK, method=method, recompute_ratio=1.0), names)
    assert_close(everything, logits_of(engine, replace(ASK, method="full"), names), **EXACT)


@pytest.mark.parametrize("method", ["cacheclip", "infoflow", "qcfuse"])
def test_ratio_zero_equals_direct_reuse_bit_for_bit(method):
    engine, names = make_engine(), ["ferry", "tern", "fares"]
    nothing = logits_of(engine, replace(ASK, method=method, recompute_ratio=0.0), names)
    assert_close(nothing, logits_of(engine, replace(ASK, method="direct"), names), **EXACT)


@pytest.mark.parametrize("method", [name for name in STRATEGIES if name not in ("ape", "naive")])
def test_one_chunk_is_exact_with_every_method_that_keeps_prefix_positions_and_attention(method):
    engine = make_engine()
    assert_close(
        logits_of(engine, replace(ASK, method=method), ["ferry"]), reference_logits(engine, ["ferry"]), **REORDERED
    )


def test_cached_chunks_in_another_order_equal_transformers_at_ratio_one():
    engine = make_engine()
    logits_of(engine, ASK, ["ferry", "tern", "fares"])
    reordered = ["fares", "ferry", "tern"]
    logits = logits_of(engine, replace(ASK, recompute_ratio=1.0), reordered)
    assert_close(logits, reference_logits(engine, reordered), **REORDERED)


def test_text_only_grows_and_reports_truncation():
    engine = make_engine("ferry", "tern", "fares")
    for length in (3, 40):
        *_, answer = shown = [copy(each) for each in engine.ask(replace(ASK, max_new_tokens=length))]
        assert all(later.text.startswith(earlier.text) for earlier, later in itertools.pairwise(shown))
        assert answer.truncated == (answer.new_tokens == length)


def test_repeated_question_gives_the_same_answer_from_memory():
    engine = make_engine("ferry", "tern", "fares")
    first, second = last(engine.ask(ASK)), last(engine.ask(ASK))
    assert first.text == second.text
    assert {source.tier for source in first.sources} == {"computed"}
    assert {source.tier for source in second.sources} == {"host"}


def test_recomputation_never_changes_stored_kv():
    blobs = MemoryBlobs()
    engine = make_engine("ferry", "tern", "fares", blobs=blobs)
    last(engine.ask(replace(ASK, method="direct")))
    engine.tiers.drain()
    before = {name: tensors["keys"].clone() for name, tensors in blobs.tensors.items()}
    last(engine.ask(replace(ASK, recompute_ratio=0.5)))
    last(engine.ask(replace(ASK, recompute_ratio=1.0)))
    engine.tiers.drain()
    assert blobs.tensors.keys() == before.keys()
    for name, keys in before.items():
        assert torch.equal(blobs.tensors[name]["keys"], keys)
        assert torch.equal(engine.cache.tree.tiers[0].store.get(name.removeprefix("10")).keys, keys)


def test_the_same_chunk_twice_in_one_prompt():
    engine, names = make_engine(), ["ferry", "ferry"]
    assert_close(
        logits_of(engine, replace(ASK, recompute_ratio=1.0), names), reference_logits(engine, names), **REORDERED
    )


def test_empty_library_is_answered_by_the_model_alone_with_a_note():
    answer = last(make_engine().ask(ASK))
    assert answer.state == "done"
    assert any("Add documents" in note for note in answer.notes)


def test_question_longer_than_the_context_is_rejected_with_both_numbers():
    with pytest.raises(QuestionTooLong, match=r"\d+ tokens; the model's context has 2048"):
        list(make_engine("ferry").ask(replace(ASK, question="why " * 5000)))


def test_auxiliary_reads_the_end_of_a_long_question_with_a_note():
    engine, question = make_engine("ferry", "tern"), "gull " * 200 + "What is the maintenance code?"
    query_ids = engine.template.query_ids(question)
    assert len(query_ids) == MAX_QUERY_ROWS and query_ids[-5:] == engine.template.query_ids(ASK.question)[-5:]
    for method, has_note in (("cacheclip", True), ("direct", False)):
        answer = last(engine.ask(replace(ASK, question=question, method=method)))
        assert answer.state == "done"
        assert any("last 256 tokens" in note for note in answer.notes) is has_note


def test_passages_that_do_not_fit_are_dropped_with_a_note():
    long = " ".join(f"line {number} of a long list" for number in range(160))
    answer = last(make_engine("ferry", long, long + "!", long + "?", "tern").ask(ASK))
    assert any("did not fit" in note for note in answer.notes)
    assert [source.document for source in answer.sources][-1] == "tern.txt"


@pytest.mark.parametrize(
    "change",
    [
        *({"question": question} for question in ("  \n", None, 5, "half\ud800")),
        *({"method": method} for method in ("none", None, ["full"])),
        *({"recompute_ratio": ratio} for ratio in (-0.1, 1.01, float("nan"), float("inf"), "0.2", None)),
        *({"passages": passages} for passages in (0, 1000, 2.5, float("nan"), "4", None)),
        *({"seed": seed} for seed in (1.5, "1", None, True, 2**63)),
    ],
    ids=str,
)
def test_parameters_out_of_range_are_rejected_before_anything_runs(change):
    with pytest.raises(BadRequest):
        next(iter(make_engine("ferry").ask(replace(ASK, **change))))


@pytest.mark.parametrize("method", STRATEGIES)
def test_trace_has_every_stage_and_the_actual_ratio(method):
    engine = make_engine("ferry", "tern", "fares")
    answer = last(engine.ask(replace(ASK, method=method, recompute_ratio=0.3)))
    names = [stage.name for stage in answer.trace.stages]
    assert {"search", "lookup", "select", "decode"} <= set(names)
    assert ("load" in names) == STRATEGIES[method].reuses_kv
    assert ("auxiliary" in names) == bool(STRATEGIES[method].score_mode)
    assert answer.actual_ratio == sum(source.recomputed_tokens for source in answer.sources) / answer.context_tokens
    assert answer.actual_ratio == {"full": 1.0, "direct": 0.0}.get(method, answer.actual_ratio)
    assert 0 < answer.trace.ttft_ms < answer.trace.now_ms()


def test_text_spans_join_to_the_passage_and_mark_recomputed_text():
    answer = last(make_engine("ferry", "tern", "fares").ask(replace(ASK, recompute_ratio=0.4)))
    for source, name in zip(answer.sources, ["ferry", "tern", "fares"], strict=True):
        assert "".join(piece.text for piece in source.text_spans) == TEXTS[name]
        assert any(piece.recomputed for piece in source.text_spans) == (source.recomputed_tokens > 0)


def test_auxiliary_with_another_tokenizer():
    engine = make_engine("ferry", "tern", "fares", auxiliary=tiny.decoder(tiny.qwen2, seed=3, vocab_size=300))
    answer = last(engine.ask(replace(ASK, recompute_ratio=0.4)))
    assert answer.state == "done"
    assert 0.3 < answer.actual_ratio <= 0.4


@pytest.mark.parametrize("stop_after", range(4))
def test_cancelled_answer_leaves_the_engine_usable(stop_after):
    engine, cancel = make_engine("ferry", "tern", "fares"), Event()
    answers = engine.ask(replace(ASK, max_new_tokens=200), cancel)
    for _ in range(stop_after):
        next(answers)
    cancel.set()
    final = last(answers)
    assert final.state == "stopped"
    assert final.new_tokens < 200
    assert last(engine.ask(ASK)).state == "done"


def test_waiting_request_can_be_cancelled():
    engine, cancel = make_engine("ferry", "tern"), Event()
    waiting = Thread(target=lambda: ended.append(last(engine.ask(ASK, cancel)).state))
    ended = []
    with engine.scheduler.acquire(lambda: (0, 1), Event()):
        waiting.start()
        cancel.set()
        waiting.join(60)
    assert ended == ["stopped"]
    assert last(engine.ask(ASK)).state == "done"


def test_a_request_is_answered_while_another_answer_is_decoded():
    engine = make_engine("ferry", "tern")
    alone = last(engine.ask(replace(ASK, max_new_tokens=200))).text
    running = engine.ask(replace(ASK, max_new_tokens=200))
    while next(running).state != "writing" or engine.scheduler.num_decoding == 0:
        pass
    assert last(engine.ask(replace(ASK, question="Who sails?"))).state == "done"
    final = last(running)
    assert (final.state, final.text) == ("done", alone)
    assert engine.scheduler.num_decoding == 0


def test_closed_generator_frees_the_engine():
    engine = make_engine("ferry", "tern")
    answers = engine.ask(ASK)
    for _ in range(3):
        next(answers)
    answers.close()
    assert last(engine.ask(ASK)).state == "done"


def test_concurrent_requests_get_their_own_answers():
    engine, found = make_engine("ferry", "tern", "fares"), {}
    alone = {name: last(engine.ask(replace(ASK, question=name))).text for name in ("Who sails?", "What costs?")}

    def run(question):
        found[question] = last(engine.ask(replace(ASK, question=question))).text

    threads = [Thread(target=run, args=(question,)) for question in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_full_disk_gives_a_note_and_answering_continues():
    blobs = MemoryBlobs()
    blobs.full = True
    engine = make_engine("ferry", "tern", blobs=blobs)
    assert last(engine.ask(ASK)).state == "done"
    engine.tiers.drain()
    answer = last(engine.ask(ASK))
    assert answer.state == "done" and {source.tier for source in answer.sources} == {"host"}
    assert any("lost on restart" in note for note in answer.notes)


def test_after_a_restart_chunk_kv_comes_from_disk_bit_for_bit():
    blobs = MemoryBlobs()
    engine = make_engine("ferry", "tern", blobs=blobs)
    first = last(engine.ask(ASK))
    engine.tiers.drain()
    again = last(make_engine("ferry", "tern", blobs=blobs).ask(ASK))
    assert {source.tier for source in again.sources} == {"disk"}
    assert again.text == first.text


def test_another_model_does_not_use_this_models_kv():
    blobs = MemoryBlobs()
    engine = make_engine("ferry", blobs=blobs)
    last(engine.ask(ASK))
    engine.tiers.drain()
    other = make_engine("ferry", build=tiny.qwen3, blobs=blobs)
    assert {source.tier for source in last(other.ask(ASK)).sources} == {"computed"}


def test_deleted_passage_is_gone_from_every_tier():
    blobs = MemoryBlobs()
    engine = make_engine("ferry", "tern", blobs=blobs, auxiliary=tiny.decoder(tiny.qwen2, seed=3, vocab_size=300))
    last(engine.ask(ASK))
    engine.tiers.drain()
    assert len(blobs.tensors) == 4  # each passage, for both models
    engine.passages.delete(TEXTS["ferry"])
    assert len(blobs.tensors) == 2
    engine.passages.delete(TEXTS["tern"])
    assert not blobs.tensors
    assert not engine.cache.tree.nodes and {tier.size_bytes for tier in engine.cache.tree.tiers} == {0}


@pytest.mark.parametrize("own", [False, True], ids=["shared", "auxiliary of its own"])
def test_deletion_tokenizes_the_passage_once_per_model(own, monkeypatch):
    engine = make_engine("ferry", auxiliary=tiny.decoder(tiny.qwen2, seed=3, vocab_size=300) if own else None)
    read: list[str] = []
    for _, prompt in engine.passages.kv_caches:
        once = prompt.encode_passage
        monkeypatch.setattr(prompt, "encode_passage", lambda text, once=once: read.append(text) or once(text))
    engine.passages.delete(TEXTS["ferry"])
    assert len(read) == len(engine.passages.kv_caches) == 1 + own


@pytest.mark.parametrize("meanwhile", [False, True])
def test_text_of_a_deleted_passage_is_gone_from_memory(meanwhile):
    auxiliary = tiny.decoder(tiny.qwen2, seed=3, vocab_size=300)
    selector = TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32))
    engine = make_engine("ferry", "tern", auxiliary=auxiliary, selector=selector)
    caches = engine.template.passage, engine.auxiliary.template.passage, selector.passage_keys

    def holds_text(cache):
        return TEXTS["ferry"].strip() in {text.strip() for text in cache.keys()}  # noqa: SIM118  no mapping

    engine.passages.warm(TEXTS["ferry"])
    answers = engine.ask(replace(ASK, method="cacheclip-trained"))
    if meanwhile:
        next(answer for answer in answers if answer.sources)
        engine.passages.delete(TEXTS["ferry"])
    last(answers)
    if not meanwhile:
        assert all(map(holds_text, caches[::2]))
        engine.passages.delete(TEXTS["ferry"])
    assert not any(map(holds_text, caches))


def test_note_if_the_model_has_no_token_selector():
    engine, request = make_engine("ferry", "tern"), replace(ASK, method="cacheclip-trained")
    assert any("no trained token selector" in note for note in last(engine.ask(request)).notes)
    with_selector = make_engine("ferry", "tern", selector=TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32)))
    assert not any("selector" in note for note in last(with_selector.ask(request)).notes)


def test_selector_encodes_with_the_passages_kv_and_is_deleted_with_it(monkeypatch):
    read, selector = [], TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32))
    vectors = selector.encoder.embed
    monkeypatch.setattr(selector.encoder, "embed", lambda ids: read.append(ids) or vectors(ids))
    engine = make_engine("ferry", "tern", selector=selector)
    for name in ("ferry", "tern"):
        engine.passages.warm(TEXTS[name])
    last(engine.ask(replace(ASK, method="cacheclip-trained")))
    assert len(read) == 3  # two passages, once each, and the question
    engine.passages.delete(TEXTS["ferry"])
    engine.passages.warm(TEXTS["ferry"])
    assert len(read) == 4


@pytest.mark.parametrize("stopped", [False, True])
def test_an_answer_made_of_quotes_does_not_wait_for_the_prefill(monkeypatch, stopped):
    def quote(answer, evidence, log_likelihoods, generate):
        answer.text = "At nine."
        return True

    monkeypatch.setattr("engine.generation.stream.fill_quoted_answer", quote)
    monkeypatch.setattr(GroundingModel, "evidence", lambda *arguments: Mock())
    engine, cancel = make_engine("ferry", "tern"), Event()
    engine.grounding = GroundingModel()
    for answer in engine.ask(replace(ASK, recompute_ratio=1.0), cancel):
        if answer.text and answer.state == "reading":
            assert not {"load", "recompute"} & {stage.name for stage in answer.trace.stages}
            assert answer.trace.ttft_ms is not None
            if stopped:
                cancel.set()
    assert (answer.text, answer.state) == ("At nine.", "done")
    assert (answer.recomputed_tokens > 0) is not stopped
