"""The span scorer: its probabilities, what its training teaches, its file, and its effect on grounded decoding."""

import contextlib
import json
import math
import re
import statistics
from dataclasses import replace
from random import Random
from threading import Event
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from engine.builder import SPAN_SCORER, ModelConfig, fetch_models
from engine.errors import Cancelled, SpanScorerUnusable
from engine.generation.grounding import MAX_SPAN_PENALTY, SENTENCE_WEIGHT, SPAN_WEIGHT, QuoteState, SentenceScores
from engine.generation.span_scorer import (
    MAX_PIECES,
    MAX_QUESTION_PIECES,
    NUM_SPECIAL,
    SPAN_SCORER_FILE,
    SpanScorer,
    SpanScores,
    Window,
    char_log_odds,
    normalize,
)
from engine.prompt.template import NO_ANSWER, PromptTemplate
from store.weights_file import load_mean, trained_weights
from tests.support import tiny
from tests.support.boats import BOATS
from tests.support.doubles import TEXTS
from tests.support.fakes import WordEmbedder
from tests.support.tolerance import EXACT
from training import span_scorer as span_training
from training.checkpoint import BadCheckpoint
from training.data.corpus import BadCorpus, Corpus, Paragraph
from training.data.examples import DataMix
from training.loop import TrainingConfig
from training.publish import REPORT_FILE, publish
from training.span_scorer import SpanScorerConfig, WindowedQuestion, find_places, remove_answer, train_span_scorer

QUESTION = "How many cars does the ferry carry?"
CONFIG = SpanScorerConfig(
    eval_examples=6,
    eval_fraction=0.4,
    mix=DataMix(max_passages=3, max_tokens=300, max_questions=3),
    training=TrainingConfig(5, 1e-3, 2, 2),
)


def ignore(*progress):
    pass


def span_scorer(seed=0):
    torch.manual_seed(seed)
    scorer = SpanScorer(tiny.bert(), tiny.wordpiece_tokenizer()).eval().requires_grad_(False)
    scorer.outputs.weight.normal_()
    return scorer


def certain(text, *parts, passage=0, probability=0.9):
    """Return scores under which each of the parts starts and ends with a share of `probability`."""
    words = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
    window = Window(passage, tuple(range(len(words))), tuple(words))
    starts, ends = torch.full((1, len(words)), 1e-9), torch.full((1, len(words)), 1e-9)
    for part in parts:
        at = text.index(part)
        inside = [i for i, (start, end) in enumerate(words) if start < at + len(part) and end > at]
        starts[0, inside[0]] = ends[0, inside[-1]] = probability / len(parts)
    return SpanScores((window,), starts.log(), ends.log(), 1 - probability)


def test_the_loss_is_that_of_the_answer_and_of_the_units_that_hold_it():
    """Independent: probabilities of starts and ends over all pieces and no answer, added up."""
    generator = torch.Generator().manual_seed(3)
    starts, ends = torch.randn(2, 2, 6, generator=generator)
    starts[1, 4:] = ends[1, 4:] = -torch.inf
    (start, no_start), (end, no_end) = ((part.exp() for part in normalize(each)) for each in (starts, ends))
    question = WindowedQuestion((1,), [], [(0, 1, 3), (1, 2, 2)], [(0, 0, 3), (0, 3, 4)])
    span = float(start[0, 1] * end[0, 3] + start[1, 2] * end[1, 2])
    unit = float((start[0, :5] + end[0, :5]).sum()) / 2
    assert float(span_training._loss(starts, ends, question)) == pytest.approx(-math.log(span) / 2 - math.log(unit))
    unanswered = replace(question, places=[], units=[])
    assert float(span_training._loss(starts, ends, unanswered)) == pytest.approx(-math.log(float(no_start * no_end)))


def test_the_loss_is_that_of_each_question_by_itself():
    generator = torch.Generator().manual_seed(3)
    starts, ends = torch.randn(2, 6, 9, generator=generator)
    starts[3, 5:] = ends[3, 5:] = -torch.inf
    parts = [(2, [(0, 1, 3), (1, 2, 2)]), (3, []), (1, [(0, 0, 8)])]
    questions = [WindowedQuestion((1,), [Window(0, (), ())] * count, places, []) for count, places in parts]
    losses, first = span_training._losses(starts, ends, questions), 0
    for loss, (count, places) in zip(losses, parts, strict=True):
        own = slice(first, first + count)
        (start, no_start), (end, no_end) = normalize(starts[own]), normalize(ends[own])
        likelihoods = [start[window, at] + end[window, to] for window, at, to in places] or [no_start + no_end]
        assert_close(loss, -torch.stack(likelihoods).logsumexp(0))
        first += count


def test_a_question_is_read_with_the_passages_that_search_finds_for_it():
    texts = ["The ferry carries 37 cars. It is blue.", "Boats are blue."]
    found = ("The train carries no cars.", "A bus carries 50 people.", "A tram carries 90 people.")
    drawn = SimpleNamespace(texts=lambda index: (texts, [(QUESTION, "37")]))
    scorer = span_scorer()
    unrelated, *others = (scorer.tokenizer.encode(text).ids for text in (texts[1], *found))
    for seed in range(5):
        (question,) = span_training.WindowedExamples(drawn, scorer, seed, {QUESTION: found})[0]
        read = [window.ids for window in question.windows]
        assert len(read) == 3 and sum(ids in others for ids in read) == 2 and unrelated not in read


def test_the_units_that_hold_an_answer_are_those_of_its_window():
    text = "# Fares\n\nA car costs 37 euros. A dog is free.\n\n- a bike: 5 euros\n- a child: 5 euros\n"
    scorer = span_scorer()
    (window,) = scorer.windows((), [scorer.tokenizer.encode(text)])

    def units_with(answer, window):
        places = [place[1:] for place in find_places([window], [text], answer)]
        units = span_training._units_with(places, window, text)
        return [text[window.spans[first][0] : window.spans[last][1]] for first, last in units]

    assert units_with("37 euros", window) == ["A car costs 37 euros."]
    assert units_with("5 euros", window) == ["a bike: 5 euros", "a child: 5 euros"]
    assert units_with("a train", window) == []
    child = window.first(text.index("a child"))
    cropped = Window(0, window.ids[child:], window.spans[child:])
    assert units_with("5 euros", cropped) == ["a child: 5 euros"]


def train(out, scorer=None, config=CONFIG, corpora=BOATS, progress=ignore):
    prompt = PromptTemplate(tiny.tokenizer())
    scorer = scorer or SpanScorer(tiny.bert(), tiny.wordpiece_tokenizer())
    return train_span_scorer(scorer, prompt, WordEmbedder(), corpora, out, config, progress, contextlib.nullcontext)


def test_starts_ends_and_no_answer_are_a_distribution_over_all_passages():
    scorer, texts = span_scorer(), list(TEXTS.values())
    scores = scorer.score(QUESTION, texts)
    assert float(scores.starts.exp().sum()) < 1 and float(scores.ends.exp().sum()) < 1
    assert scores.no_answer == pytest.approx(
        math.sqrt((1 - float(scores.starts.exp().sum())) * (1 - float(scores.ends.exp().sum()))), abs=1e-4
    )
    assert len(scores.windows) == len(texts)
    for window, row in zip(scores.windows, scores.starts, strict=True):
        assert (row[len(window.ids) :] == -torch.inf).all()


def test_the_scores_of_chosen_passages_are_those_of_a_prompt_without_the_others():
    scorer, texts = span_scorer(), list(TEXTS.values())
    scores, alone = scorer.score(QUESTION, texts, read=[0, 2]), scorer.score(QUESTION, [texts[0], texts[2]])
    assert [window.passage for window in scores.windows] == [0, 2]
    assert torch.equal(scores.starts, alone.starts) and scores.no_answer == alone.no_answer
    assert scores.mass(1, 0, len(texts[1])) == 0.0


def test_the_logits_of_a_passage_depend_on_the_question_but_not_on_the_batch():
    scorer, texts = span_scorer(), list(TEXTS.values())
    ids = scorer.encode_question(QUESTION)
    windows = scorer.windows(ids, map(scorer.tokenizer.encode, texts))
    starts, _ = scorer([(ids, window) for window in windows])
    for index, window in enumerate(windows):
        alone, _ = scorer([(ids, window)])
        assert_close(starts[index, : len(window.ids)], alone[0], rtol=1e-4, atol=1e-5)
    other, _ = scorer([(scorer.encode_question("Where do terns nest?"), window) for window in windows])
    assert not torch.equal(starts, other)


def test_the_best_span_is_the_most_likely_pair_in_order():
    """Independent: a search over all pairs of pieces."""
    scores = span_scorer(3).score(QUESTION, list(TEXTS.values()))
    expected = max(
        (
            math.exp(0.5 * float(starts[first] + ends[last])),
            window.passage,
            window.spans[first][0],
            window.spans[last][1],
        )
        for window, starts, ends in zip(scores.windows, scores.starts, scores.ends, strict=True)
        for first in range(len(window.ids))
        for last in range(first, len(window.ids))
    )
    best = scores.best
    assert (best.passage, best.start, best.end) == expected[1:]
    assert best.probability == pytest.approx(expected[0], rel=1e-4)


def test_a_piece_is_inside_the_answer_between_its_start_and_its_end():
    text = "The ferry carries 37 cars and nine dogs."
    (inside,) = certain(text, "37 cars", probability=0.8).inside()
    words = dict(zip(text.rstrip(".").split(), inside.tolist(), strict=False))
    assert words["37"] == pytest.approx(0.8, abs=1e-3) == words["cars"]
    assert words["carries"] < 1e-3 and words["dogs"] < 1e-3


def test_a_long_passage_is_cut_into_equal_windows_that_fit():
    scorer = span_scorer()
    text = " ".join(["ferry"] * 1200)
    ids = scorer.encode_question(QUESTION)
    pieces = scorer.tokenizer.encode(text)
    windows = scorer.windows(ids, [pieces])
    assert [piece for window in windows for piece in window.ids] == list(pieces.ids)
    assert max(len(window.ids) for window in windows) <= MAX_PIECES - NUM_SPECIAL - len(ids)
    assert windows[-1].spans[-1][1] == len(text)


@pytest.mark.parametrize(
    ("question", "texts"), [(QUESTION, []), (QUESTION, [""]), ("", ["one"]), ("\u200b", ["", "x"])]
)
def test_empty_questions_and_passages(question, texts):
    scores = span_scorer().score(question, texts)
    assert (scores.best is None) == (not any(texts)) and 0 <= scores.no_answer <= 1


def test_a_long_question_is_truncated_at_the_start():
    scorer, texts = span_scorer(), list(TEXTS.values())
    end = " ".join(["ferry"] * MAX_QUESTION_PIECES)
    long, longer, other = (scorer.score(question, texts) for question in (end, f"Terns. {end}", f"{end} terns"))
    assert_close(long.starts, longer.starts, **EXACT)
    assert not torch.equal(long.starts, other.starts)


def test_scoring_can_be_cancelled():
    cancel = Event()
    cancel.set()
    with pytest.raises(Cancelled):
        span_scorer().score(QUESTION, list(TEXTS.values()), cancel)


def test_characters_get_the_log_odds_of_their_pieces_whatever_the_white_space():
    windows = (Window(0, (1, 2, 3), ((0, 1), (3, 5), (7, 8))), Window(2, (4,), ((1, 2),)))
    starts = torch.tensor([[0.1, 0.2, 0.1], [0.4, 0.0, 0.0]]).log()
    scores = SpanScores(windows, starts, starts, 0.2)  # every piece is a span of its own
    expected = [math.log(0.25), -math.inf, *[math.log(0.5)] * 2, -math.inf, math.log(0.25), -math.inf, -math.inf, 0.0]
    found = char_log_odds("a bc d ef", ("a  bc\n\nd", "", "ef"), scores)
    assert found == pytest.approx(expected, abs=1e-5)


def score(scores, text):
    return scores.advance(QuoteState(), text).score


def spans_of(text, words, log_odds):
    """Return scores in which each word is a span of its own, `log_odds` below the best."""
    spans = tuple((text.index(word), text.index(word) + len(word)) for word in words)
    probabilities = torch.tensor([log_odds]).softmax(-1)
    return SpanScores((Window(0, tuple(range(len(words))), spans),), probabilities.log(), probabilities.log(), 0.0)


def test_within_a_sentence_a_word_has_the_score_of_its_span():
    """Independent: by hand. All words are in one sentence, so only the span scores differ."""
    text = "The ferry costs 14 euros or 12."
    words = ["The", "ferry", "costs", "14", "euros", "or", "12"]
    scores = spans_of(text, words, [-50.0, -9.0, -4.0, -1.0, -2.0, -7.0, 0.0])
    grounding = SentenceScores((text,), "What is it worth?", None, scores)
    most = SPAN_WEIGHT / SENTENCE_WEIGHT
    for word, below in {"12": 0.0, "14": 1.0, "14 euros": 2.0, "costs": 4.0, "or": MAX_SPAN_PENALTY}.items():
        assert score(grounding, word) == pytest.approx(-most * below, abs=1e-2), word
    assert grounding.min_score == pytest.approx(-most * MAX_SPAN_PENALTY) == score(grounding, "13")
    assert grounding.end_score(grounding.advance(QuoteState(), "14")) == pytest.approx(-most, abs=1e-2)


def test_a_refusal_loses_half_the_maximum_penalty_at_its_first_word():
    passages = ("The night ferry costs 14 euros. A ticket for dogs is 6 euros.",)
    scores = spans_of(passages[0], ["14", "6"], [0.0, -3.0])
    for question in ("What does the night ferry cost?", "Who sings?"):
        plain, led = SentenceScores(passages, question), SentenceScores(passages, question, None, scores)
        for end in range(1, len(NO_ANSWER) + 1):
            lost = MAX_SPAN_PENALTY / 2 * SPAN_WEIGHT / SENTENCE_WEIGHT if " " not in NO_ANSWER[:end].strip() else 0.0
            assert score(led, NO_ANSWER[:end]) == pytest.approx(score(plain, NO_ANSWER[:end]) - lost), NO_ANSWER[:end]
        assert led.end_score(QuoteState(NO_ANSWER, (), score(led, NO_ANSWER))) == 0.0


def test_places_of_an_answer_are_whole_words_in_any_window():
    texts = ["Bern and Bernese. BERN!", "It is so: in Bern."]
    scorer = span_scorer()
    windows = scorer.windows((), map(scorer.tokenizer.encode, texts))

    def found(answer):
        return [
            texts[windows[window].passage][windows[window].spans[first][0] : windows[window].spans[last][1]]
            for window, first, last in find_places(windows, texts, answer)
        ]

    assert found("Bern") == ["Bern", "BERN", "Bern"]
    assert found("Yes: It is so: in Bern.") == ["It is so: in Bern."]
    assert found("ern") == []


def test_a_cropped_window_contains_one_of_its_places():
    window = Window(0, tuple(range(400)), tuple((i, i + 1) for i in range(400)))
    for seed in range(40):
        part, inside = span_training._crop(window, [(10, 12), (300, 330)], Random(seed))
        assert len(part.ids) in (*span_training.CROPPED_PIECES, 400) and inside
        assert all(part.ids[start : end + 1] in (window.ids[10:13], window.ids[300:331]) for start, end in inside)


def test_training_finds_the_answers_and_declines_without_one(tmp_path):
    """Facts of one form: the answer is the word after the name in the question; each word is one token."""
    words = sorted(word for word in tiny.wordpiece_tokenizer().get_vocab() if word.isalpha() and len(word) > 4)
    paragraphs = tuple(
        Paragraph(f"The {name} carries {cargo} today.", ((f"What does the {name} carry?", cargo),), ("Who sings?",))
        for name, cargo in zip(words[:12], words[12:24], strict=True)
    )
    mix = DataMix(max_passages=3, unanswerable_fraction=0.2, synthetic_fraction=0.0)
    training = TrainingConfig(50, 3e-3, 10, 1000)
    config = replace(CONFIG, mix=mix, training=training, eval_fraction=0.5, eval_examples=1)
    corpora = [Corpus("facts", paragraphs * 6)]
    losses = []
    train(tmp_path, span_scorer(), config, corpora, lambda stage, done, total, loss: losses.append(loss))
    trained = [loss for loss in losses if loss]
    assert statistics.fmean(trained[-10:]) < statistics.fmean(trained[:10]) / 2


def test_a_span_scorer_is_evaluated_and_published_only_if_it_is_better(tmp_path):
    report = train(tmp_path / "out")
    assert 0 <= report["right"] <= 1 and report["questions"] > 0
    assert SpanScorer.load(tmp_path / "out", tiny.bert(), tiny.wordpiece_tokenizer()).num_parameters > 0
    assert publish(tmp_path / "out", tmp_path / "assets", (SPAN_SCORER_FILE,), span_training.selection_metric)
    assert not publish(tmp_path / "out", tmp_path / "assets", (SPAN_SCORER_FILE,), span_training.selection_metric)
    assert json.loads((tmp_path / "assets" / REPORT_FILE).read_text()) == json.loads(json.dumps(report))
    with pytest.raises(BadCorpus, match="too few questions"):
        train(tmp_path / "o", config=replace(CONFIG, eval_fraction=0.0), corpora=BOATS[:1])


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(tmp_path):
    def killed(stage, done, total, loss):
        if (stage, done) == ("Training", 3):
            raise KeyboardInterrupt

    train(tmp_path / "whole", span_scorer())
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", span_scorer(), progress=killed)
    seen = []
    train(tmp_path / "killed", span_scorer(), progress=lambda stage, done, *_: seen.append((stage, done)))
    assert ("Training", 3) in seen and ("Training", 2) not in seen
    whole, again = (load_file(tmp_path / name / SPAN_SCORER_FILE) for name in ("whole", "killed"))
    assert whole.keys() == again.keys() and not any(".embeddings." in name for name in whole)
    for name, weight in whole.items():
        assert_close(again[name], weight, **EXACT)
    with pytest.raises(BadCheckpoint, match="made with other settings"):
        train(tmp_path / "killed", span_scorer(), replace(CONFIG, seed=1))


def test_weights_are_saved_to_within_half_a_step_of_their_row(tmp_path):
    scorer = span_scorer()
    scorer.save(tmp_path)
    loaded = trained_weights(SpanScorer.load(tmp_path, tiny.bert(), tiny.wordpiece_tokenizer()))
    for name, weight in trained_weights(scorer).items():
        if weight.ndim == 2:
            step = weight.abs().amax(1, keepdim=True) / 127
            assert ((loaded[name] - weight).abs() <= 0.501 * step).all(), name
        else:
            assert_close(loaded[name], weight.bfloat16().float(), **EXACT)


def test_a_saved_span_scorer_is_loaded_unchanged(tmp_path):
    scorer = span_scorer()
    for weight in trained_weights(scorer).values():  # powers of two times integers: a file holds them exactly
        weight.data = (weight * 16).round().clamp(-127, 127) / 16
        if weight.ndim == 2:
            weight.data[:, 0] = 127 / 16
    scorer.save(tmp_path)
    again = SpanScorer.load(tmp_path, tiny.bert(), tiny.wordpiece_tokenizer())
    assert_close(scorer.score(QUESTION, ["37 cars."]).starts, again.score(QUESTION, ["37 cars."]).starts, **EXACT)


def test_training_may_start_from_the_mean_of_span_scorers(tmp_path):
    folders = [tmp_path / "one", tmp_path / "other"]
    for seed, folder in enumerate(folders):
        folder.mkdir()
        span_scorer(seed).save(folder)
    mean, saved = span_scorer(2), [load_file(folder / SPAN_SCORER_FILE) for folder in folders]
    load_mean([folder / SPAN_SCORER_FILE for folder in folders], mean)
    expected = torch.stack([each["outputs.bias"].float() for each in saved]).mean(0)
    torch.testing.assert_close(mean.outputs.bias, expected)
    name = next(name for name, weight in trained_weights(mean).items() if weight.ndim == 2 and "encoder" in name)
    expected = torch.stack([each[name].float() * each[f"{name}:scale"] for each in saved]).mean(0)
    torch.testing.assert_close(trained_weights(mean)[name].detach(), expected)


def test_a_span_scorer_that_does_not_fit_is_refused(tmp_path):
    def load():
        return SpanScorer.load(tmp_path, tiny.bert(), tiny.wordpiece_tokenizer())

    with pytest.raises(SpanScorerUnusable, match="span scorer"):
        load()
    (tmp_path / SPAN_SCORER_FILE).write_bytes(b"torn")
    with pytest.raises(SpanScorerUnusable, match="span scorer"):
        load()
    whole = trained_weights(span_scorer())
    missing = {name: weight for name, weight in whole.items() if name != "outputs.bias"}
    for tensors in ({}, missing, {**whole, "more": torch.zeros(1)}, {**whole, "outputs.bias": torch.zeros(3)}):
        save_file(tensors, tmp_path / SPAN_SCORER_FILE)
        with pytest.raises(SpanScorerUnusable, match="another --span-scorer"):
            load()


def test_the_span_scorer_is_used_with_every_main_model(tmp_path):
    for options in ({}, {"lora_adapter": "off"}, {"model": "other"}):
        assert ModelConfig(tmp_path, **options).span_scorer_folder == SPAN_SCORER
    assert ModelConfig(tmp_path, span_scorer="off").span_scorer_folder is None
    assert ModelConfig(tmp_path, span_scorer=str(tmp_path)).span_scorer_folder == tmp_path
    with pytest.raises(SpanScorerUnusable, match=SPAN_SCORER_FILE):
        fetch_models(ModelConfig(tmp_path, span_scorer=str(tmp_path)))


def test_an_answer_is_removed_with_its_sentences_and_rows():
    text = "It opened in 1987. It is blue.\n| Opened: 1987 | Colour: blue |\n| Opened: 1988 | Colour: red |\n19871 m"
    assert remove_answer(text, "1987") == " It is blue.\n| Opened: 1988 | Colour: red |\n19871 m"
    assert remove_answer(text, "Yes: It is blue") == text.replace(" It is blue.", "")
    assert remove_answer(text, "green") == text
    assert (
        remove_answer("As follows:\n\n1. Stop.\n2. Rinse.\n\nDone.", "1. Stop.\n2. Rinse.")
        == "As follows:\n\n\n\nDone."
    )
