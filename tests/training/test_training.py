"""A finetune on a tiny model: it learns, goes on where it was killed, keeps the better adapter, and merges exactly."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from engine.errors import AdapterUnusable, ModelNotFound, UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.loading.lora import WEIGHTS, merged
from tests.support import tiny
from tests.support.tolerance import EXACT, REORDERED
from tests.training.data.test_examples import FILLERS, PARAGRAPHS
from training import checkpoint
from training.checkpoint import BadCheckpoint, NotWritten
from training.data.corpus import BadCorpus, Corpus, Paragraph
from training.data.examples import DataMix
from training.loop import TrainingConfig
from training.lora import FILES, Adapter, AdapterConfig
from training.publish import REPORT, publish
from training.reader import ReaderConfig, merit, train_reader
from training.weight_averaging import average

BOATS = [Corpus("boats", PARAGRAPHS * 4), Corpus("fillers", FILLERS)]
CONFIG = ReaderConfig(
    adapter=AdapterConfig(4, 8),
    mix=DataMix(passages=3, tokens=300, questions=4),
    training=TrainingConfig(lessons=6, rate=3e-3, warmup=2, every=2),
    judged=4,
    held=0.4,
)
IDS = torch.randint(0, 512, (1, 40), generator=torch.Generator().manual_seed(5))


def decoder(seed=0):
    return Decoder(tiny.model(seed=seed, scale=1.0), tiny.tokenizer(), "tiny")


def run(out, config=CONFIG, materials=BOATS, progress=lambda *said: None, made=None):
    return train_reader(made or decoder(), materials, out, config, progress)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("reader")
    config = replace(CONFIG, training=replace(CONFIG.training, lessons=60, rate=1e-2))
    return out, run(out, config)


def test_it_learns_in_every_way_of_reading(finished):
    out, report = finished
    assert set(report["before"]) == {"full prefill", "direct reuse", "random windows"}
    for name, before in report["before"].items():
        assert report["after"][name]["loss"] < before["loss"] and before["n"] > 0
    assert json.loads((out / REPORT).read_text()) == json.loads(json.dumps(report))


def test_merged_it_computes_what_was_trained(finished):
    out, _ = finished
    trained = decoder()
    adapter = Adapter(trained, AdapterConfig(4, 8))
    adapter.load({name.removeprefix("base_model.model."): t.float() for name, t in load_file(out / WEIGHTS).items()})
    trained.model.set_attn_implementation("sdpa")
    plain = tiny.model(scale=1.0)
    with torch.no_grad():
        before, expected = plain(IDS).logits, trained.model(IDS).logits
        found = merged(plain, out)(IDS).logits
    assert_close(found, expected, **REORDERED)
    assert (found - before).abs().max() > 0.1


def test_a_killed_run_ends_with_the_weights_of_a_whole_one(tmp_path):
    def killed(stage, done, of, loss):
        if stage == "Training" and done == 5:
            raise KeyboardInterrupt

    run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", progress=killed)
    told = []
    run(tmp_path / "parts", progress=lambda stage, done, of, loss: told.append((stage, done)))
    assert ("Training", 5) in told and ("Training", 4) not in told  # lesson 5 was done again, from the checkpoint at 4
    whole, parts = (load_file(tmp_path / name / WEIGHTS) for name in ("whole", "parts"))
    for name, weight in whole.items():
        assert_close(parts[name], weight, **EXACT)


def test_training_can_begin_with_a_finished_adapter(finished, tmp_path):
    out, report = finished
    after = train_reader(decoder(), BOATS, tmp_path, CONFIG, lambda *said: None, out)
    assert (
        after["before"] == report["before"] and after["started_from"]["training_minutes"] == report["training_minutes"]
    )
    weights = load_file(tmp_path / WEIGHTS), load_file(out / WEIGHTS), load_file(run_weights(tmp_path))
    near, far = (sum(float((weights[0][name] - one[name]).norm()) for name in one) for one in weights[1:])
    assert near < far


def test_an_average_is_the_mean_of_its_parts_and_says_what_they_were(finished, tmp_path):
    out, _ = finished
    run(tmp_path / "second", replace(CONFIG, seed=9))
    report = average(decoder(), BOATS, [out, tmp_path / "second"], tmp_path / "mean", CONFIG, lambda *said: None)
    one, two, mean = (load_file(folder / WEIGHTS) for folder in (out, tmp_path / "second", tmp_path / "mean"))
    for name, weight in mean.items():
        assert_close(weight.float(), (one[name].float() + two[name].float()) / 2, rtol=2**-7, atol=1e-6)
    assert len({part["sha256"] for part in report["averaged"]}) == 2
    assert json.loads((tmp_path / "mean" / REPORT).read_text()) == json.loads(json.dumps(report))
    assert report["judged_by"] == json.loads((out / REPORT).read_text())["judged_by"]


def run_weights(folder):
    run(folder / "afresh")
    return folder / "afresh" / WEIGHTS


def test_an_adapter_of_another_rank_cannot_be_begun_with(finished, tmp_path):
    with pytest.raises(UnsupportedModel, match="another rank"):
        train_reader(
            decoder(), BOATS, tmp_path, replace(CONFIG, adapter=AdapterConfig(2, 4)), lambda *s: None, finished[0]
        )
    with pytest.raises(ModelNotFound, match="cannot be read"):
        train_reader(decoder(), BOATS, tmp_path / "b", CONFIG, lambda *said: None, tmp_path / "nowhere")


def test_a_run_with_other_settings_does_not_go_on(tmp_path):
    run(tmp_path)
    with pytest.raises(BadCheckpoint, match="other settings"):
        run(tmp_path, replace(CONFIG, training=replace(CONFIG.training, rate=1e-4)))


def test_a_broken_checkpoint_is_said_and_left_alone(tmp_path):
    run(tmp_path)
    torn = tmp_path / "checkpoint" / "tensors.safetensors"
    torn.write_bytes(torn.read_bytes()[:100])
    with pytest.raises(BadCheckpoint, match="cannot be read"):
        run(tmp_path)
    assert torn.exists()


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    whole = checkpoint.save_file

    def full(*given, **named):
        whole(*given, **named)
        raise OSError(28, "No space left on device")

    def fill(stage, done, of, loss):
        if stage == "Training" and done == 3:
            monkeypatch.setattr(checkpoint, "save_file", full)

    with pytest.raises(NotWritten, match="No space left"):
        run(tmp_path, progress=fill)
    assert [path.name for path in tmp_path.glob("checkpoint*")] == ["checkpoint"]
    assert checkpoint.load(tmp_path / "checkpoint")[1]["lesson"] == 2


def test_a_run_killed_between_two_renames_still_has_a_checkpoint(tmp_path):
    checkpoint.save(tmp_path / "checkpoint", {"a": torch.ones(2)}, {"lesson": 1})
    (tmp_path / "checkpoint").rename(tmp_path / "checkpoint.old")
    assert checkpoint.load(tmp_path / "checkpoint")[1] == {"lesson": 1}


def test_documents_without_questions_get_some(tmp_path):
    texts = [paragraph.text for paragraph in PARAGRAPHS]
    report = run(tmp_path, materials=[Corpus("own", tuple(Paragraph(text) for text in texts * 6))])
    assert report["judged_by"]["materials"]["own"]["questions"] == 0 and report["after"]["full prefill"]["n"] > 0


def test_too_little_data_is_refused(tmp_path):
    with pytest.raises(BadCorpus, match="too few questions"):
        run(tmp_path, materials=[Corpus("few", PARAGRAPHS[:2])])


def test_a_lesson_longer_than_the_model_reads_is_refused(tmp_path):
    with pytest.raises(UnsupportedModel, match="lower --tokens"):
        run(tmp_path, replace(CONFIG, mix=replace(CONFIG.mix, tokens=2000)))


def test_another_seed_and_mix_are_judged_by_the_same_questions(finished, tmp_path):
    out, report = finished
    config = replace(CONFIG, seed=1, mix=replace(CONFIG.mix, plain=0.9, records=0.5))
    other = run(tmp_path / "out", config)
    assert other["before"] == report["before"] and other["judged_by"] == report["judged_by"]
    publish(tmp_path / "out", tmp_path / "assets", FILES, merit)
    publish(out, tmp_path / "assets", FILES, merit)  # neither is refused


def test_a_torn_or_foreign_judgement_of_the_model_as_it_comes_is_made_again(tmp_path):
    first = run(tmp_path)["before"]
    for wrong in ("{", '{"judged_by": {}, "before": {}}'):
        (tmp_path / "before.json").write_text(wrong)
        assert run(tmp_path)["before"] == first


def test_a_worse_adapter_does_not_replace_a_better_one(finished, tmp_path):
    out, report = finished
    assert publish(out, tmp_path / "assets", FILES, merit) and not publish(out, tmp_path / "assets", FILES, merit)
    assert sorted(path.name for path in (tmp_path / "assets").iterdir()) == sorted((*FILES, REPORT))
    better = json.loads(json.dumps(report))
    better["after"]["full prefill"]["exact"] += 0.5
    (tmp_path / "assets" / REPORT).write_text(json.dumps(better))
    assert not publish(out, tmp_path / "assets", FILES, merit)
    better["judged_by"]["held"] = 0.7
    (tmp_path / "assets" / REPORT).write_text(json.dumps(better))
    with pytest.raises(BadCorpus, match="other questions"):
        publish(out, tmp_path / "assets", FILES, merit)


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (lambda folder: (folder / WEIGHTS).unlink(), AdapterUnusable, "cannot be read"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b"torn"), AdapterUnusable, "cannot be read"),
        (lambda folder: (folder / FILES[0]).unlink(), AdapterUnusable, "cannot be read"),
        (lambda folder: (folder / FILES[0]).write_text("{"), AdapterUnusable, "cannot be read"),
        (lambda folder: reshape(folder, lambda t: t.repeat(1, 2)), AdapterUnusable, "another shape"),
        (lambda folder: rename(folder, "layers.2", "layers.9"), AdapterUnusable, "other layers"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(finished, tmp_path, spoil, error, said):
    publish(finished[0], tmp_path / "bad", FILES, merit)
    spoil(tmp_path / "bad")
    with pytest.raises(error, match=said):
        merged(tiny.model(scale=1.0), tmp_path / "bad")


def reshape(folder, change):
    save_file(
        {name: change(tensor).contiguous() for name, tensor in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS
    )


def rename(folder, old, new):
    save_file(
        {name.replace(old, new): tensor for name, tensor in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS
    )
