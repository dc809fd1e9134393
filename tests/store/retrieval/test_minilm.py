"""The real embedding model works offline, reads all of a chunk, and ranks meaning above words."""

from itertools import product

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from engine.model.encoder import SEMANTIC_LAYER, load_encoder
from store.errors import KVScopeError
from store.retrieval.embedding_model import SEGMENT_TOKENS
from store.retrieval.minilm import EMBEDDING_DIM, MiniLM, packaged_folder
from store.weights_file import QUOTE_ENCODER, QUOTE_ENCODER_FILE, load_weights

THINGS, PLACES = ("birds", "loans", "ropes", "letters"), ("harbour", "attic", "bank")
pytestmark = pytest.mark.embedded


@pytest.fixture(scope="module")
def model():
    return MiniLM()


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(str(packaged_folder() / "tokenizer.json"))


def test_vectors_have_length_one(model):
    vectors = model.embed(["a heron", "汉字", ""])
    assert vectors.shape == (3, EMBEDDING_DIM) and vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert model.embed([]).shape == (0, EMBEDDING_DIM)


def test_meaning_counts_and_not_the_words(model):
    question, same, other = model.embed(
        ["How do birds stay warm?", "Feathers keep them from freezing.", "How do loans stay cheap?"]
    )
    assert question @ same > question @ other


def test_every_segment_of_a_long_chunk_fits_the_model(model, tokenizer):
    chunk = " ".join(f"Sentence {number} says something about keys and values." for number in range(60))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    segments = model.segments(chunk)
    assert len(segments) > 1
    assert " ".join(segments) == chunk
    assert all(len(tokenizer.encode(segment).ids) <= SEGMENT_TOKENS + 2 for segment in segments)


@pytest.mark.parametrize("last", ["Where is the key?", "Be brief.", "钥匙在哪里?"])
def test_truncation_keeps_as_much_of_the_end_as_fits(model, tokenizer, last):
    text = " ".join(f"Sentence {number} says something about boats." for number in range(60)) + f" {last}"
    end = model.truncate_left(text)
    tokenizer.no_truncation()
    assert text.endswith(end) and end.endswith(last)
    assert 250 <= len(tokenizer.encode(end).ids) <= 256
    assert model.truncate_left(last) == last and model.truncate_left("") == ""


def test_the_end_of_a_long_chunk_is_found(model):
    chunk = "The committee met and talked about the budget of the town. " * 40 + "Penguins lay eggs on the ice."
    (query,) = model.embed(["Where do penguins lay their eggs?"])
    whole, best = model.embed([chunk])[0] @ query, max(model.embed(model.segments(chunk)) @ query)
    assert best > whole + 0.2


def test_fingerprint_is_of_the_weights(model, monkeypatch, tmp_path):
    assert model.fingerprint == MiniLM().fingerprint and model.fingerprint.startswith("minilm-32-")
    monkeypatch.setattr("store.retrieval.minilm.FINETUNED", tmp_path / "weights")
    (tmp_path / "weights").write_bytes(b"other weights")
    assert MiniLM().fingerprint != model.fingerprint
    with pytest.raises(KVScopeError, match="Install KVScope again"):
        MiniLM().embed(["a heron"])


def test_it_embeds_as_the_encoder_that_compares_quotes_does(model):
    encoder = load_encoder(torch.float32, (SEMANTIC_LAYER,))
    texts = ["Where do birds sleep?", "Swans sleep on the water."]
    plain = encoder.embed_sentences(texts).numpy()
    load_weights(QUOTE_ENCODER / QUOTE_ENCODER_FILE, encoder.model)
    np.testing.assert_allclose(model.embed(texts), encoder.embed_sentences(texts).numpy(), atol=1e-4)
    assert np.abs(model.embed(texts) - plain).max() > 0.01


def test_bf16_ranks_as_fp32_does(model):
    texts = [f"{name} keeps {thing} in the {place}." for name, thing, place in product("ABC", THINGS, PLACES)]
    questions = [f"Where are {thing}?" for thing in THINGS]
    half = MiniLM(torch.bfloat16)
    whole_scores, half_scores = (one.embed(questions) @ one.embed(texts).T for one in (model, half))
    assert half.fingerprint == model.fingerprint
    assert np.abs(np.linalg.norm(half.embed(texts), axis=1) - 1).max() < 1e-5
    assert 0 < np.abs(whole_scores - half_scores).max() < 0.02
    assert np.corrcoef(whole_scores.ravel(), half_scores.ravel())[0, 1] > 0.999
