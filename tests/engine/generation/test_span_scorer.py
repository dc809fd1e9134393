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
from engine.generation.grounding import (
    MAX_SPAN_PENALTY,
    SENTENCE_WEIGHT,
    SPAN_WEIGHT,
    GroundingModel,
    QuoteState,
    SentenceScores,
)
from engine.generation.span_scorer import (
    MAX_QUESTION_TOKENS,
    SPAN_SCORER_FILE,
    SpanScorer,
    SpanScorerNet,
    SpanScores,
    char_log_odds,
    encode_text,
    pad_batch,
)
from engine.prompt.template import NO_ANSWER, PromptTemplate
from tests.support import tiny
from tests.support.boats import BOATS
from tests.support.doubles import TEXTS, make_engine
from tests.support.tolerance import EXACT
from training import span_scorer as span_training
from training.checkpoint import BadCheckpoint
from training.data.corpus import BadCorpus, Corpus, Paragraph
from training.data.examples import DataMix, TrainingExamples
from training.loop import TrainingConfig
from training.publish import REPORT_FILE, publish
from training.span_scorer import SpanScorerConfig, SpanScorerNetConfig, train_span_scorer

QUESTION = "How many cars does the ferry carry?"
CONFIG = SpanScorerConfig(
    eval_examples=6,
    eval_fraction=0.4,
    mix=DataMix(max_passages=3, max_tokens=300, max_questions=3, unanswerable_fraction=0.0),
    training=TrainingConfig(8, 1e-2, 2, 3),
    net=SpanScorerNetConfig(16),
)


def net(seed=0, size=16):
    torch.manual_seed(seed)
    model = SpanScorerNet(64, 2, size, 300)
    for weight in model.parameters():
        weight.data = torch.randn_like(weight) * 0.3
    model.rarity.copy_(torch.rand(300))
    return model


def ignore(*progress):
    pass


def span_scorer(seed=0):
    return SpanScorer(tiny.encoder(1, 2), net(seed))


def encode(*texts):
    return [encode_text(tiny.encoder(1, 2), text) for text in texts]


def test_match_features_equal_those_computed_piece_by_piece():
    """Independent: a loop over the pieces of passage and question."""
    model, (passage, other, question) = net(), encode("The ferry carries 37 cars.", "Terns nest.", "How many cars?")
    found = model.match_features(pad_batch([passage, other]), pad_batch([question, question]))
    halves = [[text.vectors[:, :32].float(), text.vectors[:, 32:].float()] for text in (passage, question)]
    cosine = torch.nn.functional.cosine_similarity
    table = [[[float(cosine(p, q, 0)) for q in halves[1][part]] for p in halves[0][part]] for part in (0, 1)]
    near = sum(max(row[at] for row in table[1]) for at in range(len(question.pieces.ids))) / len(question.pieces.ids)
    for number, piece in enumerate(passage.pieces.ids):
        rare = 0.1 * float(model.rarity[piece]) if piece in question.pieces.ids else 0.0
        expected = [max(table[0][number]), max(table[1][number]), rare, 5 * near - 3]
        assert_close(found[0, number], torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_other_passages_of_a_batch_and_padding_change_nothing():
    model, texts = net().eval(), encode(*TEXTS.values())
    (question,) = encode(QUESTION)
    with torch.no_grad():
        together = model(pad_batch(texts), pad_batch([question] * len(texts)))
        for row, text in zip(together, texts, strict=True):
            alone = model(pad_batch([text]), pad_batch([question]))[0]
            assert_close(row[: len(alone)], alone, rtol=1e-4, atol=1e-5)
            assert (row[len(alone) :] == -torch.inf).all()


def test_the_most_likely_piece_of_all_passages_is_at_zero_and_depends_on_the_question():
    scorer, texts = span_scorer(), list(TEXTS.values())
    found = scorer.score(QUESTION, texts)
    assert max(float(one.log_odds.max()) for one in found) == 0.0
    assert [len(one.log_odds) for one in found] == [len(one.spans) for one in found]
    assert all(text[start:end].strip() for one, text in zip(found, texts, strict=True) for start, end in one.spans)
    other = scorer.score("Where do terns nest?", texts)
    assert any(not torch.equal(one.log_odds, two.log_odds) for one, two in zip(found, other, strict=True))


@pytest.mark.parametrize(
    ("question", "texts"), [("", ["one"]), (QUESTION, []), (QUESTION, [""]), ("\u200b", ["", "x"])]
)
def test_empty_questions_and_passages_get_zero_scores(question, texts):
    found = span_scorer().score(question, texts)
    assert len(found) == len(texts) and all((one.log_odds == 0.0).all() for one in found)


def test_a_long_question_is_truncated_at_the_start():
    scorer, texts = span_scorer(), list(TEXTS.values())
    end = " ".join(["ferry"] * MAX_QUESTION_TOKENS)
    long, longer, other = (scorer.score(question, texts) for question in (end, f"Terns. {end}", f"{end} terns"))
    for one, two, three in zip(long, longer, other, strict=True):
        assert_close(one.log_odds, two.log_odds, **EXACT)
        assert not torch.equal(one.log_odds, three.log_odds)


def test_scoring_can_be_cancelled():
    cancel = Event()
    cancel.set()
    with pytest.raises(Cancelled):
        span_scorer().score(QUESTION, list(TEXTS.values()), cancel)


def test_a_passage_is_encoded_once_until_it_is_forgotten(monkeypatch):
    scorer, read_ids = span_scorer(), []
    vectors = scorer.encoder.embed
    monkeypatch.setattr(scorer.encoder, "embed", lambda ids: read_ids.append(len(ids)) or vectors(ids))
    text = next(iter(TEXTS.values()))
    scorer.warm(text, PromptTemplate(tiny.tokenizer()).passage(text))
    scorer.score(QUESTION, [text.strip()])
    assert len(read_ids) == 2  # the passage and the question
    scorer.evict(f"{text} ")
    scorer.score(QUESTION, [text.strip()])
    assert len(read_ids) == 4
    scorer.clear()
    scorer.score(QUESTION, [text.strip()])
    assert len(read_ids) == 6


def test_warming_does_nothing_if_the_cache_is_full(monkeypatch):
    pieces = len(encode("37 cars.")[0].pieces.ids)
    monkeypatch.setattr(SpanScorer, "cache_size", pieces)
    scorer, text = span_scorer(), TEXTS["ferry"]
    scorer.passages("37 cars.")
    scorer.warm(text, PromptTemplate(tiny.tokenizer()).passage(text))
    assert scorer.passages.keys() == ["37 cars."]


def test_the_engine_warms_and_forgets_passages_of_the_span_scorer():
    engine, text = make_engine("ferry", "tern", grounding=GroundingModel(span_scorer())), TEXTS["ferry"]
    engine.passages.warm(text)
    assert engine.grounding.span_scorer.passages.keys() == [text.strip()]
    engine.passages.delete(text)
    assert not engine.grounding.span_scorer.passages.keys()


def test_characters_get_the_log_odds_of_their_pieces_whatever_the_white_space():
    passages = ("a  bc\n\nd", "", "ef")
    span_scores = [
        SpanScores([(0, 1), (3, 5), (7, 8), (3, 5)], torch.tensor([-1.0, -2.0, -3.0, -9.0])),  # two of one character
        SpanScores([], torch.zeros(0)),
        SpanScores([(1, 2)], torch.tensor([0.0])),
    ]
    inf = float("inf")
    assert char_log_odds("a bc d ef", passages, span_scores) == [-1.0, -inf, -2.0, -2.0, -inf, -3.0, -inf, -inf, 0.0]


def score(scores, text):
    return scores.advance(QuoteState(), text).score


def test_within_a_sentence_a_word_has_the_score_of_its_span():
    """Independent: by hand. All words are in one sentence, so only the span scores differ."""
    text = "The ferry costs 14 euros or 12."
    spans = [(0, 3), (4, 9), (10, 15), (16, 18), (19, 24), (25, 27), (28, 30)]
    log_odds = torch.tensor([-50.0, -9.0, -4.0, -1.0, -2.0, -7.0, 0.0])
    grounding = SentenceScores((text,), "What does it cost?", None, [SpanScores(spans, log_odds)])
    most = SPAN_WEIGHT / SENTENCE_WEIGHT
    for word, below in {
        "12": 0.0,
        "14": 1.0,
        "14 euros": 2.0,
        "costs": 4.0,
        "or": MAX_SPAN_PENALTY,
        "The": MAX_SPAN_PENALTY / 2,
    }.items():
        assert score(grounding, word) == pytest.approx(-most * below), word
    assert grounding.min_score == pytest.approx(-most * MAX_SPAN_PENALTY) == score(grounding, "13")
    assert grounding.end_score(grounding.advance(QuoteState(), "14")) == pytest.approx(-most)


def test_span_scores_are_added_to_the_sentence_score():
    passages = ("The night ferry costs 14 euros. A ticket for dogs is 6 euros.",)
    plain = SentenceScores(passages, "What does the night ferry cost?")
    spans = [(0, len(passages[0]))]
    same = SentenceScores(passages, "What does the night ferry cost?", None, [SpanScores(spans, torch.zeros(1))])
    for text in ("14", "6 euros", "night", "A ticket"):
        assert score(same, text) == pytest.approx(score(plain, text)), text
    assert same.min_score == pytest.approx(plain.min_score - SPAN_WEIGHT / SENTENCE_WEIGHT * MAX_SPAN_PENALTY)


def test_a_refusal_loses_half_the_maximum_penalty_at_its_first_word():
    passages = ("The night ferry costs 14 euros. A ticket for dogs is 6 euros.",)
    spans, log_odds = [(25, 27), (50, 51)], torch.tensor([0.0, -3.0])
    for question in ("What does the night ferry cost?", "Who sings?"):
        plain, led = (
            SentenceScores(passages, question),
            SentenceScores(passages, question, None, [SpanScores(spans, log_odds)]),
        )
        for end in range(1, len(NO_ANSWER) + 1):
            lost = MAX_SPAN_PENALTY / 2 * SPAN_WEIGHT / SENTENCE_WEIGHT if " " not in NO_ANSWER[:end].strip() else 0.0
            assert score(led, NO_ANSWER[:end]) == pytest.approx(score(plain, NO_ANSWER[:end]) - lost), NO_ANSWER[:end]
        assert led.end_score(QuoteState(NO_ANSWER, (), score(led, NO_ANSWER))) == 0.0
        assert score(led, "A") == pytest.approx(score(plain, "A") - MAX_SPAN_PENALTY * SPAN_WEIGHT / SENTENCE_WEIGHT)


def test_occurrences_of_an_answer_are_whole_words_in_any_passage():
    texts = ["Bern and Bernese. BERN!", "In Bern."]
    places = span_training.find_occurrences(encode(*texts), texts, "Bern")
    assert [
        (number, texts[number][encode(texts[number])[0].pieces.spans[pieces[0]][0] :][:4]) for number, pieces in places
    ] == [
        (0, "Bern"),
        (0, "BERN"),
        (1, "Bern"),
    ]
    assert span_training.find_occurrences(encode(*texts), texts, "ern") == []


def test_training_finds_the_answers():
    """Facts of one form: the answer is the word after the name in the question; each word is one token."""
    words = sorted(word for word in tiny.wordpiece_tokenizer().get_vocab() if word.isalpha() and len(word) > 4)
    paragraphs = tuple(
        Paragraph(f"The {name} carries {cargo} today.", ((f"What does the {name} carry?", cargo),))
        for name, cargo in zip(words[:12], words[12:24], strict=True)
    )
    examples = TrainingExamples(
        PromptTemplate(tiny.tokenizer()),
        [Corpus("facts", paragraphs)],
        [],
        DataMix(max_passages=3, unanswerable_fraction=0.0, synthetic_fraction=0.0),
        0,
    )
    torch.manual_seed(0)
    model = SpanScorerNet(64, 2, 16, 300)
    loss_of = span_training.make_loss(model, examples, tiny.encoder(1, 2), 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def accuracy():
        scorer = SpanScorer(tiny.encoder(1, 2), copy.deepcopy(model))
        return statistics.fmean(span_training.evaluate(scorer, examples, 20, ignore))

    untrained, before = accuracy(), float(sum(loss_of(number).detach() for number in range(200, 210))) / 10
    for number in range(400):
        optimizer.zero_grad()
        loss_of(number).backward()
        optimizer.step()
    model.eval()
    assert float(sum(loss_of(number).detach() for number in range(200, 210))) / 10 < before / 2
    assert accuracy() > 0.6 > 2 * untrained


def test_a_span_scorer_is_evaluated_and_published_only_if_it_is_better(tmp_path):
    prompt = PromptTemplate(tiny.tokenizer())
    report = train_span_scorer(tiny.encoder(1, 2), prompt, BOATS, tmp_path / "out", CONFIG, ignore)
    assert 0 <= report["right"] <= 1 and report["questions"] > 0
    assert SpanScorer.load(tmp_path / "out", tiny.encoder(1, 2)).num_parameters > 0
    assert publish(tmp_path / "out", tmp_path / "assets", (SPAN_SCORER_FILE,), span_training.selection_metric)
    assert not publish(tmp_path / "out", tmp_path / "assets", (SPAN_SCORER_FILE,), span_training.selection_metric)
    assert json.loads((tmp_path / "assets" / REPORT_FILE).read_text()) == json.loads(json.dumps(report))
    with pytest.raises(BadCorpus, match="too few questions"):
        train_span_scorer(
            tiny.encoder(1, 2), prompt, BOATS[:1], tmp_path / "o", replace(CONFIG, eval_fraction=0.0), print
        )


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(tmp_path):
    def run(name, progress=ignore, config=CONFIG):
        train_span_scorer(
            tiny.encoder(1, 2), PromptTemplate(tiny.tokenizer()), BOATS, tmp_path / name, config, progress
        )

    def killed(stage, done, total, loss):
        if (stage, done) == ("Training", 5):
            raise KeyboardInterrupt

    run("whole")
    with pytest.raises(KeyboardInterrupt):
        run("killed", killed)
    seen = []
    run("killed", lambda stage, done, *_: seen.append((stage, done)))
    assert ("Training", 4) in seen and ("Training", 3) not in seen
    whole, again = (load_file(tmp_path / name / SPAN_SCORER_FILE) for name in ("whole", "killed"))
    assert whole.keys() == again.keys() and (whole["rarity"] > 0).any()
    for name, weight in whole.items():
        assert_close(again[name], weight, **EXACT)
    with pytest.raises(BadCheckpoint, match="made with other settings"):
        run("killed", config=replace(CONFIG, seed=1))


def test_a_saved_span_scorer_is_loaded_unchanged(tmp_path):
    rounded = net()
    for weight in (*rounded.parameters(), rounded.rarity):
        weight.data = weight.bfloat16().float()
    scorer = SpanScorer(tiny.encoder(1, 2), rounded)
    scorer.save(tmp_path)
    again = SpanScorer.load(tmp_path, tiny.encoder(1, 2))
    for one, two in zip(scorer.score(QUESTION, ["37 cars."]), again.score(QUESTION, ["37 cars."]), strict=True):
        assert_close(one.log_odds, two.log_odds, **EXACT)


def test_a_span_scorer_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(SpanScorerUnusable, match="span scorer"):
        SpanScorer.load(tmp_path, tiny.encoder(1, 2))
    (tmp_path / SPAN_SCORER_FILE).write_bytes(b"torn")
    with pytest.raises(SpanScorerUnusable, match="span scorer"):
        SpanScorer.load(tmp_path, tiny.encoder(1, 2))
    whole = net().state_dict()
    torn = {name: weight for name, weight in whole.items() if name != "norm.bias"}
    short, thin = {**whole, "rarity": torch.zeros(3)}, {**whole, "points.weight": torch.zeros(1, 6)}
    more, flat = {**whole, "more": torch.zeros(1)}, {**whole, "points.weight": torch.tensor(1.0)}
    for named in ({}, torn, more, flat, short, thin):
        save_file(named, tmp_path / SPAN_SCORER_FILE)
        with pytest.raises(SpanScorerUnusable, match="another --span-scorer"):
            SpanScorer.load(tmp_path, tiny.encoder(1, 2))
    save_file(whole, tmp_path / SPAN_SCORER_FILE)
    with pytest.raises(SpanScorerUnusable):
        SpanScorer.load(tmp_path, tiny.encoder())  # of one layer


def test_a_span_scorer_is_used_with_a_lora_adapter(tmp_path):
    assert (
        ModelConfig(tmp_path).span_scorer_folder
        == SPAN_SCORER
        == ModelConfig(tmp_path, model="other", lora_adapter="own").span_scorer_folder
    )
    assert (
        ModelConfig(tmp_path, lora_adapter="off").span_scorer_folder
        is ModelConfig(tmp_path, model="other").span_scorer_folder
        is None
    )
    assert ModelConfig(tmp_path, span_scorer="off").span_scorer_folder is None
    assert ModelConfig(tmp_path, span_scorer=str(tmp_path)).span_scorer_folder == tmp_path
    with pytest.raises(SpanScorerUnusable, match=SPAN_SCORER_FILE):
        fetch_models(ModelConfig(tmp_path, span_scorer=str(tmp_path)))
