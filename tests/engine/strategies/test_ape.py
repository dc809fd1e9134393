"""APE against attention with every weight written out, and against transformers with its own mask and positions."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from engine.model.attention import attend_merged
from engine.model.sampling import SamplingParams, decode
from engine.prompt.builder import pack
from engine.strategies import APE
from engine.trace import Trace
from engine.types import ParallelAttention
from tests.engine.test_engine import ASK
from tests.support import tiny
from tests.support.doubles import TEXTS, engine, hit
from tests.support.tolerance import REORDERED

NAMES = ["ferry", "crew", "tern"]  # of different lengths
NEUTRAL = APE(temperature=1.0, scale=1.0)


def written_out(query, keys, values, scaling, context, row_slots, merge):
    """One row at a time: two log-sum-exps, two weights, as the paper states them."""
    out = []
    for row, last in zip(query, row_slots.tolist(), strict=True):
        seen = range(last + 1)
        near = {slot: (row @ keys[slot]) * scaling / merge.temperature for slot in seen if slot in context}
        rest = {slot: (row @ keys[slot]) * scaling for slot in seen if slot not in context}
        sums = [torch.stack(list(part.values())).exp().sum() for part in (near, rest)]
        weights = torch.stack([merge.scale * merge.temperature * sums[0].log(), sums[1].log()]).softmax(0)
        mixed = torch.zeros(values.shape[1])
        for part, total, weight in zip((near, rest), sums, weights, strict=True):
            for slot, logit in part.items():
                mixed += weight * (logit.exp() / total) * values[slot]
        out.append(mixed)
    return torch.stack(out)


@pytest.mark.parametrize(
    "merge", [ParallelAttention(0.9, 0.9), ParallelAttention(0.4, 1.2), ParallelAttention(1.0, 1.0)]
)
def test_merged_attention_is_the_papers_with_every_weight_written_out(merge):
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(1, 4, 5, 8, generator=draw)
    keys, values = (torch.randn(1, 2, 21, 8, generator=draw) for _ in range(2))
    slots = torch.arange(16, 21)
    mask = torch.zeros(5, 21).masked_fill(torch.arange(21)[None] > slots[:, None], float("-inf"))[None, None]
    found = attend_merged(query, keys, values, 0.3, mask, slice(3, 16), merge)
    for head in range(4):
        expected = written_out(
            query[0, head], keys[0, head // 2], values[0, head // 2], 0.3, range(3, 16), slots, merge
        )
        assert_close(found[0, head], expected, **REORDERED)


def reading_of(made):
    return pack(made.prompt, replace(ASK, method="ape"), [hit(name, TEXTS[name]) for name in NAMES], made.max_tokens)


def parallel(made, reading, family, answer=()):
    """Transformers' logits [T, V]: chunks blind to one another by a mask, all starting at len(prefix)."""
    prefix, chunks = made.prompt.prefix, [passage.ids for passage in reading.passages]
    tail = [*reading.suffix_ids, *answer]
    owners = [-1] * len(prefix) + [number for number, ids in enumerate(chunks) for _ in ids] + [-2] * len(tail)
    behind = len(prefix) + max(map(len, chunks))
    positions = [*range(len(prefix)), *(len(prefix) + at for ids in chunks for at in range(len(ids)))]
    positions += range(behind, behind + len(tail))
    allowed = torch.tensor(
        [
            [key <= row and (own < 0 or their in (-1, own)) for key, their in enumerate(owners)]
            for row, own in enumerate(owners)
        ]
    )
    mask = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)[None, None]
    plain = tiny.model(family)
    plain.set_attn_implementation("eager")
    ids = torch.tensor([[*prefix, *(token for chunk in chunks for token in chunk), *tail]])
    with torch.no_grad():
        return plain(ids, attention_mask=mask, position_ids=torch.tensor([positions])).logits[0]


def test_neutral_settings_are_plain_attention_over_parallel_chunks_for_question_and_answer(family):
    made = engine(build=family)
    reading = reading_of(made)
    ready = made.prefill(reading, NEUTRAL, Trace())
    assert_close(ready.logits, parallel(made, reading, family)[-1], **REORDERED)
    chooser, expected = SamplingParams().sampler(), []
    for _ in range(6):
        expected.append(int(parallel(made, reading, family, expected)[-1].argmax()))
    first = chooser.sample(ready.logits)
    assert list(decode(made.cache.decoder, ready.buffer, first, chooser, frozenset(), 6)) == expected


def test_answer_rows_merge_as_question_rows_do():
    """A token decoded after the question gets the logits that it has when it is part of the question."""
    made = engine()
    reading = reading_of(made)
    ready = made.prefill(reading, APE(), Trace())
    slot = torch.tensor([ready.buffer.length])
    decoded = made.cache.decoder.prefill(torch.tensor([7]), ready.buffer, slot)
    asked = made.prefill(replace(reading, suffix_ids=(*reading.suffix_ids, 7)), APE(), Trace())
    assert_close(decoded, asked.logits, **REORDERED)


def test_temperature_and_scale_change_the_answer():
    made = engine()
    reading = reading_of(made)
    plain = made.prefill(reading, NEUTRAL, Trace()).logits
    for other in (APE(temperature=0.5, scale=1.0), APE(temperature=1.0, scale=0.5)):
        assert (made.prefill(reading, other, Trace()).logits - plain).abs().max() > 1e-3
