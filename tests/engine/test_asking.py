"""A selector whose layers were taught to ask: the same attention as in the engine, better pointing, whole on disk."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from engine.errors import ModelNotFound
from engine.finetune.adapter import FILES, Adapter, AdapterConfig
from engine.finetune.asking import loss_of, pointing_loss
from engine.finetune.lessons import Mix
from engine.finetune.packed import Lesson
from engine.finetune.selector import SelectorConfig, finetune_selector
from engine.finetune.targets import assembled, samples
from engine.finetune.training import TrainingConfig
from engine.model.adapter import WEIGHTS
from engine.model.buffer import Rows
from engine.model.first_layers import first_layers
from engine.prompt import Prompt
from engine.reuse.auxiliary import Auxiliary
from engine.reuse.chunks import ChunkCache
from engine.reuse.selector import Selector, load_selector, offset_of
from engine.types import Scoring
from tests import tiny
from tests.engine.doubles import TEXTS, tiers
from tests.engine.test_auxiliary import QUESTION
from tests.engine.test_finetune import BOATS, decoder
from tests.tolerance import EXACT

LESSON = Lesson((3, 4, 5), ((*range(20, 50),), (*range(60, 95),)), (((*range(100, 112),), (5,)),), apart=True)
CONFIG = SelectorConfig(
    layers=2,
    lessons=6,
    judged=4,
    held=0.4,
    mix=Mix(passages=3, tokens=300, questions=3),
    teaching=TrainingConfig(lessons=40, rate=1e-2, warmup=2, every=20),
    adapter=AdapterConfig(4, 8),
)


def flat(layers=2):
    return Selector(torch.full((layers, 4), 1 / (4 * layers)), torch.ones(9))


def test_first_layers_compute_what_they_compute_in_the_whole_model(family):
    whole = tiny.decoder(family)
    ids, positions = torch.arange(30, 50)[None], torch.arange(20)[None]
    buffers = whole.buffer(20), whole.buffer(20)
    found = first_layers(whole, 2)
    assert_close(
        found.forward(ids, positions, Rows(buffers[0], positions[0])),
        whole.forward(ids, positions, Rows(buffers[1], positions[0]), layers=2),
        **EXACT,
    )
    assert found.spec.layers == 2 and whole.spec.layers == len(whole.model.model.layers) == 3
    assert found.model.model.embed_tokens is whole.model.model.embed_tokens


def test_the_loss_is_the_cross_entropy_of_the_engines_own_scores(family):
    whole = tiny.decoder(family)
    read = assembled(whole, LESSON)
    offsets = torch.rand(9, generator=torch.Generator().manual_seed(5)) + 0.1
    selector = replace(flat(), offsets=offsets)
    (sample,) = samples(whole, LESSON)
    score = selector.score(sample.attention[:2].float(), sample.lengths)[30:]
    expected = -(sample.target[30:] * (score / score.sum()).log()).sum()
    assert_close(pointing_loss(first_layers(whole, 2), read, selector), expected, rtol=1e-3, atol=1e-4)
    assert offset_of(read.lengths)[30] == 0


def test_teaching_moves_the_question_and_nothing_else():
    whole = decoder()
    asking = first_layers(whole, 2)
    adapter = Adapter(asking, AdapterConfig(4, 8))
    before = {name: weight.clone() for name, weight in whole.model.state_dict().items()}
    loss = loss_of(whole, asking, flat(), [LESSON])(0)
    loss.backward()
    moved = [name for name, weight in adapter.named.items() if weight.grad is not None and weight.grad.abs().max() > 0]
    assert any("layers.0" in name for name in moved) and any("layers.1" in name for name in moved)
    assert all(weight.grad is None for name, weight in whole.model.named_parameters())
    assert_close(whole.model.state_dict(), before, **EXACT)


def test_a_lesson_of_one_passage_teaches_nothing():
    whole = decoder()
    asking = first_layers(whole, 2)
    adapter = Adapter(asking, AdapterConfig(4, 8))
    loss = loss_of(whole, asking, flat(), [replace(LESSON, passages=LESSON.passages[:1])])(0)
    loss.backward()
    assert loss.item() == 0 and all(weight.grad is None for weight in adapter.named.values())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("selector")
    return out, finetune_selector(decoder(), BOATS, out, CONFIG, lambda *said: None)


def test_taught_layers_point_better_and_the_report_says_how_much(finished):
    _, report = finished
    shares = report["agreement"]
    assert shares["random"] < shares["selector, untaught"] < shares["selector"] <= shares["target"]


def test_scoring_passes_the_question_through_the_taught_layers(finished):
    out, _ = finished
    whole = decoder()
    selector = load_selector(out, whole)
    cache = ChunkCache(whole, Prompt(whole.tokenizer).prefix, tiers().tree)
    scorer = Auxiliary(cache, Prompt(whole.tokenizer), selector)
    asked = [QUESTION, list(TEXTS.values()), scorer.prompt, Scoring.TRAINED]
    taught = scorer.score(*asked)
    untaught = replace(scorer, selector=replace(selector, asking=None)).score(*asked)
    assert (taught - untaught).abs().max() > 1e-3
    lesson = Lesson(
        scorer.prompt.prefix,
        tuple(scorer.prompt.passage(text).ids for text in TEXTS.values()),
        ((scorer.prompt.question(QUESTION), (5,)),),
        apart=True,
    )
    (sample,) = samples(whole, lesson, selector.asking)
    assert_close(taught, selector.score(sample.attention.float(), sample.lengths), rtol=2e-3, atol=1e-4)


def test_a_taught_selector_without_its_adapter_is_refused(finished, tmp_path):
    out, _ = finished
    for path in out.iterdir():
        if path.is_file() and path.name != WEIGHTS:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ModelNotFound, match="adapter"):
        load_selector(tmp_path, decoder())
    assert set(FILES) <= {path.name for path in out.iterdir()}
