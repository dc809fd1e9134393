"""Training of the encoder that compares quotes with questions, on a tiny random BERT."""

import json
import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from engine.builder import ASSETS, ModelConfig, load_grounding
from engine.errors import SpanScorerUnusable
from engine.model.encoder import SEMANTIC_LAYER, Encoder, load_encoder
from engine.prompt.template import PromptTemplate
from store.weights_file import QUOTE_ENCODER_FILE, load_weights
from tests.support import tiny
from tests.support.boats import BOATS
from training.data.corpus import Corpus, Paragraph, read_corpora
from training.data.examples import DataMix
from training.loop import TrainingConfig
from training.quote_encoder import (
    TEMPERATURE,
    QuoteEncoderConfig,
    QuoteExample,
    contrastive_loss,
    find_quotes,
    train_quote_encoder,
)

EVERYDAY = Path(__file__).parents[2] / "training" / "data" / "everyday"
SHIPPED = ASSETS / "quote_encoder"
CONFIG = QuoteEncoderConfig(
    mix=DataMix(max_passages=3, max_tokens=400, max_questions=4, unanswerable_fraction=0.0, synthetic_fraction=0.0),
    eval_examples=2,
    eval_fraction=0.4,
    training=TrainingConfig(3, 1e-3, 1, 1),
)


def encoder():
    torch.manual_seed(0)
    return Encoder(tiny.bert(), tiny.wordpiece_tokenizer(), (2,))


def train(out, config=CONFIG, corpora=BOATS, progress=lambda *_: None, own=None):
    prompt = PromptTemplate(tiny.tokenizer())
    return train_quote_encoder(own or encoder(), prompt, corpora, out, config, progress, nullcontext)


def test_the_units_that_hold_an_answer_are_found_below_their_headings():
    texts = [
        "# Rules\n\n## Pets\n\nDogs are welcome. Cats are not.\n\n| Pet: dog | Fee: 5 EUR |\n| Pet: cat | Fee: 9 EUR |",
        "A dog costs 5 EUR here too.",
    ]
    example = find_quotes(texts, [("dog fee?", "5 EUR"), ("cats?", "No: Cats are not"), ("who?", "the warden")])
    assert example.units[:2] == ["Dogs are welcome.", "Cats are not."]
    rows = ["Pets\n| Pet: dog | Fee: 5 EUR |", "Pets\n| Pet: cat | Fee: 9 EUR |"]
    assert example.units[2:] == [*rows, "A dog costs 5 EUR here too."]
    assert example.questions == [("dog fee?", [2, 4]), ("cats?", [1])]  # the third has no answer


def test_a_whole_list_may_answer_below_the_line_that_introduces_it_and_the_context_is_no_unit():
    text = (
        "hut.pdf > The hut > What to bring\n\nEach guest brings:\n\n- a lamp\n- a blanket\n\n# Dogs\n\n1. on a lead\n"
    )
    example = find_quotes(
        [text], [("all of it?", "- a lamp\n- a blanket"), ("against the cold?", "a blanket"), ("?", "hut")]
    )
    items = ["What to bring\na lamp", "What to bring\na blanket"]
    assert example.units == [
        "Each guest brings:",
        *items,
        "What to bring\nEach guest brings:\n\n- a lamp\n- a blanket",
        "Dogs\non a lead",
    ]
    assert example.questions == [("all of it?", [1, 2, 3]), ("against the cold?", [2, 3])]


def test_the_loss_is_over_the_distinct_units_of_all_examples_of_a_batch():
    first = QuoteExample(["boat", "boat", "heron"], [("a?", [0, 1])])
    batch = [first, QuoteExample(["heron", "swan"], [("b?", [0]), ("c?", [1])]), QuoteExample(["reed"], [])]
    vectors = dict(
        zip(["boat", "heron", "swan", "reed", "a?", "b?", "c?"], F.normalize(torch.randn(7, 4), dim=1), strict=True)
    )
    loss = contrastive_loss(batch, lambda texts: torch.stack([vectors[text] for text in texts]))
    expected = []
    for question, right in (("a?", "boat"), ("b?", "heron"), ("c?", "swan")):
        cosines = {
            unit: float(vectors[unit] @ vectors[question]) / TEMPERATURE for unit in ["boat", "heron", "swan", "reed"]
        }
        expected.append(math.log(sum(math.exp(each) for each in cosines.values())) - cosines[right])
    assert float(loss) == pytest.approx(sum(expected) / 3, abs=1e-4)
    assert contrastive_loss(batch[2:], None).item() == 0.0


def test_training_brings_questions_closer_to_their_quotes(tmp_path):
    words = sorted(word for word in tiny.wordpiece_tokenizer().get_vocab() if word.isalpha() and len(word) > 4)
    paragraphs = tuple(
        Paragraph(f"The {name} carries {cargo} today.", ((f"What is on the {name}?", cargo),))
        for name, cargo in zip(words[:12], words[12:24], strict=True)
    )
    config = replace(CONFIG, training=TrainingConfig(40, 3e-3, 5, 1000), eval_fraction=0.5)
    losses = []
    report = train(
        tmp_path, config, [Corpus("facts", paragraphs * 6)], lambda stage, done, total, loss: losses.append(loss)
    )
    assert losses[-1] < 0.6 * losses[0]  # a moving average
    assert report["right"] > report["right_before"] and json.loads((tmp_path / "report.json").read_text()) == report


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(tmp_path):
    def kill(stage, done, total, loss):
        if done == 2:
            raise KeyboardInterrupt

    train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", progress=kill)
    train(tmp_path / "killed")
    whole, again = (load_file(tmp_path / name / QUOTE_ENCODER_FILE) for name in ("whole", "killed"))
    assert whole.keys() == again.keys() and not any("embeddings" in name for name in whole)
    for name, weight in whole.items():
        assert_close(again[name], weight, rtol=0, atol=0)


def test_the_shipped_weights_are_finetuned_and_fit_the_unchanged_encoder():
    plain = load_encoder(torch.float32, (SEMANTIC_LAYER,))
    question = "What's a new one of the thing you swipe at the door going to set me back?"
    quotes = ["A replacement for a lost access card costs 12 euros.", "The door of the cellar has to be locked at ten."]
    before = plain.embed_sentences([question, *quotes])
    load_weights(SHIPPED / QUOTE_ENCODER_FILE, plain.model)
    after = plain.embed_sentences([question, *quotes])
    margins = [float(each[0] @ each[1] - each[0] @ each[2]) for each in (before, after)]
    assert margins[1] > margins[0] and margins[1] > 0


def test_weights_that_do_not_fit_are_refused(tmp_path):
    config = ModelConfig(tmp_path, quote_encoder=str(tmp_path))
    with pytest.raises(SpanScorerUnusable, match="quote encoder"):
        load_grounding(config, torch.float32)
    save_file({"outputs.bias": torch.zeros(1)}, tmp_path / QUOTE_ENCODER_FILE)
    with pytest.raises(SpanScorerUnusable, match="another encoder"):
        load_grounding(config, torch.float32)
    assert ModelConfig(tmp_path, quote_encoder="off").quote_encoder_folder is None


def test_every_answer_of_the_everyday_questions_is_in_its_text():
    for corpus in read_corpora(EVERYDAY):
        assert corpus.num_questions > 100
        for paragraph in corpus.paragraphs:
            example = find_quotes([paragraph.text], paragraph.questions)
            assert len(example.questions) == len(paragraph.questions), paragraph.text[:80]
