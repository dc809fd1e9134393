"""A selector: its file, what fitting finds, and what it is fitted to."""

import json
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from engine.errors import ModelNotFound, UnsupportedModel
from engine.finetune import selector as finetuning
from engine.finetune.lessons import Mix
from engine.finetune.packed import Lesson
from engine.finetune.selector import SelectorConfig, finetune_selector, fit
from engine.finetune.shipping import REPORT, ship
from engine.finetune.targets import Sample, agreement, samples
from engine.model.embedded import NAME
from engine.reuse.selector import FILE, Selector, load_selector, offset_of
from engine.startup import READER, SELECTOR, ModelConfig
from tests import tiny
from tests.engine.plain import assembled
from tests.engine.test_finetune import BOATS
from tests.tolerance import EXACT

DRAW = torch.Generator().manual_seed(6)
CONFIG = SelectorConfig(layers=2, lessons=6, judged=4, held=0.4, mix=Mix(passages=3, tokens=300, questions=3))


def synthetic(heads, offsets, count=12):
    """Samples whose target is made by a known selector from random attention."""
    made, lengths = [], (20, 30, 40)
    for _ in range(count):
        attention = torch.rand(2, 3, 90, generator=DRAW).pow(4)
        attention /= attention.sum(-1, keepdim=True)
        target = Selector(heads, offsets).score(attention, lengths)
        target[: lengths[0]] = 0
        made.append(Sample(attention.half(), target / target.sum(), lengths))
    return made


def test_fitting_finds_the_heads_that_made_the_targets():
    heads = torch.tensor([[0.0, 0.7, 0.0], [0.0, 0.0, 0.3]])
    found = fit(synthetic(heads, torch.ones(9)), layers=2)
    assert_close(found.heads, heads, rtol=0.0, atol=0.05)


def test_fitting_finds_that_first_tokens_count_more():
    offsets = torch.tensor([4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    data = synthetic(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), offsets)
    found = fit(data, layers=2)
    assert found.offsets[0] > found.offsets[1] > found.offsets[2] > 1.3 * found.offsets[3]
    score = lambda one: found.score(one.attention.float(), one.lengths)  # noqa: E731
    assert agreement(data, score) > agreement(data, lambda one: one.attention.float().mean((0, 1)))


def test_only_the_first_layers_are_used():
    assert fit(synthetic(torch.ones(2, 3) / 6, torch.ones(9)), layers=1).heads.shape == (1, 3)


def test_a_sample_is_attention_times_deviation_by_transformers(family):
    """The target by plain forward passes: a full prefill's attention, and how far assembled values lie from its own."""
    made = tiny.decoder(family)
    prefix, passages, question = ((*range(3, 10),), ((*range(20, 50),), (*range(60, 95),)), (*range(100, 112),))
    (found,) = samples(made, Lesson(prefix, passages, ((question, (5,)),), apart=True))
    plain = tiny.model(family)
    plain.set_attn_implementation("eager")
    context, start, first = [*prefix, *passages[0], *passages[1]], len(prefix), len(passages[0])
    with torch.no_grad():
        out = plain(torch.tensor([[*context, *question]]), output_attentions=True, use_cache=True)
    spans = (range(start, start + first), range(start + first, len(context)))
    joined, expected = assembled(plain, torch.tensor(context), start, spans), torch.zeros(len(context) - start)
    for layer, attention, (_, values) in zip(out.past_key_values.layers, out.attentions, joined, strict=True):
        exact = layer.values[0, :, start : len(context)]
        moved = (exact - values[0, :, start:]).norm(dim=-1).mean(0) / exact.norm(dim=-1).mean()
        moved[:first] = 0
        expected += attention[0, :, -len(question) :].mean(dim=(0, 1))[start : len(context)] * moved
    assert_close(found.target, expected / expected.sum(), rtol=1e-3, atol=1e-5)
    assert_close(found.attention.float().sum(-1), torch.ones(made.spec.layers, made.spec.heads), rtol=0, atol=1e-2)


def test_a_finetune_judges_its_selector_and_ships_only_a_better_one(tmp_path):
    report = finetune_selector(tiny.decoder(), BOATS, tmp_path / "out", CONFIG, lambda *said: None)
    shares = report["agreement"]
    assert 0 < shares["selector"] <= shares["target"] <= 1 and report["questions"]["judged"] > 0
    assert load_selector(tmp_path / "out", tiny.decoder()).layers == 2
    assert ship(tmp_path / "out", tmp_path / "assets", (FILE,), finetuning.merit)
    assert not ship(tmp_path / "out", tmp_path / "assets", (FILE,), finetuning.merit)
    assert json.loads((tmp_path / "assets" / REPORT).read_text()) == json.loads(json.dumps(report))


def test_more_layers_than_the_model_has_are_refused(tmp_path):
    with pytest.raises(ValueError, match="between 1 and 3"):
        finetune_selector(tiny.decoder(), BOATS, tmp_path, replace(CONFIG, layers=4), lambda *said: None)


def test_a_selector_comes_back_from_its_file(tmp_path):
    made = Selector(torch.tensor([[0.25, 0.5, 0.0, 0.25]]), torch.arange(1.0, 10.0))
    made.save(tmp_path)
    found = load_selector(tmp_path, tiny.decoder())
    assert_close(found.heads, made.heads, **EXACT)
    assert_close(found.offsets, made.offsets, **EXACT)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", ModelNotFound),
        ("{}", ModelNotFound),
        ('{"heads": [["a"]], "offsets": []}', ModelNotFound),
        ('{"heads": [[1, 2, 3]], "offsets": [1, 1, 1, 1, 1, 1, 1, 1, 1]}', UnsupportedModel),
        ('{"heads": [[1, 2, 3, 4]], "offsets": [1]}', UnsupportedModel),
        ('{"heads": [1, 2, 3, 4], "offsets": [1, 1, 1, 1, 1, 1, 1, 1, 1]}', UnsupportedModel),
    ],
)
def test_a_selector_that_does_not_fit_is_refused(content, error, tmp_path):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(error, match="selector"):
        load_selector(tmp_path, tiny.decoder())


def test_offsets_count_from_each_chunks_start():
    assert offset_of((4, 2)).tolist() == [0, 1, 1, 2, 0, 1]
    assert offset_of((300,))[-1] == 8 and offset_of(()).tolist() == []


def test_ours_are_taken_for_the_embedded_pair_only(tmp_path):
    assert (ModelConfig(tmp_path).adapter, ModelConfig(tmp_path).heads) == (READER, SELECTOR)
    other = ModelConfig(tmp_path, model="Qwen/Qwen3-0.6B")
    assert other.auxiliary == NAME and other.adapter is None and other.heads is None
    plain = ModelConfig(tmp_path, reader="off")
    assert plain.adapter is None and plain.heads is None  # fitted to the reader's heads
    own = ModelConfig(tmp_path, reader=str(tmp_path), selector=str(tmp_path))
    assert own.adapter == own.heads == tmp_path
    assert ModelConfig(tmp_path, selector="off").heads is None
