"""The reranker returns the cross-encoder's logits, and rejects other models with a message."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

import httpx
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import load_file
from transformers import BertForSequenceClassification, BertModel, BertTokenizer

from store.retrieval.reranker import BATCH_SIZE, MAX_TOKENS, CrossEncoderReranker, RerankerUnusable
from tests.support.tiny_bert import seeded_config
from tests.support.tolerance import REORDERED

WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("the", "heron", "waits", "in", "a", "kingfisher", "dives", "for", "fish"),
    *("basalt", "cools", "quickly", "open", "sea", "what"),
)
IDS = {word: number for number, word in enumerate(WORDS)}
QUESTION = "what dives in the open sea"
PASSAGES = [
    "a kingfisher dives for fish",
    "basalt cools quickly in the open sea",
    "the heron waits",
    "fish " * 20 + "dives",
    "zebra",
    "",
]


def save(folder, build=BertForSequenceClassification, labels=1, positions=64):
    """Write a tiny model with random weights, sharp enough that its scores differ, and a tokenizer of words."""
    build(seeded_config(len(IDS), positions, num_labels=labels)).save_pretrained(folder)
    BertTokenizer(vocab=IDS).save_pretrained(folder)
    return folder


@torch.no_grad()
def forward(folder, question, text):
    """The reference: one pair, no padding, ids laid out by hand as BERT was trained on pairs."""
    model = BertForSequenceClassification.from_pretrained(folder).eval()
    left, right = ([IDS.get(word, IDS["[UNK]"]) for word in part.split()] for part in (question, text))
    ids = [IDS["[CLS]"], *left, IDS["[SEP]"], *right, IDS["[SEP]"]]
    kinds = [0] * (len(left) + 2) + [1] * (len(right) + 1)
    return model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([kinds])).logits.item()


@pytest.fixture
def folder(tmp_path):
    return save(tmp_path / "tiny")


def test_scores_are_the_models_logits_in_the_order_of_the_texts(folder):
    texts = PASSAGES * (BATCH_SIZE // len(PASSAGES) + 2)  # more than one batch, long and short mixed
    expected = [forward(folder, QUESTION, text) for text in PASSAGES] * (BATCH_SIZE // len(PASSAGES) + 2)
    assert len({round(score, 3) for score in expected}) == len(PASSAGES)
    scores = CrossEncoderReranker(str(folder)).score(QUESTION, texts)
    torch.testing.assert_close(torch.tensor(scores), torch.tensor(expected), **REORDERED)


def test_no_texts_have_no_scores(folder):
    assert CrossEncoderReranker(str(folder)).score(QUESTION, []) == []


@pytest.mark.parametrize("positions, num_read", [(64, 64), (1024, MAX_TOKENS)])
def test_a_long_text_is_read_up_to_the_models_limit(tmp_path, positions, num_read):
    folder = save(tmp_path / "tiny", positions=positions)
    read = ["sea"] * (num_read - len(QUESTION.split()) - 3)  # beside [CLS] and two [SEP]
    longer = " ".join([*read, "kingfisher", *PASSAGES[1].split() * 200])
    (score,) = CrossEncoderReranker(str(folder)).score(QUESTION, [longer])
    assert score == pytest.approx(forward(folder, QUESTION, " ".join(read)), abs=REORDERED["atol"])


def test_threads_are_serialised_and_get_their_own_scores(folder):
    reranker = CrossEncoderReranker(str(folder))
    questions = ["the heron", "basalt", "what dives", "open sea"] * 8
    alone = [reranker.score(question, PASSAGES) for question in questions]
    predict, free = reranker.model.predict, Semaphore(1)

    def watched(*pairs, **options):
        assert free.acquire(blocking=False)
        try:
            return predict(*pairs, **options)
        finally:
            free.release()

    reranker.model.predict = watched
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda question: reranker.score(question, PASSAGES), questions)) == alone


def test_half_precision_weights_are_computed_in_fp32(folder):
    model = BertForSequenceClassification.from_pretrained(folder).half()
    model.save_pretrained(folder)
    (score,) = CrossEncoderReranker(str(folder)).score(QUESTION, PASSAGES[:1])
    model.float().save_pretrained(folder)
    assert score == pytest.approx(forward(folder, QUESTION, PASSAGES[0]), abs=REORDERED["atol"])


class Hub:
    """A hub with one model, in `folder`, and a cache that may have all or a part of it."""

    def __init__(self, folder, cached=None):
        self.folder, self.cached, self.num_downloads = folder, cached, 0

    def __call__(self, name, allow_patterns, local_files_only=False):
        if local_files_only:
            if self.cached is None:
                raise LocalEntryNotFoundError(name)
            return str(self.cached)
        self.num_downloads += 1
        if name != "someone/tiny":
            raise httpx.ConnectError("the hub does not answer")
        return str(self.folder)


@pytest.mark.parametrize("state, num_downloads", [("complete", 0), ("incomplete", 1), ("absent", 1)])
def test_a_name_is_loaded_from_the_hubs_cache_or_else_from_the_hub(folder, tmp_path, monkeypatch, state, num_downloads):
    part = save(tmp_path / "part")
    (part / "model.safetensors").unlink()
    hub = Hub(folder, {"complete": folder, "incomplete": part, "absent": None}[state])
    monkeypatch.setattr("store.retrieval.hub.snapshot_download", hub)
    (score,) = CrossEncoderReranker("someone/tiny").score(QUESTION, PASSAGES[:1])
    assert score == pytest.approx(forward(folder, QUESTION, PASSAGES[0]), abs=REORDERED["atol"])
    assert hub.num_downloads == num_downloads


def test_an_unknown_name_is_rejected_with_the_hubs_reason(folder, monkeypatch):
    monkeypatch.setattr("store.retrieval.hub.snapshot_download", Hub(folder))
    with pytest.raises(RerankerUnusable, match=r"'someone/else' cannot be read \(the hub does not answer\)\."):
        CrossEncoderReranker("someone/else")


def empty(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def remove(folder):
    shutil.rmtree(folder)


def truncate(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


def pickle_weights(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def change_shape(folder):
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"hidden_size": 16', '"hidden_size": 32'))


def remove_tokenizer(folder):
    for file in folder.glob("token*"):
        file.unlink()


def remove_head(folder):
    save(folder, build=BertModel)


def add_second_score(folder):
    save(folder, labels=2)


@pytest.mark.parametrize(
    "damage, message",
    [
        (remove, "cannot be read"),
        (empty, "cannot be read"),
        (truncate, "cannot be read"),
        (pickle_weights, "cannot be read"),
        (change_shape, "cannot be read"),
        (remove_tokenizer, "its tokenizer is missing"),
        (remove_head, "a BertModel is not a cross-encoder"),
        (add_second_score, "it gives 2 scores per pair, not one"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_an_unusable_model_is_rejected_by_name_with_a_remedy(folder, damage, message):
    damage(folder)
    with pytest.raises(RerankerUnusable) as caught:
        CrossEncoderReranker(str(folder))
    assert str(folder) in str(caught.value) and message in str(caught.value)
    assert str(caught.value).endswith("or to off.")


@pytest.mark.parametrize("name", ["no such model!", "", "~/no/such/folder"])
def test_an_impossible_name_is_rejected(name):
    with pytest.raises(RerankerUnusable, match="cannot be read"):
        CrossEncoderReranker(name)
