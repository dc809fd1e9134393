"""The token selector: its scores, token alignment, training targets, training runs and file."""

import json
import math
from dataclasses import replace
from threading import Event

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from engine.builder import LORA_ADAPTER, TOKEN_SELECTOR, ModelConfig
from engine.errors import Cancelled, TokenSelectorUnusable
from engine.model.loading.bundled import BUNDLED_MODEL
from engine.model.tokenizer import TokenizedText
from engine.prompt.template import PromptTemplate
from engine.scoring import trained_selector
from engine.scoring.trained_selector import (
    SELECTOR_FILE,
    SelectorHead,
    TokenSelector,
    align_to_pieces,
    distance_classes,
)
from tests.support import tiny
from tests.support.boats import BOATS
from tests.support.doubles import TEXTS
from tests.support.reference_prefill import assemble_kv
from tests.support.tolerance import EXACT
from training import selector as selector_training
from training import targets as training_targets
from training.checkpoint import BadCheckpoint
from training.data.corpus import BadCorpus
from training.data.examples import DataMix
from training.data.packed import PackedExample
from training.publish import REPORT_FILE, publish
from training.selector import SelectorConfig, SelectorHeadConfig, train_selector
from training.targets import benefit_share, compute_targets

QUESTION = "How many cars does the ferry carry?"
CONFIG = SelectorConfig(
    examples=8,
    eval_examples=4,
    epochs=2,
    eval_fraction=0.4,
    mix=DataMix(max_passages=3, max_tokens=300, max_questions=3),
    head=SelectorHeadConfig(2, 4),
)


def random_head(seed=0, width=32):
    torch.manual_seed(seed)
    head = SelectorHead(width, heads=3, size=4)
    for weight in head.parameters():
        weight.data = torch.randn_like(weight) * 0.3
    return head


def encode(texts):
    template = PromptTemplate(tiny.tokenizer())
    return [template.passage(text) for text in texts]


def score(selector, texts, question=QUESTION):
    return selector.score(question, texts, encode(texts))


def test_a_score_is_the_heads_attention_written_out():
    """The reference goes through heads, question tokens and context tokens one by one."""
    head, lengths = random_head().requires_grad_(False), [5, 9, 7]
    question, vectors = torch.randn(4, 32), torch.randn(21, 32)
    expected = torch.zeros(21)
    for number in range(3):
        rows = slice(4 * number, 4 * number + 4)
        vote = head.votes[number].exp() / head.votes.exp().sum()
        for token in question:
            query = head.query.weight[rows] @ token + head.query.bias[rows]
            logits = [float(query @ (head.key.weight[rows] @ vector)) / math.sqrt(4) for vector in vectors]
            total = sum(math.exp(logit) for logit in logits[5:])
            expected += vote * torch.tensor([math.exp(logit) / total for logit in logits]) / len(question)
    distances = [(at, length - 1 - at) for length in lengths for at in range(length)]
    for token, (start, end) in enumerate(distances):
        classes = [min(8, (distance + 1).bit_length() - 1) for distance in (start, end, 20 - token)]
        expected[token] *= math.exp(sum(float(head.places[kind, each]) for kind, each in enumerate(classes)))
    scores = head(question, head.key(vectors), lengths)
    assert_close(scores, expected / expected[5:].sum(), rtol=1e-4, atol=1e-6)
    assert_close(scores[5:].sum(), torch.tensor(1.0))


def test_distance_classes_double():
    start, end, question = distance_classes([4, 2]).tolist()
    assert start == [0, 1, 1, 2, 0, 1] and end == [2, 1, 1, 0, 1, 0] and question == [2, 2, 2, 1, 1, 0]
    assert distance_classes([300])[0, -1] == 8


@pytest.mark.parametrize("text", [TEXTS["ferry"], "Größe: 37 x 4  „naïve“ 🙂 cars", "12345678", "\u200b\u200b"])
def test_each_token_is_aligned_to_the_first_piece_that_ends_after_its_start(text):
    (passage,), pieces = encode([text]), tiny.encoder().tokenizer.encode(text)
    if not pieces.ids:
        pieces = TokenizedText((5,), ((0, 1),))
    expected = []
    for start, _ in passage.spans:
        later = [number for number, (_, end) in enumerate(pieces.spans) if end > start]
        expected.append(later[0] if later else len(pieces.ids) - 1)
    assert align_to_pieces(passage, pieces).tolist() == expected


def test_every_token_gets_a_score_that_depends_on_the_question():
    selector, texts = TokenSelector(tiny.encoder(), random_head()), [*TEXTS.values(), "\u200b"]
    scores = score(selector, texts)
    assert len(scores) == sum(len(passage.ids) for passage in encode(texts))
    assert (scores >= 0).all() and not torch.equal(scores, score(selector, texts, "Where do terns nest?"))
    assert torch.isfinite(score(selector, texts, "\u200b")).all()


def test_a_passage_is_encoded_once_until_it_is_forgotten(monkeypatch):
    selector, calls = TokenSelector(tiny.encoder(), random_head()), []
    embed = selector.encoder.embed
    monkeypatch.setattr(selector.encoder, "embed", lambda ids: calls.append(len(ids)) or embed(ids))
    text = TEXTS["ferry"]
    selector.warm(text, *encode([text]))
    score(selector, [f" {text}\n"])
    assert len(calls) == 2  # the passage and the question
    selector.evict(f"{text} ")
    score(selector, [text])
    assert len(calls) == 4


def test_a_full_cache_keeps_the_passages_warmed_last(monkeypatch):
    texts = list(TEXTS.values())[:3]
    passages = encode(texts)
    token_bytes = 12 * torch.float32.itemsize  # three heads of size 4
    monkeypatch.setattr(trained_selector, "MAX_CACHED_BYTES", token_bytes * sum(len(each.ids) for each in passages[1:]))
    selector, calls = TokenSelector(tiny.encoder(), random_head()), []
    for text, passage in zip(texts, passages, strict=True):
        selector.warm(text, passage)
    embed = selector.encoder.embed
    monkeypatch.setattr(selector.encoder, "embed", lambda ids: calls.append(ids) or embed(ids))
    score(selector, texts[1:])
    assert len(calls) == 1  # the question
    assert len(score(selector, texts[:1])) == len(passages[0].ids)
    assert len(calls) == 3  # the first passage was dropped


def test_a_cancelled_question_is_not_scored():
    cancel = Event()
    cancel.set()
    with pytest.raises(Cancelled):
        TokenSelector(tiny.encoder(), random_head()).score("?", ["one"], encode(["one"]), cancel)


def test_a_target_is_attention_times_deviation_by_transformers(family):
    """The target by plain forward passes: a full prefill's attention, and the deviation of assembled values."""
    prefix, passages, question = ((*range(3, 10),), ((*range(20, 50),), (*range(60, 95),)), (*range(100, 112),))
    example = PackedExample(prefix, passages, ((question, (5,)),), is_independent=True)
    (target,) = compute_targets(tiny.decoder(family), example, with_baselines=True)
    model = tiny.model(family)
    model.set_attn_implementation("eager")
    context, start, first = [*prefix, *passages[0], *passages[1]], len(prefix), len(passages[0])
    with torch.no_grad():
        full = model(torch.tensor([[*context, *question]]), output_attentions=True, use_cache=True)
    spans = (range(start, start + first), range(start + first, len(context)))
    assembled, expected = assemble_kv(model, torch.tensor(context), start, spans), torch.zeros(len(context) - start)
    for layer, attention, (_, values) in zip(full.past_key_values.layers, full.attentions, assembled, strict=True):
        exact = layer.values[0, :, start : len(context)]
        deviation = (exact - values[0, :, start:]).norm(dim=-1).mean(0) / exact.norm(dim=-1).mean()
        deviation[:first] = 0
        expected += attention[0, :, -len(question) :].mean(dim=(0, 1))[start : len(context)] * deviation
    assert_close(target.benefit, expected / expected.sum(), rtol=1e-3, atol=1e-5)
    assert_close(target.baselines["joint"].sum(), torch.tensor(1.0), rtol=0, atol=1e-4)


def test_training_approaches_the_targets():
    """Targets made by one head are learned by another that starts from zero."""
    teacher, encoder = random_head(seed=3), tiny.encoder()
    examples = []
    for number in range(12):
        texts = [f"{text} Note {number}." for text in TEXTS.values()]
        lengths = [len(passage.ids) for passage in encode(texts)]
        vectors = torch.cat([encoder.embed(encoder.tokenizer.encode(text).ids) for text in texts])
        vectors = vectors[torch.arange(sum(lengths)) % len(vectors)]
        questions = [
            encoder.embed(encoder.tokenizer.encode(f"{QUESTION} {number} {word}").ids).half() for word in ("one", "two")
        ]
        with torch.no_grad():
            benefits = [teacher(question.float(), teacher.key(vectors), lengths) for question in questions]
        for benefit in benefits:
            benefit[: lengths[0]] = 0
        examples.append(selector_training.EncodedExample(vectors.half(), lengths, questions, benefits))
    torch.manual_seed(7)
    student = SelectorHead(32, heads=3, size=4)
    loss_of = selector_training.make_loss(student, examples, seed=0)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-2)

    def mean_share(scores_of):
        with torch.no_grad():
            shares = [
                benefit_share(benefit, scores_of(example, question, benefit), example.lengths)
                for example in examples
                for question, benefit in zip(example.questions, example.benefits, strict=True)
            ]
        return sum(shares) / len(shares)

    def student_scores(example, question, benefit):
        return student(question.float(), student.key(example.vectors.float()), example.lengths)

    before = mean_share(student_scores)
    for step in range(150):
        optimizer.zero_grad()
        loss_of(step).backward()
        optimizer.step()
    best = mean_share(lambda example, question, benefit: benefit)
    assert mean_share(student_scores) > before + 0.5 * (best - before)


def ignore_progress(*args):
    """A progress callback that does nothing."""


def test_training_evaluates_its_selector_and_publishes_only_a_better_one(tmp_path):
    report = train_selector(tiny.decoder(), tiny.encoder(), BOATS, tmp_path / "out", CONFIG, ignore_progress)
    shares, metric = report["agreement"], selector_training.selection_metric
    assert set(shares) == {"target", "selector", "joint", "last layer", "random"}
    assert 0 < shares["selector"] <= shares["target"] <= 1 and report["questions"]["judged"] > 0
    assert TokenSelector.load(tmp_path / "out", tiny.encoder()).num_parameters > 0
    assert publish(tmp_path / "out", tmp_path / "assets", (SELECTOR_FILE,), metric)
    assert not publish(tmp_path / "out", tmp_path / "assets", (SELECTOR_FILE,), metric)
    assert json.loads((tmp_path / "assets" / REPORT_FILE).read_text()) == json.loads(json.dumps(report))
    for seed in (0, 1):  # the same questions, but the benefit for one model says nothing about another
        other, out = tiny.decoder(tiny.qwen2 if seed == 0 else tiny.llama, seed=seed), tmp_path / f"other{seed}"
        train_selector(other, tiny.encoder(), BOATS, out, CONFIG, ignore_progress)
        with pytest.raises(BadCorpus):
            publish(out, tmp_path / "assets", (SELECTOR_FILE,), metric)


def test_interrupted_training_resumes_with_the_same_result(tmp_path, monkeypatch):
    monkeypatch.setattr(training_targets, "CHECKPOINT_EXAMPLES", 2)
    monkeypatch.setattr(selector_training, "CHECKPOINT_STEPS", 3)

    def run(out, progress=ignore_progress, config=CONFIG):
        train_selector(tiny.decoder(), tiny.encoder(), BOATS, out, config, progress)

    run(tmp_path / "whole")
    for stop_stage, stop_at in (("Computing targets", 5), ("Training", 7)):

        def interrupt(stage, done, total, loss, stop=(stop_stage, stop_at)):
            if (stage, done) == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "killed", interrupt)
    steps = []
    run(tmp_path / "killed", lambda stage, done, *_: steps.append((stage, done)))
    assert not any(stage == "Computing targets" for stage, _ in steps)
    assert ("Training", 7) in steps and ("Training", 3) not in steps
    whole, resumed = (load_file(tmp_path / name / SELECTOR_FILE) for name in ("whole", "killed"))
    for name, weight in whole.items():
        assert_close(resumed[name], weight, **EXACT)
    run(tmp_path / "killed", config=replace(CONFIG, eval_examples=2))  # evaluation does not affect training
    with pytest.raises(BadCheckpoint, match=r"killed.checkpoint was made with other settings"):
        run(tmp_path / "killed", config=replace(CONFIG, epochs=3))
    with pytest.raises(BadCheckpoint):
        run(tmp_path / "killed", config=replace(CONFIG, seed=1))
    with pytest.raises(BadCheckpoint):  # another model of the same name, as with and without an adapter
        train_selector(tiny.decoder(seed=1), tiny.encoder(), BOATS, tmp_path / "killed", CONFIG, ignore_progress)


def test_a_selector_is_restored_from_its_file(tmp_path):
    head = random_head()
    for weight in head.parameters():
        weight.data = weight.bfloat16().float()
    selector, texts = TokenSelector(tiny.encoder(), head), list(TEXTS.values())
    selector.save(tmp_path)
    assert_close(score(TokenSelector.load(tmp_path, tiny.encoder()), texts), score(selector, texts), **EXACT)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_an_unusable_selector_file_is_rejected(tmp_path):
    with pytest.raises(TokenSelectorUnusable, match="selector"):
        TokenSelector.load(tmp_path, tiny.encoder())
    (tmp_path / SELECTOR_FILE).write_bytes(b"torn")
    with pytest.raises(TokenSelectorUnusable, match="selector"):
        TokenSelector.load(tmp_path, tiny.encoder())
    for tensors in (
        {},
        {"votes": torch.zeros(2)},
        dict(SelectorHead(16, 2, 4).state_dict()),
        {**SelectorHead(32, 2, 4).state_dict(), "more": torch.zeros(1)},
        {**SelectorHead(32, 2, 4).state_dict(), "votes": torch.tensor(1.0)},
        {**SelectorHead(32, 2, 4).state_dict(), "key.weight": torch.zeros(0)},
    ):
        save_file(tensors, tmp_path / SELECTOR_FILE)
        with pytest.raises(TokenSelectorUnusable, match="trained for another encoder or version"):
            TokenSelector.load(tmp_path, tiny.encoder())


def test_our_trained_files_are_used_for_the_bundled_model_only(tmp_path):
    default = ModelConfig(tmp_path)
    assert (default.lora_folder, default.token_selector_folder) == (LORA_ADAPTER, TOKEN_SELECTOR)
    other = ModelConfig(tmp_path, model="Qwen/Qwen3-0.6B")
    assert other.auxiliary_model == BUNDLED_MODEL and other.lora_folder is None and other.token_selector_folder is None
    plain = ModelConfig(tmp_path, lora_adapter="off")
    assert plain.lora_folder is None and plain.token_selector_folder is None  # trained on the adapter's attention
    own = ModelConfig(tmp_path, lora_adapter=str(tmp_path), token_selector=str(tmp_path))
    assert own.lora_folder == own.token_selector_folder == tmp_path
    assert ModelConfig(tmp_path, token_selector="off").token_selector_folder is None
