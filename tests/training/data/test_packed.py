"""A lesson's pass is the engine's own: the same logits as prefill, assembly, recompute and question, step by step."""

import pytest
import torch
from torch.testing import assert_close

from engine.kv.assemble import assemble
from engine.model.decoder import Decoder
from engine.model.kv_buffer import RowPass
from engine.types import ChunkKV
from tests.support import tiny
from tests.support.tolerance import REORDERED
from training.data.packed import PackedExample, answer_logits, answer_loss

GENERATOR = torch.Generator().manual_seed(2)
PREFIX, FIRST, SECOND, THIRD = (
    tuple(torch.randint(0, 512, (n,), generator=GENERATOR).tolist()) for n in (7, 40, 23, 31)
)
ASKED = tuple(
    tuple(tuple(torch.randint(0, 512, (n,), generator=GENERATOR).tolist()) for n in pair)
    for pair in ((9, 4), (5, 1), (12, 6))
)
LESSON = PackedExample(PREFIX, (FIRST, SECOND, THIRD), ASKED, apart=True)
FRESH = (*range(15, 23), *range(50, 58), *range(90, 96))


@pytest.fixture
def decoder(family):
    return Decoder(tiny.model(family), None, "tiny")


def by_the_engine(decoder, lesson):
    """Logits of each answer's tokens, one question at a time, over an assembled and patched buffer."""
    prefix = decoder.buffer(len(PREFIX))
    decoder.prefill(torch.tensor(PREFIX), prefix, torch.arange(len(PREFIX)))
    chunks = []
    for ids in lesson.passages:
        alone = decoder.buffer(len(PREFIX) + len(ids))
        decoder.prefill(torch.tensor(PREFIX + ids), alone, torch.arange(len(PREFIX) + len(ids)))
        chunks.append(ChunkKV(alone.keys[:, :, len(PREFIX) :], alone.values[:, :, len(PREFIX) :], len(PREFIX)))
    found, context, ids = [], len(lesson.context), torch.tensor(lesson.context)
    for question, answer in lesson.questions:
        behind = torch.tensor(question + answer)
        buffer = decoder.buffer(context + len(behind))
        assemble(buffer, ChunkKV(prefix.keys, prefix.values, 0), chunks, decoder.spec.inv_freq)
        fresh = torch.tensor(lesson.fresh, dtype=torch.long)
        rows = torch.cat((fresh, context + torch.arange(len(behind))))
        hidden = decoder.forward(torch.cat((ids[fresh], behind))[None], rows[None], RowPass(buffer, rows))
        found.append(decoder.logits(hidden[0, len(fresh) + len(question) - 1 : -1]))
    return torch.cat(found)


@pytest.mark.parametrize("fresh", [(), FRESH], ids=["direct", "windows"])
def test_read_apart_it_equals_assembled_chunks(decoder, fresh):
    lesson = PackedExample(PREFIX, LESSON.passages, ASKED, apart=True, fresh=fresh)
    logits, targets = answer_logits(decoder, lesson)
    assert_close(logits.detach(), by_the_engine(decoder, lesson), **REORDERED)
    assert targets.tolist() == [token for _, answer in ASKED for token in answer]


def test_read_in_one_it_equals_transformers(family, decoder):
    logits, _ = answer_logits(decoder, PackedExample(PREFIX, LESSON.passages, ASKED, apart=False))
    plain, expected = tiny.model(family), []
    for question, answer in ASKED:
        whole = torch.tensor(LESSON.context + question + answer)
        with torch.no_grad():
            expected.append(plain(whole[None]).logits[0, -len(answer) - 1 : -1])
    assert_close(logits.detach(), torch.cat(expected), **REORDERED)


def test_every_token_computed_again_equals_reading_in_one(decoder):
    everything = tuple(range(len(PREFIX), len(LESSON.context)))
    again, _ = answer_logits(decoder, PackedExample(PREFIX, LESSON.passages, ASKED, apart=True, fresh=everything))
    whole, _ = answer_logits(decoder, PackedExample(PREFIX, LESSON.passages, ASKED, apart=False))
    assert_close(again.detach(), whole.detach(), **REORDERED)


def test_no_question_sees_another(decoder):
    together, _ = answer_logits(decoder, LESSON)
    alone = [answer_logits(decoder, PackedExample(PREFIX, LESSON.passages, (pair,), apart=True))[0] for pair in ASKED]
    assert_close(together.detach(), torch.cat(alone).detach(), **REORDERED)


def test_gradients_reach_the_chunks(decoder):
    """A weight's gradient is the slope of the loss, also through keys that are moved and replaced."""
    lesson = PackedExample(PREFIX, LESSON.passages, ASKED, apart=True, fresh=FRESH)
    weight = decoder.model.model.layers[0].self_attn.k_proj.weight
    decoder.model.requires_grad_(False)
    weight.requires_grad_(True)
    answer_loss(decoder, lesson).backward()
    direction = torch.randn(weight.shape, generator=torch.Generator().manual_seed(3))
    direction /= direction.norm()
    with torch.no_grad():
        losses = []
        for step in (1e-2, -1e-2):
            weight += step * direction
            losses.append(float(answer_loss(decoder, lesson)))
            weight -= step * direction
    assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(float((weight.grad * direction).sum()), rel=0.05, abs=1e-4)
