"""Training a reader on a tiny model: it learns, resumes after a kill, publishes the better adapter, merges exactly."""

import json
from dataclasses import replace
from itertools import count

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from engine.errors import LoraAdapterUnusable, ModelNotFound, UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.loading.lora import LORA_CONFIG_FILE, LORA_WEIGHTS_FILE, merge_lora
from engine.prompt.template import PromptTemplate
from tests.support import tiny
from tests.support.boats import BOATS, PARAGRAPHS
from tests.support.tolerance import EXACT, REORDERED
from training import checkpoint
from training.checkpoint import BadCheckpoint, CheckpointNotWritten
from training.data.corpus import BadCorpus, Corpus, Paragraph
from training.data.examples import DataMix, TrainingExamples
from training.data.packed import answer_logits
from training.loop import TrainingConfig, train
from training.lora import LORA_ADAPTER_FILES, LoraAdapter, LoraAdapterConfig
from training.publish import REPORT_FILE, publish
from training.reader import ReaderConfig, average_adapters, evaluate, selection_metric, train_reader

CONFIG = ReaderConfig(
    lora=LoraAdapterConfig(4, 8),
    mix=DataMix(max_passages=3, max_tokens=300, max_questions=4),
    training=TrainingConfig(steps=6, learning_rate=3e-3, warmup_steps=2, checkpoint_steps=2),
    eval_examples=4,
    eval_fraction=0.4,
)
IDS = torch.randint(0, 512, (1, 40), generator=torch.Generator().manual_seed(5))


def ignore(*progress):
    pass


def decoder(seed=0):
    return Decoder(tiny.model(seed=seed, scale=1.0), tiny.tokenizer(), "tiny")


def run(out, config=CONFIG, corpora=BOATS, progress=ignore, model=None):
    return train_reader(model or decoder(), corpora, out, config, progress)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("reader")
    config = replace(CONFIG, training=replace(CONFIG.training, steps=60, learning_rate=1e-2))
    return out, run(out, config)


def test_the_adapter_learns_with_every_kind_of_prefill(finished):
    out, report = finished
    assert set(report["before"]) == {"full prefill", "direct reuse", "random windows"}
    for name, before in report["before"].items():
        assert report["after"][name]["loss"] < before["loss"] and before["n"] > 0
    assert json.loads((out / REPORT_FILE).read_text()) == json.loads(json.dumps(report))


def test_the_merged_model_equals_the_trained_one(finished):
    out, _ = finished
    trained = decoder()
    adapter = LoraAdapter(trained, LoraAdapterConfig(4, 8))
    adapter.load_state_dict(
        {name.removeprefix("base_model.model."): t.float() for name, t in load_file(out / LORA_WEIGHTS_FILE).items()}
    )
    trained.model.set_attn_implementation("sdpa")
    plain = tiny.model(scale=1.0)
    with torch.no_grad():
        before, expected = plain(IDS).logits, trained.model(IDS).logits
        merge_lora(plain, out)
        logits = plain(IDS).logits
    assert_close(logits, expected, **REORDERED)
    assert (logits - before).abs().max() > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("use_rslora", [False, True])
def test_merging_gives_the_weights_that_peft_gives(finished, tmp_path, dtype, use_rslora):
    publish(finished[0], tmp_path / "adapter", LORA_ADAPTER_FILES, selection_metric)
    configure(tmp_path / "adapter", use_rslora=use_rslora)
    model = tiny.model(scale=1.0).to(dtype)
    peft = PeftModel.from_pretrained(tiny.model(scale=1.0).to(dtype), str(tmp_path / "adapter")).merge_and_unload()
    merge_lora(model, tmp_path / "adapter")
    for name, weight in peft.state_dict().items():
        assert torch.equal(model.state_dict()[name], weight), name


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(tmp_path, batch_size):
    config = replace(CONFIG, training=replace(CONFIG.training, batch_size=batch_size))

    def killed(stage, done, of, loss):
        if stage == "Training" and done == 5:
            raise KeyboardInterrupt

    run(tmp_path / "whole", config)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", config, progress=killed)
    reported = []
    run(tmp_path / "parts", config, progress=lambda stage, done, of, loss: reported.append((stage, done)))
    assert ("Training", 5) in reported and ("Training", 4) not in reported  # resumed from the checkpoint at 4
    whole, parts = (load_file(tmp_path / name / LORA_WEIGHTS_FILE) for name in ("whole", "parts"))
    for name, weight in whole.items():
        assert_close(parts[name], weight, **EXACT)


def test_training_can_start_from_a_finished_adapter(finished, tmp_path):
    out, report = finished
    after = train_reader(decoder(), BOATS, tmp_path, CONFIG, ignore, out)
    assert (
        after["before"] == report["before"] and after["started_from"]["training_minutes"] == report["training_minutes"]
    )
    weights = (
        load_file(tmp_path / LORA_WEIGHTS_FILE),
        load_file(out / LORA_WEIGHTS_FILE),
        load_file(run_weights(tmp_path)),
    )
    near, far = (sum(float((weights[0][name] - one[name]).norm()) for name in one) for one in weights[1:])
    assert near < far


def test_an_average_is_the_mean_of_its_adapters_and_reports_them(finished, tmp_path):
    out, _ = finished
    run(tmp_path / "second", replace(CONFIG, seed=9))
    report = average_adapters(decoder(), BOATS, [out, tmp_path / "second"], tmp_path / "mean", CONFIG, ignore)
    one, two, mean = (load_file(folder / LORA_WEIGHTS_FILE) for folder in (out, tmp_path / "second", tmp_path / "mean"))
    for name, weight in mean.items():
        assert_close(weight.float(), (one[name].float() + two[name].float()) / 2, rtol=2**-7, atol=1e-6)
    assert len({part["sha256"] for part in report["averaged"]}) == 2
    assert json.loads((tmp_path / "mean" / REPORT_FILE).read_text()) == json.loads(json.dumps(report))
    assert report["judged_by"] == json.loads((out / REPORT_FILE).read_text())["judged_by"]


def run_weights(folder):
    run(folder / "from scratch")
    return folder / "from scratch" / LORA_WEIGHTS_FILE


def test_an_adapter_of_another_rank_cannot_be_started_from(finished, tmp_path):
    with pytest.raises(UnsupportedModel, match="another rank"):
        train_reader(decoder(), BOATS, tmp_path, replace(CONFIG, lora=LoraAdapterConfig(2, 4)), ignore, finished[0])
    with pytest.raises(ModelNotFound, match="cannot be read"):
        train_reader(decoder(), BOATS, tmp_path / "b", CONFIG, ignore, tmp_path / "nowhere")


def test_a_run_with_other_settings_does_not_resume(tmp_path):
    run(tmp_path)
    with pytest.raises(BadCheckpoint, match="other settings"):
        run(tmp_path, replace(CONFIG, training=replace(CONFIG.training, learning_rate=1e-4)))


def test_a_damaged_checkpoint_is_reported_and_kept(tmp_path):
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

    with pytest.raises(CheckpointNotWritten, match="No space left"):
        run(tmp_path, progress=fill)
    assert [path.name for path in tmp_path.glob("checkpoint*")] == ["checkpoint"]
    assert checkpoint.load_checkpoint(tmp_path / "checkpoint")[1]["lesson"] == 2


def test_a_run_killed_between_two_renames_still_has_a_checkpoint(tmp_path):
    checkpoint.save_checkpoint(tmp_path / "checkpoint", {"a": torch.ones(2)}, {"lesson": 1})
    (tmp_path / "checkpoint").rename(tmp_path / "checkpoint.old")
    assert checkpoint.load_checkpoint(tmp_path / "checkpoint")[1] == {"lesson": 1}


def test_documents_without_questions_get_cloze_questions(tmp_path):
    texts = [paragraph.text for paragraph in PARAGRAPHS]
    report = run(tmp_path, corpora=[Corpus("own", tuple(Paragraph(text) for text in texts * 6))])
    assert report["judged_by"]["materials"]["own"]["questions"] == 0 and report["after"]["full prefill"]["n"] > 0


def test_too_little_data_is_refused(tmp_path):
    with pytest.raises(BadCorpus, match="too few questions"):
        run(tmp_path, corpora=[Corpus("few", PARAGRAPHS[:2])])


def test_an_example_longer_than_the_context_is_refused(tmp_path):
    with pytest.raises(UnsupportedModel, match="lower --tokens"):
        run(tmp_path, replace(CONFIG, mix=replace(CONFIG.mix, max_tokens=2000)))


def test_another_seed_and_mix_are_evaluated_on_the_same_questions(finished, tmp_path):
    out, report = finished
    config = replace(CONFIG, seed=1, mix=replace(CONFIG.mix, full_prefill_fraction=0.9, synthetic_fraction=0.5))
    other = run(tmp_path / "out", config)
    assert other["before"] == report["before"] and other["judged_by"] == report["judged_by"]
    publish(tmp_path / "out", tmp_path / "assets", LORA_ADAPTER_FILES, selection_metric)
    publish(out, tmp_path / "assets", LORA_ADAPTER_FILES, selection_metric)  # neither is refused


def test_an_unusable_evaluation_of_the_base_model_is_repeated(tmp_path):
    first = run(tmp_path)["before"]
    for wrong in ("{", '{"judged_by": {}, "before": {}}'):
        (tmp_path / "before.json").write_text(wrong)
        assert run(tmp_path)["before"] == first


def test_a_worse_adapter_is_not_published(finished, tmp_path):
    out, report = finished
    assert publish(out, tmp_path / "assets", LORA_ADAPTER_FILES, selection_metric) and not publish(
        out, tmp_path / "assets", LORA_ADAPTER_FILES, selection_metric
    )
    assert sorted(path.name for path in (tmp_path / "assets").iterdir()) == sorted((*LORA_ADAPTER_FILES, REPORT_FILE))
    better = json.loads(json.dumps(report))
    better["after"]["full prefill"]["exact"] += 0.5
    (tmp_path / "assets" / REPORT_FILE).write_text(json.dumps(better))
    assert not publish(out, tmp_path / "assets", LORA_ADAPTER_FILES, selection_metric)
    better["judged_by"]["held"] = 0.7
    (tmp_path / "assets" / REPORT_FILE).write_text(json.dumps(better))
    with pytest.raises(BadCorpus, match="other questions"):
        publish(out, tmp_path / "assets", LORA_ADAPTER_FILES, selection_metric)


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda folder: (folder / LORA_WEIGHTS_FILE).unlink(), LoraAdapterUnusable, "cannot be read"),
        (lambda folder: (folder / LORA_WEIGHTS_FILE).write_bytes(b"torn"), LoraAdapterUnusable, "cannot be read"),
        (lambda folder: (folder / LORA_CONFIG_FILE).unlink(), LoraAdapterUnusable, "cannot be read"),
        (lambda folder: (folder / LORA_CONFIG_FILE).write_text("{"), LoraAdapterUnusable, "cannot be read"),
        (lambda folder: configure(folder, peft_type="LOHA"), LoraAdapterUnusable, "not a LoRA adapter"),
        (lambda folder: configure(folder, use_dora=True, bias="all"), LoraAdapterUnusable, "use_dora, bias, which"),
        (
            lambda folder: configure(folder, init_lora_weights="pissa"),
            LoraAdapterUnusable,
            "uses init_lora_weights, which",
        ),
        (lambda folder: reshape(folder, lambda t: t.repeat(1, 2)), LoraAdapterUnusable, "another shape"),
        (lambda folder: rename(folder, "layers.2", "layers.9"), LoraAdapterUnusable, "other layers"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(finished, tmp_path, damage, error, message):
    publish(finished[0], tmp_path / "bad", LORA_ADAPTER_FILES, selection_metric)
    damage(tmp_path / "bad")
    with pytest.raises(error, match=message):
        merge_lora(tiny.model(scale=1.0), tmp_path / "bad")


def configure(folder, **changes):
    path = folder / LORA_CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def reshape(folder, change):
    save_file(
        {name: change(tensor).contiguous() for name, tensor in load_file(folder / LORA_WEIGHTS_FILE).items()},
        folder / LORA_WEIGHTS_FILE,
    )


def rename(folder, old, new):
    save_file(
        {name.replace(old, new): tensor for name, tensor in load_file(folder / LORA_WEIGHTS_FILE).items()},
        folder / LORA_WEIGHTS_FILE,
    )


def test_a_run_resumes_if_a_weight_has_had_no_gradient(tmp_path):
    def trained(steps):
        layers = torch.nn.ModuleDict({"used": torch.nn.Linear(2, 1), "unused": torch.nn.Linear(2, 1)})
        config = TrainingConfig(steps, checkpoint_steps=1)
        settings = {"data": "none", **dict.fromkeys(checkpoint.to_json(config))}
        train(layers, lambda step: layers["used"](torch.ones(2)).sum(), config, tmp_path, settings, ignore, count)
        return checkpoint.load_checkpoint(tmp_path / "checkpoint")[1]["lesson"]

    assert [trained(steps) for steps in (1, 2)] == [1, 2]


def test_the_loss_is_a_mean_over_tokens():
    model, drawn = decoder(), TrainingExamples(PromptTemplate(tiny.tokenizer()), BOATS, [], CONFIG.mix, 0)
    adapter = LoraAdapter(model, CONFIG.lora)
    with torch.no_grad():
        pairs = [answer_logits(model, replace(drawn[n], is_independent=False, recomputed=())) for n in range(3)]
    logits, targets = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    found = evaluate(model, adapter, drawn, 3, ignore, "Evaluating")["full prefill"]
    assert found["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(logits, targets)), rel=1e-4)
