"""An embedding model of the user's choice gives the vectors of its transformer, and others are refused."""

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer, models
from transformers import BertModel, BertTokenizerFast

from store.retrieval import embedding_model as module
from store.retrieval.embedding_model import EmbeddingModel, EmbeddingModelUnusable
from tests.support.tiny_bert import seeded_config
from tests.support.tolerance import REORDERED

WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "heron", "waits", "in", "a"),
    *("kingfisher", "dives", "for", "fish", "query", "passage", ":"),
)
IDS = {word: number for number, word in enumerate(WORDS)}


def save(folder, positions=300, prompts=None):
    """Write a tiny model with random weights, mean pooling and a tokenizer of words."""
    BertModel(seeded_config(len(IDS), positions)).save_pretrained(folder)
    BertTokenizerFast(vocab=IDS).save_pretrained(folder)
    transformer = models.Transformer(str(folder), max_seq_length=positions)
    modules = [transformer, models.Pooling(16, pooling_mode="mean")]
    SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save(str(folder))
    return folder


@torch.no_grad()
def reference(folder, text):
    """The mean of the transformer's last states, ids laid out by hand."""
    ids = [IDS["[CLS]"], *(IDS.get(word, IDS["[UNK]"]) for word in text.replace(":", " :").split()), IDS["[SEP]"]]
    states = BertModel.from_pretrained(folder).eval()(input_ids=torch.tensor([ids])).last_hidden_state
    return torch.nn.functional.normalize(states[0].mean(0), dim=0)


@pytest.mark.parametrize(
    "name, prompts, expected",
    [
        ("tiny", None, ("", "")),
        ("tiny-e5-small", None, ("query: ", "passage: ")),
        ("tiny", {"query": "a ", "document": "the "}, ("a ", "the ")),
        ("tiny", {"query": "a ", "passage": "the "}, ("a ", "the ")),
    ],
)
def test_vectors_are_the_transformers_with_the_models_prompts(tmp_path, name, prompts, expected):
    folder = save(tmp_path / name, prompts=prompts)
    model, texts = EmbeddingModel(str(folder)), ["heron waits", "a kingfisher dives for fish"]
    segments = np.stack([reference(folder, expected[1] + text) for text in texts])
    np.testing.assert_allclose(model.embed(texts), segments, **tolerance())
    question = reference(folder, f"{expected[0]}the heron")
    np.testing.assert_allclose(model.embed_question("the heron"), question, **tolerance())
    assert model.embed([]).shape == (0, 16) and model.name == name and not model.is_english


def tolerance():
    return {"atol": REORDERED["atol"], "rtol": REORDERED["rtol"]}


def test_models_with_other_weights_or_prompts_have_other_fingerprints(tmp_path):
    plain, named = EmbeddingModel(str(save(tmp_path / "tiny"))), EmbeddingModel(str(save(tmp_path / "e5")))
    assert plain.fingerprint == EmbeddingModel(str(tmp_path / "tiny")).fingerprint != named.fingerprint


def without_weights(folder):
    (folder / "model.safetensors").unlink()


def with_code(folder):
    path = folder / "modules.json"
    path.write_text(path.read_text().replace("sentence_transformers.", "evil."))


def with_a_dense_layer(folder):
    path = folder / "modules.json"
    modules = json.loads(path.read_text())
    dense = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    path.write_text(json.dumps([*modules, dense]))


def without_modules(folder):
    (folder / "modules.json").unlink()


@pytest.mark.parametrize("damage", [without_weights, with_code, with_a_dense_layer, without_modules])
def test_other_models_are_refused_with_the_remedy(tmp_path, damage):
    damage(save(tmp_path / "tiny"))
    with pytest.raises(EmbeddingModelUnusable, match=r"tiny' cannot be used \(.*--embedding-model"):
        EmbeddingModel(str(tmp_path / "tiny"))


def test_a_model_that_reads_too_little_or_does_not_exist_is_refused(tmp_path, monkeypatch):
    with pytest.raises(EmbeddingModelUnusable, match="reads 128 tokens at most"):
        EmbeddingModel(str(save(tmp_path / "short", positions=128)))

    def unreachable(*arguments, **options):
        raise OSError("the hub does not answer")

    monkeypatch.setattr("store.retrieval.hub.snapshot_download", unreachable)
    for use in (EmbeddingModel, module.download):
        with pytest.raises(EmbeddingModelUnusable, match="the hub does not answer"):
            use("someone/else")
