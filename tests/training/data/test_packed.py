"""A packed pass yields the same logits as the engine: prefill, assembly, recompute, then each question by itself."""

import pytest
import torch
from torch.testing import assert_close

from engine.kv.chunk_cache import assemble
from engine.model.decoder import Decoder
from engine.model.kv_buffer import RowPass
from engine.types import ChunkKV
from tests.support import tiny
from tests.support.tolerance import REORDERED
from training.data import packed
from training.data.packed import PackedExample, answer_logits, answer_loss

GENERATOR = torch.Generator().manual_seed(2)
PREFIX, FIRST, SECOND, THIRD = (
    tuple(torch.randint(0, 512, (n,), generator=GENERATOR).tolist()) for n in (7, 40, 23, 31)
)
QUESTIONS = tuple(
    tuple(tuple(torch.randint(0, 512, (n,), generator=GENERATOR).tolist()) for n in pair)
    for pair in ((9, 4), (5, 1), (12, 6))
)
EXAMPLE = PackedExample(PREFIX, (FIRST, SECOND, THIRD), QUESTIONS, is_independent=True)
RECOMPUTED = (*range(15, 23), *range(50, 58), *range(90, 96))


@pytest.fixture
def decoder(family):
    return Decoder(tiny.model(family), None, "tiny")


def engine_logits(decoder, example):
    """Return the logits of the answers' tokens, one question at a time, over an assembled and recomputed buffer."""
    prefix = decoder.new_buffer(len(PREFIX))
    decoder.forward_rows(torch.tensor(PREFIX), prefix, torch.arange(len(PREFIX)))
    chunks = []
    for ids in example.passages:
        single = decoder.new_buffer(len(PREFIX) + len(ids))
        decoder.forward_rows(torch.tensor(PREFIX + ids), single, torch.arange(len(PREFIX) + len(ids)))
        chunks.append(ChunkKV(single.keys[:, :, len(PREFIX) :], single.values[:, :, len(PREFIX) :], len(PREFIX)))
    logits, context, ids = [], len(example.context), torch.tensor(example.context)
    for question, answer in example.questions:
        suffix = torch.tensor(question + answer)
        buffer = decoder.new_buffer(context + len(suffix))
        assemble(buffer, ChunkKV(prefix.keys, prefix.values, 0), chunks, decoder.spec.inv_freq)
        recomputed = torch.tensor(example.recomputed, dtype=torch.long)
        rows = torch.cat((recomputed, context + torch.arange(len(suffix))))
        hidden = decoder.forward(torch.cat((ids[recomputed], suffix))[None], rows[None], RowPass(buffer, rows))
        logits.append(decoder.logits(hidden[0, len(recomputed) + len(question) - 1 : -1]))
    return torch.cat(logits)


@pytest.mark.parametrize("recomputed", [(), RECOMPUTED], ids=["direct", "windows"])
def test_independent_prefill_equals_assembled_chunks(decoder, recomputed):
    example = PackedExample(PREFIX, EXAMPLE.passages, QUESTIONS, is_independent=True, recomputed=recomputed)
    logits, targets = answer_logits(decoder, example)
    assert_close(logits.detach(), engine_logits(decoder, example), **REORDERED)
    assert targets.tolist() == [token for _, answer in QUESTIONS for token in answer]


def test_full_prefill_equals_transformers(family, decoder):
    logits, _ = answer_logits(decoder, PackedExample(PREFIX, EXAMPLE.passages, QUESTIONS, is_independent=False))
    plain, expected = tiny.model(family), []
    for question, answer in QUESTIONS:
        whole = torch.tensor(EXAMPLE.context + question + answer)
        with torch.no_grad():
            expected.append(plain(whole[None]).logits[0, -len(answer) - 1 : -1])
    assert_close(logits.detach(), torch.cat(expected), **REORDERED)


def test_recomputing_every_token_equals_full_prefill(decoder):
    everything = tuple(range(len(PREFIX), len(EXAMPLE.context)))
    again, _ = answer_logits(
        decoder, PackedExample(PREFIX, EXAMPLE.passages, QUESTIONS, is_independent=True, recomputed=everything)
    )
    whole, _ = answer_logits(decoder, PackedExample(PREFIX, EXAMPLE.passages, QUESTIONS, is_independent=False))
    assert_close(again.detach(), whole.detach(), **REORDERED)


def test_questions_are_independent_of_one_another(decoder):
    together, _ = answer_logits(decoder, EXAMPLE)
    single = [
        answer_logits(decoder, PackedExample(PREFIX, EXAMPLE.passages, (pair,), is_independent=True))[0]
        for pair in QUESTIONS
    ]
    assert_close(together.detach(), torch.cat(single).detach(), **REORDERED)


@pytest.mark.parametrize("recomputed", [(), RECOMPUTED], ids=["direct", "windows"])
def test_one_masked_call_equals_a_call_for_each_chunk(decoder, recomputed, monkeypatch):
    example = PackedExample(PREFIX, EXAMPLE.passages, QUESTIONS, is_independent=True, recomputed=recomputed)
    expected, _ = answer_logits(decoder, example)
    monkeypatch.setattr(packed, "prefers_large_calls", lambda device: True)  # as on a GPU
    together, _ = answer_logits(decoder, example)
    assert_close(together.detach(), expected.detach(), **REORDERED)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_several_examples_in_one_pass_do_not_see_one_another(decoder, on_gpu, monkeypatch):
    others = (
        PackedExample(PREFIX, EXAMPLE.passages, QUESTIONS, is_independent=True, recomputed=RECOMPUTED),
        PackedExample(PREFIX, (SECOND,), QUESTIONS[:1], is_independent=False),
    )
    alone = [answer_logits(decoder, each) for each in (EXAMPLE, *others)]
    monkeypatch.setattr(packed, "prefers_large_calls", lambda device: on_gpu)
    together, targets = answer_logits(decoder, EXAMPLE, *others)
    assert_close(together.detach(), torch.cat([logits for logits, _ in alone]).detach(), **REORDERED)
    assert targets.tolist() == torch.cat([targets for _, targets in alone]).tolist()


def test_gradients_reach_the_chunks(decoder):
    """A weight's gradient is the slope of the loss, also through re-rotated and recomputed keys."""
    example = PackedExample(PREFIX, EXAMPLE.passages, QUESTIONS, is_independent=True, recomputed=RECOMPUTED)
    weight = decoder.model.model.layers[0].self_attn.k_proj.weight
    decoder.model.requires_grad_(False)
    weight.requires_grad_(True)
    answer_loss(decoder, example).backward()
    direction = torch.randn(weight.shape, generator=torch.Generator().manual_seed(3))
    direction /= direction.norm()
    with torch.no_grad():
        losses = []
        for step in (1e-2, -1e-2):
            weight += step * direction
            losses.append(float(answer_loss(decoder, example)))
            weight -= step * direction
    assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(float((weight.grad * direction).sum()), rel=0.05, abs=1e-4)
