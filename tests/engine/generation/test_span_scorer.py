"""A pointer: what its layers say, what its training teaches, its file, and what it does to an answer's worth."""

import copy
import json
import statistics
from dataclasses import replace
from threading import Event

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from engine.builder import SPAN_SCORER, ModelConfig, fetch_models
from engine.errors import Cancelled, SpanScorerUnusable
from engine.generation.grounded_sampler import GroundingModel
from engine.generation.grounding import MAX_SPAN_PENALTY, SPAN_WEIGHT, SENTENCE_WEIGHT, QuoteState, SentenceScores
from engine.generation.span_scorer import (
    MAX_QUESTION_TOKENS,
    SPAN_SCORER_FILE,
    SpanScorer,
    SpanScorerNet,
    SpanScores,
    char_log_odds,
    encode_text,
    load_span_scorer,
    pad_batch,
)
from engine.prompt.template import NO_ANSWER, PromptTemplate
from tests.support import tiny
from tests.support.doubles import TEXTS, engine
from tests.support.tolerance import EXACT
from tests.training.test_training import BOATS
from training import span_scorer as finetuning
from training.checkpoint import BadCheckpoint
from training.data.corpus import BadCorpus, Corpus, Paragraph
from training.data.examples import DataMix, TrainingExamples
from training.loop import TrainingConfig
from training.publish import REPORT, publish
from training.span_scorer import NetConfig, SpanScorerConfig, train_span_scorer

QUESTION = "How many cars does the ferry carry?"
CONFIG = SpanScorerConfig(
    judged=6,
    held=0.4,
    mix=DataMix(passages=3, tokens=300, questions=3, absent=0.0),
    training=TrainingConfig(8, 1e-2, 2, 3),
    net=NetConfig(16),
)


def net(seed=0, size=16):
    torch.manual_seed(seed)
    made = SpanScorerNet(64, 2, size, 300)
    for weight in made.parameters():
        weight.data = torch.randn_like(weight) * 0.3
    made.rarity.copy_(torch.rand(300))
    return made


def pointer(seed=0):
    return SpanScorer(tiny.encoder(1, 2), net(seed))


def read(*texts):
    return [encode_text(tiny.encoder(1, 2), text) for text in texts]


def test_likeness_is_cosines_and_shared_pieces_written_out():
    """The reference goes through the pieces of passage and question one by one."""
    made, (passage, other, asked) = net(), read("The ferry carries 37 cars.", "Terns nest.", "How many cars?")
    found = made.match_features(pad_batch([passage, other]), pad_batch([asked, asked]))
    halves = [[text.vectors[:, :32].float(), text.vectors[:, 32:].float()] for text in (passage, asked)]
    cosine = torch.nn.functional.cosine_similarity
    table = [[[float(cosine(p, q, 0)) for q in halves[1][part]] for p in halves[0][part]] for part in (0, 1)]
    near = sum(max(row[at] for row in table[1]) for at in range(len(asked.pieces.ids))) / len(asked.pieces.ids)
    for number, piece in enumerate(passage.pieces.ids):
        rare = 0.1 * float(made.rarity[piece]) if piece in asked.pieces.ids else 0.0
        expected = [max(table[0][number]), max(table[1][number]), rare, 5 * near - 3]
        assert_close(found[0, number], torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_what_stands_beside_a_passage_changes_nothing_in_it():
    made, texts = net().eval(), read(*TEXTS.values())
    (asked,) = read(QUESTION)
    with torch.no_grad():
        together = made(pad_batch(texts), pad_batch([asked] * len(texts)))
        for row, text in zip(together, texts, strict=True):
            alone = made(pad_batch([text]), pad_batch([asked]))[0]
            assert_close(row[: len(alone)], alone, rtol=1e-4, atol=1e-5)
            assert (row[len(alone) :] == -torch.inf).all()


def test_the_likeliest_piece_of_all_passages_is_at_zero_and_the_question_decides_which():
    made, texts = pointer(), list(TEXTS.values())
    found = made.score(QUESTION, texts)
    assert max(float(one.log_odds.max()) for one in found) == 0.0
    assert [len(one.log_odds) for one in found] == [len(one.spans) for one in found]
    assert all(text[start:end].strip() for one, text in zip(found, texts, strict=True) for start, end in one.spans)
    other = made.score("Where do terns nest?", texts)
    assert any(not torch.equal(one.log_odds, two.log_odds) for one, two in zip(found, other, strict=True))


@pytest.mark.parametrize(
    ("question", "texts"), [("", ["one"]), (QUESTION, []), (QUESTION, [""]), ("\u200b", ["", "x"])]
)
def test_nothing_asked_and_nothing_to_read_point_nowhere(question, texts):
    found = pointer().score(question, texts)
    assert len(found) == len(texts) and all((one.log_odds == 0.0).all() for one in found)


def test_only_the_end_of_a_long_question_is_asked():
    made, texts = pointer(), list(TEXTS.values())
    end = " ".join(["ferry"] * MAX_QUESTION_TOKENS)
    long, longer, other = (made.score(question, texts) for question in (end, f"Terns. {end}", f"{end} terns"))
    for one, two, three in zip(long, longer, other, strict=True):
        assert_close(one.log_odds, two.log_odds, **EXACT)
        assert not torch.equal(one.log_odds, three.log_odds)


def test_pointing_can_be_stopped():
    stopped = Event()
    stopped.set()
    with pytest.raises(Cancelled):
        pointer().score(QUESTION, list(TEXTS.values()), stopped)


def test_a_passage_is_read_once_and_forgotten_when_asked(monkeypatch):
    made, read_ids = pointer(), []
    vectors = made.encoder.embed
    monkeypatch.setattr(made.encoder, "embed", lambda ids: read_ids.append(len(ids)) or vectors(ids))
    grounds, text = GroundingModel(made), next(iter(TEXTS.values()))
    grounds.warm(text, PromptTemplate(tiny.tokenizer()).passage(text))
    made.score(QUESTION, [text.strip()])
    assert len(read_ids) == 2  # the passage and the question
    grounds.forget(f"{text} ")
    made.score(QUESTION, [text.strip()])
    assert len(read_ids) == 4
    grounds.clear()
    made.score(QUESTION, [text.strip()])
    assert len(read_ids) == 6


def test_nothing_is_warmed_where_no_more_is_held(monkeypatch):
    pieces = len(read("37 cars.")[0].pieces.ids)
    monkeypatch.setattr("engine.generation.span_scorer.CACHE_TOKENS", pieces)
    made, text = pointer(), TEXTS["ferry"]
    made._passages("37 cars.")
    GroundingModel(made).warm(text, PromptTemplate(tiny.tokenizer()).passage(text))
    assert made._passages.keys() == ["37 cars."]


def test_an_engine_reads_what_is_warmed_and_drops_what_is_forgotten():
    made, text = engine("ferry", "tern", grounding=GroundingModel(pointer())), TEXTS["ferry"]
    made.passages.warm(text)
    assert made.grounding.span_scorer._passages.keys() == [text.strip()]
    made.passages.forget(text)
    assert not len(made.grounding.span_scorer._passages)


def test_characters_get_what_is_said_of_their_pieces_however_they_are_spaced():
    passages = ("a  bc\n\nd", "", "ef")
    pointed = [
        SpanScores([(0, 1), (3, 5), (7, 8)], torch.tensor([-1.0, -2.0, -3.0])),
        SpanScores([], torch.zeros(0)),
        SpanScores([(1, 2)], torch.tensor([0.0])),
    ]
    inf = float("inf")
    pointed[0] = SpanScores([*pointed[0].spans, (3, 5)], torch.tensor([-1.0, -2.0, -3.0, -9.0]))  # two of one character
    assert char_log_odds("a bc d ef", passages, pointed) == [-1.0, -inf, -2.0, -2.0, -inf, -3.0, -inf, -inf, 0.0]


def worth(grounding, text):
    return grounding.after(QuoteState(), text).worth


def test_within_a_sentence_a_word_is_worth_what_is_pointed_at():
    """By hand: all words stand in one sentence, so that only the pointer tells them apart."""
    text = "The ferry costs 14 euros or 12."
    spans = [(0, 3), (4, 9), (10, 15), (16, 18), (19, 24), (25, 27), (28, 30)]
    nats = torch.tensor([-50.0, -9.0, -4.0, -1.0, -2.0, -7.0, 0.0])
    grounding = SentenceScores((text,), "What does it cost?", None, [SpanScores(spans, nats)])
    most = SPAN_WEIGHT / SENTENCE_WEIGHT
    for word, below in {
        "12": 0.0,
        "14": 1.0,
        "14 euros": 2.0,
        "costs": 4.0,
        "or": MAX_SPAN_PENALTY,
        "The": MAX_SPAN_PENALTY / 2,
    }.items():
        assert worth(grounding, word) == pytest.approx(-most * below), word
    assert grounding.min_score == pytest.approx(-most * MAX_SPAN_PENALTY) == worth(grounding, "13")
    assert grounding.end_score(grounding.advance(QuoteState(), "14")) == pytest.approx(-most)


def test_pointing_adds_to_what_the_sentence_is_worth():
    passages = ("The night ferry costs 14 euros. A ticket for dogs is 6 euros.",)
    plain = SentenceScores(passages, "What does the night ferry cost?")
    spans = [(0, len(passages[0]))]
    same = SentenceScores(passages, "What does the night ferry cost?", None, [SpanScores(spans, torch.zeros(1))])
    for text in ("14", "6 euros", "night", "A ticket"):
        assert worth(same, text) == pytest.approx(worth(plain, text)), text
    assert same.min_score == pytest.approx(plain.min_score - SPAN_WEIGHT / SENTENCE_WEIGHT * MAX_SPAN_PENALTY)


def test_a_refusal_loses_half_of_what_a_word_can_and_only_at_its_first_word():
    passages = ("The night ferry costs 14 euros. A ticket for dogs is 6 euros.",)
    spans, nats = [(25, 27), (50, 51)], torch.tensor([0.0, -3.0])
    for asked in ("What does the night ferry cost?", "Who sings?"):
        plain, led = SentenceScores(passages, asked), SentenceScores(passages, asked, None, [SpanScores(spans, nats)])
        for end in range(1, len(NO_ANSWER) + 1):
            lost = MAX_SPAN_PENALTY / 2 * SPAN_WEIGHT / SENTENCE_WEIGHT if " " not in NO_ANSWER[:end].strip() else 0.0
            assert worth(led, NO_ANSWER[:end]) == pytest.approx(worth(plain, NO_ANSWER[:end]) - lost), NO_ANSWER[:end]
        assert led.end_score(QuoteState(NO_ANSWER, (), worth(led, NO_ANSWER))) == 0.0
        assert worth(led, "A") == pytest.approx(worth(plain, "A") - MAX_SPAN_PENALTY * SPAN_WEIGHT / SENTENCE_WEIGHT)


def test_an_answers_places_are_whole_words_in_any_passage():
    texts = ["Bern and Bernese. BERN!", "In Bern."]
    places = finetuning._places(read(*texts), texts, "Bern")
    assert [
        (number, texts[number][read(texts[number])[0].pieces.spans[pieces[0]][0] :][:4]) for number, pieces in places
    ] == [
        (0, "Bern"),
        (0, "BERN"),
        (1, "Bern"),
    ]
    assert finetuning._places(read(*texts), texts, "ern") == []


def test_training_points_at_what_answers():
    """Facts of one shape: what answers is the number behind the name that is asked for."""
    facts = [(f"boat{number}", str(100 + 7 * number)) for number in range(12)]
    told = tuple(
        Paragraph(f"The {name} carries {cars} cars.", ((f"How many cars does the {name} carry?", cars),))
        for name, cars in facts
    )
    lessons = TrainingExamples(
        PromptTemplate(tiny.tokenizer()), [Corpus("facts", told)], [], DataMix(passages=3, absent=0.0, records=0.0), 0
    )
    torch.manual_seed(0)
    made = SpanScorerNet(64, 2, 16, 300)
    loss_of = finetuning._loss_of(made, lessons, finetuning._Reading(tiny.encoder(1, 2)), 0)
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-2)

    def share():
        pointing = SpanScorer(tiny.encoder(1, 2), copy.deepcopy(made))
        return statistics.fmean(finetuning._right(pointing, lessons, 20, lambda *said: None))

    untaught, before = share(), float(sum(loss_of(number).detach() for number in range(200, 210))) / 10
    for number in range(250):
        optimizer.zero_grad()
        loss_of(number).backward()
        optimizer.step()
    made.eval()
    assert float(sum(loss_of(number).detach() for number in range(200, 210))) / 10 < before / 2
    assert share() > 0.6 > 2 * untaught


def test_a_finetune_judges_its_pointer_and_ships_only_a_better_one(tmp_path):
    prompt = PromptTemplate(tiny.tokenizer())
    report = train_span_scorer(tiny.encoder(1, 2), prompt, BOATS, tmp_path / "out", CONFIG, lambda *said: None)
    assert 0 <= report["right"] <= 1 and report["questions"] > 0
    assert load_span_scorer(tmp_path / "out", tiny.encoder(1, 2)).num_parameters > 0
    assert publish(tmp_path / "out", tmp_path / "assets", (SPAN_SCORER_FILE,), finetuning.merit)
    assert not publish(tmp_path / "out", tmp_path / "assets", (SPAN_SCORER_FILE,), finetuning.merit)
    assert json.loads((tmp_path / "assets" / REPORT).read_text()) == json.loads(json.dumps(report))
    with pytest.raises(BadCorpus, match="too few questions"):
        train_span_scorer(tiny.encoder(1, 2), prompt, BOATS[:1], tmp_path / "o", replace(CONFIG, held=0.0), print)


def test_a_finetune_that_was_killed_goes_on_and_ends_the_same(tmp_path):
    def run(name, progress=lambda *said: None, config=CONFIG):
        train_span_scorer(tiny.encoder(1, 2), PromptTemplate(tiny.tokenizer()), BOATS, tmp_path / name, config, progress)

    def killed(said, done, of, loss):
        if (said, done) == ("Training", 5):
            raise KeyboardInterrupt

    run("whole")
    with pytest.raises(KeyboardInterrupt):
        run("killed", killed)
    seen = []
    run("killed", lambda said, done, *_: seen.append((said, done)))
    assert ("Training", 4) in seen and ("Training", 3) not in seen
    whole, again = (load_file(tmp_path / name / SPAN_SCORER_FILE) for name in ("whole", "killed"))
    assert whole.keys() == again.keys() and (whole["rarity"] > 0).any()
    for name, weight in whole.items():
        assert_close(again[name], weight, **EXACT)
    with pytest.raises(BadCheckpoint, match="made with other settings"):
        run("killed", config=replace(CONFIG, seed=1))


def test_a_pointer_comes_back_from_its_file(tmp_path):
    rounded = net()
    for weight in (*rounded.parameters(), rounded.rarity):
        weight.data = weight.bfloat16().float()
    made = SpanScorer(tiny.encoder(1, 2), rounded)
    made.save(tmp_path)
    again = load_span_scorer(tmp_path, tiny.encoder(1, 2))
    for one, two in zip(made.score(QUESTION, ["37 cars."]), again.score(QUESTION, ["37 cars."]), strict=True):
        assert_close(one.log_odds, two.log_odds, **EXACT)


def test_a_pointer_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(SpanScorerUnusable, match="span scorer"):
        load_span_scorer(tmp_path, tiny.encoder(1, 2))
    (tmp_path / SPAN_SCORER_FILE).write_bytes(b"torn")
    with pytest.raises(SpanScorerUnusable, match="span scorer"):
        load_span_scorer(tmp_path, tiny.encoder(1, 2))
    whole = net().state_dict()
    torn = {name: weight for name, weight in whole.items() if name != "norm.bias"}
    short, thin = {**whole, "rarity": torch.zeros(3)}, {**whole, "points.weight": torch.zeros(1, 6)}
    more, flat = {**whole, "more": torch.zeros(1)}, {**whole, "points.weight": torch.tensor(1.0)}
    for named in ({}, torn, more, flat, short, thin):
        save_file(named, tmp_path / SPAN_SCORER_FILE)
        with pytest.raises(SpanScorerUnusable, match="another --span-scorer"):
            load_span_scorer(tmp_path, tiny.encoder(1, 2))
    save_file(whole, tmp_path / SPAN_SCORER_FILE)
    with pytest.raises(SpanScorerUnusable):
        load_span_scorer(tmp_path, tiny.encoder())  # of one layer


def test_a_pointer_goes_with_a_reader(tmp_path):
    assert ModelConfig(tmp_path).span_scorer_folder == SPAN_SCORER == ModelConfig(tmp_path, model="other", lora_adapter="own").span_scorer_folder
    assert ModelConfig(tmp_path, lora_adapter="off").span_scorer_folder is ModelConfig(tmp_path, model="other").span_scorer_folder is None
    assert ModelConfig(tmp_path, span_scorer="off").span_scorer_folder is None
    assert ModelConfig(tmp_path, span_scorer=str(tmp_path)).span_scorer_folder == tmp_path
    with pytest.raises(SpanScorerUnusable, match=SPAN_SCORER_FILE):
        fetch_models(ModelConfig(tmp_path, span_scorer=str(tmp_path)))
