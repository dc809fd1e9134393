"""A selector: what its heads say, where its tokens lie, what it is trained towards, and its file."""

import json
import math
from dataclasses import replace
from threading import Event

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from engine.builder import READER, SELECTOR, ModelConfig
from engine.errors import Cancelled, SelectorUnusable
from engine.model.loading.bundled import NAME
from engine.model.tokenizer import Encoded
from engine.prompt.template import Prompt
from engine.scoring.trained_selector import FILE, SelectorHead, TokenSelector, load_token_selector, piece_of, places
from tests.support import tiny
from tests.support.doubles import TEXTS
from tests.support.reference_prefill import assembled
from tests.support.tolerance import EXACT
from tests.training.test_training import BOATS
from training import selector as finetuning
from training import targets as reading
from training.checkpoint import BadCheckpoint
from training.data.corpus import BadCorpus
from training.data.examples import DataMix
from training.data.packed import PackedExample
from training.publish import REPORT, publish
from training.selector import HeadsConfig, SelectorConfig, train_selector
from training.targets import held, targets

QUESTION = "How many cars does the ferry carry?"
CONFIG = SelectorConfig(
    lessons=8, judged=4, rounds=2, held=0.4, mix=DataMix(passages=3, tokens=300, questions=3), heads=HeadsConfig(2, 4)
)


def heads(seed=0, width=32):
    torch.manual_seed(seed)
    made = SelectorHead(width, heads=3, size=4)
    for weight in made.parameters():
        weight.data = torch.randn_like(weight) * 0.3
    return made


def scored(selector, texts, question=QUESTION):
    prompt = Prompt(tiny.tokenizer())
    return selector.score(question, texts, [prompt.passage(text) for text in texts])


def test_a_score_is_what_the_heads_point_at_written_out():
    """The reference goes through heads, question tokens and context tokens one by one."""
    made, lengths = heads().requires_grad_(False), [5, 9, 7]
    asked, vectors = torch.randn(4, 32), torch.randn(21, 32)
    expected = torch.zeros(21)
    for head in range(3):
        rows = slice(4 * head, 4 * head + 4)
        vote = made.votes[head].exp() / made.votes.exp().sum()
        for token in asked:
            query = made.query.weight[rows] @ token + made.query.bias[rows]
            points = [float(query @ (made.key.weight[rows] @ vector)) / math.sqrt(4) for vector in vectors]
            whole = sum(math.exp(point) for point in points[5:])
            expected += vote * torch.tensor([math.exp(point) / whole for point in points]) / len(asked)
    spots = [(at, length - 1 - at) for length in lengths for at in range(length)]
    for number, (start, end) in enumerate(spots):
        classes = [min(8, (distance + 1).bit_length() - 1) for distance in (start, end, 20 - number)]
        expected[number] *= math.exp(sum(float(made.places[kind, one]) for kind, one in enumerate(classes)))
    found = made(asked, made.key(vectors), lengths)
    assert_close(found, expected / expected[5:].sum(), rtol=1e-4, atol=1e-6)
    assert_close(found[5:].sum(), torch.tensor(1.0))


def test_where_a_token_stands_is_told_in_doubling_distances():
    start, end, question = places([4, 2]).tolist()
    assert start == [0, 1, 1, 2, 0, 1] and end == [2, 1, 1, 0, 1, 0] and question == [2, 2, 2, 1, 1, 0]
    assert places([300])[0, -1] == 8


@pytest.mark.parametrize("text", [TEXTS["ferry"], "Größe: 37 x 4  „naïve“ 🙂 cars", "12345678", "\u200b\u200b"])
def test_each_token_gets_the_first_piece_that_reaches_into_it(text):
    passage, read = Prompt(tiny.tokenizer()).passage(text), tiny.encoder().tokens.encode(text)
    if not read.ids:
        read = Encoded((5,), ((0, 1),))
    expected = []
    for start, _ in passage.spans:
        behind = [number for number, (_, end) in enumerate(read.spans) if end > start]
        expected.append(behind[0] if behind else len(read.ids) - 1)
    assert piece_of(passage, read).tolist() == expected


def test_scores_come_one_for_each_token_and_depend_on_the_question():
    selector, texts = TokenSelector(tiny.encoder(), heads()), [*TEXTS.values(), "\u200b"]
    prompt = Prompt(tiny.tokenizer())
    found = scored(selector, texts)
    assert len(found) == sum(len(prompt.passage(text).ids) for text in texts)
    assert (found >= 0).all() and not torch.equal(found, scored(selector, texts, "Where do terns nest?"))
    assert torch.isfinite(scored(selector, texts, "\u200b")).all()


def test_a_passage_is_read_once_and_forgotten_when_asked(monkeypatch):
    selector, read = TokenSelector(tiny.encoder(), heads()), []
    vectors = selector.encoder.vectors
    monkeypatch.setattr(selector.encoder, "vectors", lambda ids: read.append(len(ids)) or vectors(ids))
    first = next(iter(TEXTS.values()))
    selector.warm(first, Prompt(tiny.tokenizer()).passage(first))
    scored(selector, [f" {first}\n"])
    assert len(read) == 2  # the passage and the question
    selector.forget(f"{first} ")
    scored(selector, [first])
    assert len(read) == 4


def test_a_long_document_makes_no_keys_that_nothing_could_hold(monkeypatch):
    monkeypatch.setattr("engine.scoring.trained_selector.HELD", 2)
    selector, prompt = TokenSelector(tiny.encoder(), heads()), Prompt(tiny.tokenizer())
    first, second, third = list(TEXTS.values())[:3]
    for text in (first, second, third):
        selector.warm(text, prompt.passage(text))
    assert list(selector._passage._held) == [first.strip(), second.strip()]
    assert len(scored(selector, [third])) == len(prompt.passage(third).ids)


def test_a_stopped_question_is_not_scored():
    stopped = Event()
    stopped.set()
    prompt = Prompt(tiny.tokenizer())
    with pytest.raises(Cancelled):
        TokenSelector(tiny.encoder(), heads()).score("?", ["one"], [prompt.passage("one")], stopped)


def test_a_target_is_attention_times_deviation_by_transformers(family):
    """The target by plain forward passes: a full prefill's attention, and how far assembled values lie from its own."""
    made = tiny.decoder(family)
    prefix, passages, question = ((*range(3, 10),), ((*range(20, 50),), (*range(60, 95),)), (*range(100, 112),))
    (found,) = targets(made, PackedExample(prefix, passages, ((question, (5,)),), apart=True), compared=True)
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
    assert_close(found.helps, expected / expected.sum(), rtol=1e-3, atol=1e-5)
    assert_close(found.others["joint"].sum(), torch.tensor(1.0), rtol=0, atol=1e-4)


def test_training_points_at_what_the_targets_point_at():
    """Targets that a selector made are found again by one that starts from nothing."""
    teacher, encoder, prompt = heads(seed=3), tiny.encoder(), Prompt(tiny.tokenizer())
    lessons = []
    for number in range(12):
        texts = [f"{text} Note {number}." for text in TEXTS.values()]
        lengths = [len(prompt.passage(text).ids) for text in texts]
        vectors = torch.cat([encoder.vectors(encoder.tokens.encode(text).ids) for text in texts])
        vectors = vectors[torch.arange(sum(lengths)) % len(vectors)]
        asked = [
            encoder.vectors(encoder.tokens.encode(f"{QUESTION} {number} {word}").ids).half() for word in ("one", "two")
        ]
        with torch.no_grad():
            helps = [teacher(one.float(), teacher.key(vectors), lengths) for one in asked]
        for one in helps:
            one[: lengths[0]] = 0
        lessons.append(finetuning.Read(vectors.half(), lengths, asked, helps))
    torch.manual_seed(7)
    pupil = SelectorHead(32, heads=3, size=4)
    loss_of = finetuning._loss_of(pupil, lessons, seed=0)
    optimizer = torch.optim.AdamW(pupil.parameters(), lr=1e-2)

    def share():
        with torch.no_grad():
            return sum(
                held(helps, pupil(asked.float(), pupil.key(read.vectors.float()), read.lengths), read.lengths)
                for read in lessons
                for asked, helps in zip(read.asked, read.helps, strict=True)
            ) / (2 * len(lessons))

    before = share()
    for step in range(150):
        optimizer.zero_grad()
        loss_of(step).backward()
        optimizer.step()
    best = sum(held(h, h, read.lengths) for read in lessons for h in read.helps) / (2 * len(lessons))
    assert share() > before + 0.5 * (best - before)


def test_a_finetune_judges_its_selector_and_ships_only_a_better_one(tmp_path):
    report = train_selector(tiny.decoder(), tiny.encoder(), BOATS, tmp_path / "out", CONFIG, lambda *said: None)
    shares = report["agreement"]
    assert set(shares) == {"target", "selector", "joint", "last layer", "random"}
    assert 0 < shares["selector"] <= shares["target"] <= 1 and report["questions"]["judged"] > 0
    assert load_token_selector(tmp_path / "out", tiny.encoder()).parameters > 0
    assert publish(tmp_path / "out", tmp_path / "assets", (FILE,), finetuning.merit)
    assert not publish(tmp_path / "out", tmp_path / "assets", (FILE,), finetuning.merit)
    assert json.loads((tmp_path / "assets" / REPORT).read_text()) == json.loads(json.dumps(report))
    for seed in (0, 1):  # the same questions, but what helps this model says nothing of that one
        other, out = tiny.decoder(tiny.qwen2 if seed == 0 else tiny.llama, seed=seed), tmp_path / f"other{seed}"
        train_selector(other, tiny.encoder(), BOATS, out, CONFIG, lambda *said: None)
        with pytest.raises(BadCorpus):
            publish(out, tmp_path / "assets", (FILE,), finetuning.merit)


def test_a_finetune_that_was_killed_goes_on_and_ends_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "EVERY", 2)
    monkeypatch.setattr(finetuning, "EVERY", 3)
    run = lambda out, progress=lambda *said: None, config=CONFIG: train_selector(  # noqa: E731
        tiny.decoder(), tiny.encoder(), BOATS, out, config, progress
    )
    run(tmp_path / "whole")
    for stage, at in (("Reading", 5), ("Training", 7)):

        def killed(said, done, of, loss, stage=stage, at=at):
            if (said, done) == (stage, at):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "killed", killed)
    seen = []
    run(tmp_path / "killed", lambda said, done, *_: seen.append((said, done)))
    assert not any(said == "Reading" for said, _ in seen) and ("Training", 7) in seen and ("Training", 3) not in seen
    whole, again = (load_file(tmp_path / name / FILE) for name in ("whole", "killed"))
    for name, weight in whole.items():
        assert_close(again[name], weight, **EXACT)
    run(tmp_path / "killed", config=replace(CONFIG, judged=2))  # which questions judge it changes nothing of these
    with pytest.raises(BadCheckpoint, match=r"killed.checkpoint was made with other settings"):
        run(tmp_path / "killed", config=replace(CONFIG, rounds=3))
    with pytest.raises(BadCheckpoint):
        run(tmp_path / "killed", config=replace(CONFIG, seed=1))
    with pytest.raises(BadCheckpoint):  # another model by the same name, as with and without an adapter
        train_selector(tiny.decoder(seed=1), tiny.encoder(), BOATS, tmp_path / "killed", CONFIG, lambda *said: None)


def test_a_selector_comes_back_from_its_file(tmp_path):
    rounded = heads()
    for weight in rounded.parameters():
        weight.data = weight.bfloat16().float()
    made = TokenSelector(tiny.encoder(), rounded)
    made.save(tmp_path)
    texts = list(TEXTS.values())
    assert_close(scored(load_token_selector(tmp_path, tiny.encoder()), texts), scored(made, texts), **EXACT)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_selector_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(SelectorUnusable, match="selector"):
        load_token_selector(tmp_path, tiny.encoder())
    (tmp_path / FILE).write_bytes(b"torn")
    with pytest.raises(SelectorUnusable, match="selector"):
        load_token_selector(tmp_path, tiny.encoder())
    for named in (
        {},
        {"votes": torch.zeros(2)},
        dict(SelectorHead(16, 2, 4).state_dict()),
        {**SelectorHead(32, 2, 4).state_dict(), "more": torch.zeros(1)},
        {**SelectorHead(32, 2, 4).state_dict(), "votes": torch.tensor(1.0)},
        {**SelectorHead(32, 2, 4).state_dict(), "key.weight": torch.zeros(0)},
    ):
        save_file(named, tmp_path / FILE)
        with pytest.raises(SelectorUnusable, match="another --selector"):
            load_token_selector(tmp_path, tiny.encoder())


def test_ours_are_taken_for_the_embedded_model_only(tmp_path):
    assert (ModelConfig(tmp_path).adapter, ModelConfig(tmp_path).heads) == (READER, SELECTOR)
    other = ModelConfig(tmp_path, model="Qwen/Qwen3-0.6B")
    assert other.auxiliary == NAME and other.adapter is None and other.heads is None
    plain = ModelConfig(tmp_path, reader="off")
    assert plain.adapter is None and plain.heads is None  # trained on what the reader looks at
    own = ModelConfig(tmp_path, reader=str(tmp_path), selector=str(tmp_path))
    assert own.adapter == own.heads == tmp_path
    assert ModelConfig(tmp_path, selector="off").heads is None
