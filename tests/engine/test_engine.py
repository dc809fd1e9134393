"""The way of one question on a tiny model, and law 11: the hard cases that others shipped broken."""

import itertools
from copy import copy
from dataclasses import replace
from threading import Event, Thread

import pytest
import torch
from torch.testing import assert_close

from engine.errors import BadRequest, QuestionTooLong
from engine.prompt.builder import pack, strategy_of
from engine.prompt.template import MAX_QUERY_ROWS
from engine.request import Request
from engine.scoring.trained_selector import SelectorHead, TokenSelector
from engine.strategies import STRATEGIES
from engine.trace import Trace
from tests.support import tiny
from tests.support.doubles import TEXTS, MemoryBlobs, engine, hit, last
from tests.support.tolerance import EXACT, REORDERED

ASK = Request("What is the maintenance code?", method="cacheclip", ratio=0.2, passages=6, max_new_tokens=12)


def logits_of(made, request, names):
    reading = pack(made.prompt, request, [hit(name, TEXTS[name]) for name in names], made.max_tokens)
    return made.prefill(reading, strategy_of(request), Trace()).logits


@torch.no_grad()
def reference_logits(made, names, request=ASK):
    """Transformers' own forward pass over the joined ids."""
    ids = [*made.prompt.prefix, *(token for name in names for token in made.prompt.passage(TEXTS[name]).ids)]
    return tiny.model()(torch.tensor([[*ids, *made.prompt.question(request.question)]])).logits[0, -1]


@pytest.mark.parametrize("method, ratio", [("full", 0.0), ("cacheclip", 1.0)])
def test_full_prefill_and_a_ratio_of_one_equal_transformers(method, ratio):
    made, names = engine(), ["ferry", "tern", "fares"]
    found = logits_of(made, replace(ASK, method=method, ratio=ratio), names)
    assert_close(found, reference_logits(made, names), **REORDERED)


def test_a_ratio_of_one_is_the_full_prefill_bit_for_bit():
    made, names = engine(), ["ferry", "tern", "fares"]
    everything = logits_of(made, replace(ASK, ratio=1.0), names)
    assert_close(everything, logits_of(made, replace(ASK, method="full"), names), **EXACT)


def test_a_ratio_of_zero_is_direct_reuse_bit_for_bit():
    made, names = engine(), ["ferry", "tern", "fares"]
    nothing = logits_of(made, replace(ASK, ratio=0.0), names)
    assert_close(nothing, logits_of(made, replace(ASK, method="direct"), names), **EXACT)


@pytest.mark.parametrize("method", [name for name in STRATEGIES if name not in ("ape", "naive")])
def test_one_chunk_is_exact_with_every_method_that_keeps_prefix_positions_and_attention(method):
    made = engine()
    assert_close(
        logits_of(made, replace(ASK, method=method), ["ferry"]), reference_logits(made, ["ferry"]), **REORDERED
    )


def test_chunks_all_cached_and_reordered_equal_transformers_at_ratio_one():
    made = engine()
    logits_of(made, ASK, ["ferry", "tern", "fares"])
    turned = ["fares", "ferry", "tern"]
    assert_close(logits_of(made, replace(ASK, ratio=1.0), turned), reference_logits(made, turned), **REORDERED)


def test_an_answers_text_only_grows_and_says_when_its_room_ended_it():
    made = engine("ferry", "tern", "fares")
    for length in (3, 40):
        *_, answer = shown = [copy(each) for each in made.ask(replace(ASK, max_new_tokens=length))]
        assert all(later.text.startswith(earlier.text) for earlier, later in itertools.pairwise(shown))
        assert answer.cut == (answer.new_tokens == length)


def test_the_same_question_twice_gives_the_same_answer_and_finds_all_in_memory():
    made = engine("ferry", "tern", "fares")
    first, second = last(made.ask(ASK)), last(made.ask(ASK))
    assert first.text == second.text
    assert {source.tier for source in first.sources} == {"computed"}
    assert {source.tier for source in second.sources} == {"host"}


def test_a_patched_hit_never_changes_what_is_stored():
    blobs = MemoryBlobs()
    made = engine("ferry", "tern", "fares", blobs=blobs)
    last(made.ask(replace(ASK, method="direct")))
    made.tiers.drain()
    before = {key: held["keys"].clone() for key, held in blobs.held.items()}
    last(made.ask(replace(ASK, ratio=0.5)))
    last(made.ask(replace(ASK, ratio=1.0)))
    made.tiers.drain()
    assert blobs.held.keys() == before.keys()
    in_memory = {f"10{key}": kv.keys for key, kv in made.cache.tree.tiers[0].store._held.items()}
    for key, keys in before.items():
        assert torch.equal(blobs.held[key]["keys"], keys)
        assert torch.equal(in_memory[key], keys)


def test_the_same_chunk_twice_in_one_prompt():
    made, names = engine(), ["ferry", "ferry"]
    assert_close(logits_of(made, replace(ASK, ratio=1.0), names), reference_logits(made, names), **REORDERED)


def test_an_empty_library_is_answered_by_the_model_alone_and_says_so():
    answer = last(engine().ask(ASK))
    assert answer.state == "done"
    assert any("Add documents" in note for note in answer.notes)


def test_a_question_longer_than_the_context_is_refused_with_both_numbers():
    with pytest.raises(QuestionTooLong, match=r"\d+ tokens; the model reads 2048"):
        list(engine("ferry").ask(replace(ASK, question="why " * 5000)))


def test_of_a_long_question_the_auxiliary_reads_the_end_and_the_answer_says_so():
    made, question = engine("ferry", "tern"), "gull " * 200 + "What is the maintenance code?"
    asked = made.prompt.asked(question)
    assert len(asked) == MAX_QUERY_ROWS and asked[-5:] == made.prompt.asked(ASK.question)[-5:]
    for method, said in (("cacheclip", True), ("direct", False)):
        answer = last(made.ask(replace(ASK, question=question, method=method)))
        assert answer.state == "done"
        assert any("last 256 tokens" in note for note in answer.notes) is said


def test_passages_that_do_not_fit_are_left_out_and_said_to_be():
    long = " ".join(f"line {number} of a long list" for number in range(160))
    answer = last(engine("ferry", long, long + "!", long + "?", "tern").ask(ASK))
    assert any("did not fit" in note for note in answer.notes)
    assert [source.document for source in answer.sources][-1] == "tern.txt"


@pytest.mark.parametrize(
    "change",
    [
        *({"question": question} for question in ("  \n", None, 5, "half\ud800")),
        *({"method": method} for method in ("none", None, ["full"])),
        *({"ratio": ratio} for ratio in (-0.1, 1.01, float("nan"), float("inf"), "0.2", None)),
        *({"passages": passages} for passages in (0, 1000, 2.5, float("nan"), "4", None)),
        *({"seed": seed} for seed in (1.5, "1", None, True, 2**63)),
    ],
    ids=str,
)
def test_settings_outside_their_range_are_refused_before_anything_runs(change):
    with pytest.raises(BadRequest):
        next(iter(engine("ferry").ask(replace(ASK, **change))))


@pytest.mark.parametrize("method", STRATEGIES)
def test_the_trace_names_each_stage_and_the_ratio_that_was_done(method):
    made = engine("ferry", "tern", "fares")
    answer = last(made.ask(replace(ASK, method=method, ratio=0.3)))
    names = [stage.name for stage in answer.trace.stages]
    assert {"search", "lookup", "select", "decode"} <= set(names)
    assert ("load" in names) == STRATEGIES[method].reuses
    assert ("auxiliary" in names) == bool(STRATEGIES[method].scoring)
    assert answer.realised_ratio == sum(source.recomputed for source in answer.sources) / answer.context_tokens
    assert answer.realised_ratio == {"full": 1.0, "direct": 0.0}.get(method, answer.realised_ratio)
    assert 0 < answer.trace.ttft_ms < answer.trace.now_ms()


def test_pieces_joined_are_the_passage_and_mark_what_was_recomputed():
    answer = last(engine("ferry", "tern", "fares").ask(replace(ASK, ratio=0.4)))
    for source, name in zip(answer.sources, ["ferry", "tern", "fares"], strict=True):
        assert "".join(piece.text for piece in source.pieces) == TEXTS[name]
        assert any(piece.recomputed for piece in source.pieces) == (source.recomputed > 0)


def test_an_auxiliary_with_its_own_tokenizer_selects_as_well():
    made = engine("ferry", "tern", "fares", auxiliary=tiny.decoder(tiny.qwen2, seed=3, words=300))
    answer = last(made.ask(replace(ASK, ratio=0.4)))
    assert answer.state == "done"
    assert 0.3 < answer.realised_ratio <= 0.4


@pytest.mark.parametrize("stop_after", range(4))
def test_stopping_ends_the_answer_and_leaves_the_engine_usable(stop_after):
    made, cancel = engine("ferry", "tern", "fares"), Event()
    answers = made.ask(replace(ASK, max_new_tokens=200), cancel)
    for _ in range(stop_after):
        next(answers)
    cancel.set()
    final = last(answers)
    assert final.state == "stopped"
    assert final.new_tokens < 200
    assert last(made.ask(ASK)).state == "done"


def test_a_question_that_waits_its_turn_can_be_stopped():
    made, cancel = engine("ferry", "tern"), Event()
    running = made.ask(replace(ASK, max_new_tokens=200))
    for _ in range(4):
        next(running)
    waiting = Thread(target=lambda: ended.append(last(made.ask(ASK, cancel)).state))
    ended = []
    waiting.start()
    cancel.set()
    waiting.join(60)
    assert ended == ["stopped"]
    assert last(running).state == "done"


def test_an_abandoned_answer_frees_the_engine():
    made = engine("ferry", "tern")
    answers = made.ask(ASK)
    for _ in range(3):
        next(answers)
    answers.close()
    assert last(made.ask(ASK)).state == "done"


def test_two_people_at_a_time_get_their_own_answers():
    made, found = engine("ferry", "tern", "fares"), {}
    alone = {name: last(made.ask(replace(ASK, question=name))).text for name in ("Who sails?", "What costs?")}

    def run(question):
        found[question] = last(made.ask(replace(ASK, question=question))).text

    threads = [Thread(target=run, args=(question,)) for question in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_a_full_disk_is_said_and_answering_goes_on():
    blobs = MemoryBlobs()
    blobs.full = True
    made = engine("ferry", "tern", blobs=blobs)
    assert last(made.ask(ASK)).state == "done"
    made.tiers.drain()
    answer = last(made.ask(ASK))
    assert answer.state == "done" and {source.tier for source in answer.sources} == {"host"}
    assert any("disk takes no more" in note for note in answer.notes)


def test_after_a_restart_chunks_come_from_disk_bit_for_bit():
    blobs = MemoryBlobs()
    made = engine("ferry", "tern", blobs=blobs)
    first = last(made.ask(ASK))
    made.tiers.drain()
    again = last(engine("ferry", "tern", blobs=blobs).ask(ASK))
    assert {source.tier for source in again.sources} == {"disk"}
    assert again.text == first.text


def test_another_model_finds_nothing_of_this_ones_kv():
    blobs = MemoryBlobs()
    made = engine("ferry", blobs=blobs)
    last(made.ask(ASK))
    made.tiers.drain()
    other = engine("ferry", build=tiny.qwen3, blobs=blobs)
    assert {source.tier for source in last(other.ask(ASK)).sources} == {"computed"}


def test_a_forgotten_passage_is_gone_from_every_tier():
    blobs = MemoryBlobs()
    made = engine("ferry", "tern", blobs=blobs, auxiliary=tiny.decoder(tiny.qwen2, seed=3, words=300))
    last(made.ask(ASK))
    made.tiers.drain()
    assert len(blobs.held) == 4  # each passage, for both models
    made.forget(TEXTS["ferry"])
    assert len(blobs.held) == 2
    made.forget(TEXTS["tern"])
    assert not blobs.held
    assert len(made.cache.tree) == 0 and {tier.size_bytes for tier in made.cache.tree.tiers} == {0}


@pytest.mark.parametrize("own", [False, True], ids=["shared", "auxiliary of its own"])
def test_a_passage_is_tokenised_once_for_each_model_that_forgets_it(own, monkeypatch):
    made = engine("ferry", auxiliary=tiny.decoder(tiny.qwen2, seed=3, words=300) if own else None)
    read: list[str] = []
    for _, prompt in made.readers:
        once = prompt.passage_once
        monkeypatch.setattr(prompt, "passage_once", lambda text, once=once: read.append(text) or once(text))
    made.forget(TEXTS["ferry"])
    assert len(read) == len(made.readers) == 1 + own


@pytest.mark.parametrize("meanwhile", [False, True])
def test_the_text_of_a_forgotten_passage_leaves_memory_too(meanwhile):
    made = engine("ferry", "tern", auxiliary=tiny.decoder(tiny.qwen2, seed=3, words=300))
    selector = TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32))
    made.auxiliary = replace(made.auxiliary, selector=selector)
    remembered = made.prompt.passage, made.auxiliary.prompt.passage, selector._passage
    made.warm(TEXTS["ferry"])
    answers = made.ask(replace(ASK, method="cacheclip-trained"))
    if meanwhile:
        next(answer for answer in answers if answer.sources)
        made.forget(TEXTS["ferry"])
    last(answers)
    if not meanwhile:
        assert all(TEXTS["ferry"].strip() in {text.strip() for text in each._held} for each in remembered[::2])
        made.forget(TEXTS["ferry"])
    assert not any(TEXTS["ferry"].strip() in {text.strip() for text in each._held} for each in remembered)


def test_an_answer_says_when_no_selector_is_trained():
    made, request = engine("ferry", "tern"), replace(ASK, method="cacheclip-trained")
    assert any("No selector is trained" in note for note in last(made.ask(request)).notes)
    made.auxiliary = replace(made.auxiliary, selector=TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32)))
    assert not any("selector" in note for note in last(made.ask(request)).notes)


def test_a_selectors_keys_are_made_with_the_passages_kv_and_go_with_it(monkeypatch):
    made, read = engine("ferry", "tern"), []
    selector = TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32))
    vectors = selector.encoder.vectors
    monkeypatch.setattr(selector.encoder, "vectors", lambda ids: read.append(ids) or vectors(ids))
    made.auxiliary = replace(made.auxiliary, selector=selector)
    for name in ("ferry", "tern"):
        made.warm(TEXTS[name])
    last(made.ask(replace(ASK, method="cacheclip-trained")))
    assert len(read) == 3  # two passages, once each, and the question
    made.forget(TEXTS["ferry"])
    made.warm(TEXTS["ferry"])
    assert len(read) == 4
