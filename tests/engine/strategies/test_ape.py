"""APE against attention with every weight written out, and against transformers with its own mask and positions."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from engine.model.attention import ParallelLayout, attend_parallel
from engine.model.sampling import TokenSampler, decode
from engine.prompt.pack import pack
from engine.strategies import APE
from engine.trace import Trace
from engine.types import ParallelAttention
from tests.engine.test_engine import ASK
from tests.support import tiny
from tests.support.doubles import TEXTS, make_engine, make_hit
from tests.support.tolerance import REORDERED

NAMES = ["ferry", "crew", "tern"]  # of different lengths
NEUTRAL = APE(temperature=1.0, scale=1.0)


def merged_attention(query, keys, values, scaling, context, row_slots, parallel):
    """One row at a time: two log-sum-exps, two weights, as the paper states them."""
    out = []
    for row, slot in zip(query, row_slots.tolist(), strict=True):
        visible = range(slot + 1)
        inside = {key: (row @ keys[key]) * scaling / parallel.temperature for key in visible if key in context}
        outside = {key: (row @ keys[key]) * scaling for key in visible if key not in context}
        sums = [torch.stack(list(part.values())).exp().sum() for part in (inside, outside)]
        weights = torch.stack([parallel.scale * parallel.temperature * sums[0].log(), sums[1].log()]).softmax(0)
        mixed = torch.zeros(values.shape[1])
        for part, total, weight in zip((inside, outside), sums, weights, strict=True):
            for key, logit in part.items():
                mixed += weight * (logit.exp() / total) * values[key]
        out.append(mixed)
    return torch.stack(out)


@pytest.mark.parametrize(
    "parallel", [ParallelAttention(0.9, 0.9), ParallelAttention(0.4, 1.2), ParallelAttention(1.0, 1.0)]
)
def test_merged_attention_is_the_papers_with_every_weight_written_out(parallel):
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(1, 4, 5, 8, generator=generator)
    keys, values = (torch.randn(1, 2, 21, 8, generator=generator) for _ in range(2))
    slots = torch.arange(16, 21)
    mask = torch.zeros(5, 21).masked_fill(torch.arange(21)[None] > slots[:, None], float("-inf"))[None, None]
    merged = attend_parallel(query, keys, values, 0.3, mask, ParallelLayout(slice(3, 16), 13, parallel))
    for head in range(4):
        head_keys, head_values = keys[0, head // 2], values[0, head // 2]
        expected = merged_attention(query[0, head], head_keys, head_values, 0.3, range(3, 16), slots, parallel)
        assert_close(merged[0, head], expected, **REORDERED)


def prepare(engine):
    hits = [make_hit(name, TEXTS[name]) for name in NAMES]
    return pack(engine.template, replace(ASK, method="ape"), hits, engine.max_tokens)


def parallel_logits(engine, prompt, family, answer_ids=()):
    """Transformers' logits [T, V]: a mask hides chunks from each other, and all start at len(prefix)."""
    prefix, chunks = engine.template.prefix_ids, prompt.passage_ids
    suffix = [*prompt.suffix_ids, *answer_ids]
    owners = [-1] * len(prefix) + [number for number, ids in enumerate(chunks) for _ in ids] + [-2] * len(suffix)
    suffix_start = len(prefix) + max(map(len, chunks))
    positions = [*range(len(prefix)), *(len(prefix) + offset for ids in chunks for offset in range(len(ids)))]
    positions += range(suffix_start, suffix_start + len(suffix))
    allowed = torch.tensor(
        [
            [key <= row and (row_owner < 0 or key_owner in (-1, row_owner)) for key, key_owner in enumerate(owners)]
            for row, row_owner in enumerate(owners)
        ]
    )
    mask = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)[None, None]
    model = tiny.model(family)
    model.set_attn_implementation("eager")
    ids = torch.tensor([[*prefix, *(token for chunk in chunks for token in chunk), *suffix]])
    with torch.no_grad():
        return model(ids, attention_mask=mask, position_ids=torch.tensor([positions])).logits[0]


def test_neutral_settings_are_plain_attention_over_parallel_chunks_for_question_and_answer(family):
    engine = make_engine(build=family)
    prompt = prepare(engine)
    result = engine.prefill(prompt, NEUTRAL, Trace())
    assert_close(result.logits, parallel_logits(engine, prompt, family)[-1], **REORDERED)
    sampler, expected = TokenSampler(), []
    for _ in range(6):
        expected.append(int(parallel_logits(engine, prompt, family, expected)[-1].argmax()))
    first = sampler.sample(result.logits)
    assert list(decode(engine.cache.decoder, result.buffer, [first], sampler, frozenset(), 6)) == expected


def test_answer_rows_attend_as_question_rows_do():
    """A token decoded after the question gets the same logits as when it is part of the question."""
    engine = make_engine()
    prompt = prepare(engine)
    result = engine.prefill(prompt, APE(), Trace())
    slot = torch.tensor([result.buffer.length])
    decoded = engine.cache.decoder.forward_rows(torch.tensor([7]), result.buffer, slot)
    longer = engine.prefill(replace(prompt, suffix_ids=(*prompt.suffix_ids, 7)), APE(), Trace())
    assert_close(decoded, longer.logits, **REORDERED)


def test_temperature_and_scale_change_the_answer():
    engine = make_engine()
    prompt = prepare(engine)
    neutral = engine.prefill(prompt, NEUTRAL, Trace()).logits
    for other in (APE(temperature=0.5, scale=1.0), APE(temperature=1.0, scale=0.5)):
        assert (engine.prefill(prompt, other, Trace()).logits - neutral).abs().max() > 1e-3
