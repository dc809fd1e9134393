"""A cross-encoder's scores are its own logits; what is no cross-encoder is refused in a sentence."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

import httpx
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizer

from store.retrieval.reranker import BATCH_SIZE, MAX_TOKENS, CrossEncoderReranker, RerankerUnusable
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
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(IDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=positions,
        num_labels=labels,
        initializer_range=0.5,
    )
    build(config).save_pretrained(folder)
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


@pytest.mark.parametrize("positions, read", [(64, 64), (1024, MAX_TOKENS)])
def test_a_long_passage_is_read_as_far_as_the_model_goes(tmp_path, positions, read):
    folder = save(tmp_path / "tiny", positions=positions)
    kept = ["sea"] * (read - len(QUESTION.split()) - 3)  # beside [CLS] and two [SEP]
    longer = " ".join([*kept, "kingfisher", *PASSAGES[1].split() * 200])
    (score,) = CrossEncoderReranker(str(folder)).score(QUESTION, [longer])
    assert score == pytest.approx(forward(folder, QUESTION, " ".join(kept)), abs=REORDERED["atol"])


def test_threads_take_turns_and_get_the_scores_of_their_own_question(folder):
    reranker = CrossEncoderReranker(str(folder))
    questions = ["the heron", "basalt", "what dives", "open sea"] * 8
    alone = [reranker.score(question, PASSAGES) for question in questions]
    predict, free = reranker._model.predict, Semaphore(1)

    def watched(*pairs, **options):
        assert free.acquire(blocking=False)
        try:
            return predict(*pairs, **options)
        finally:
            free.release()

    reranker._model.predict = watched
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda question: reranker.score(question, PASSAGES), questions)) == alone


def test_weights_in_half_precision_are_computed_in_full(folder):
    model = BertForSequenceClassification.from_pretrained(folder).half()
    model.save_pretrained(folder)
    (score,) = CrossEncoderReranker(str(folder)).score(QUESTION, PASSAGES[:1])
    model.float().save_pretrained(folder)
    assert score == pytest.approx(forward(folder, QUESTION, PASSAGES[0]), abs=REORDERED["atol"])


class Hub:
    """A hub that has one model, in `folder`, and a cache that may have it too, or a part of it."""

    def __init__(self, folder, cached=None):
        self.folder, self.cached, self.asked = folder, cached, 0

    def __call__(self, name, allow_patterns, local_files_only=False):
        if local_files_only:
            if self.cached is None:
                raise LocalEntryNotFoundError(name)
            return str(self.cached)
        self.asked += 1
        if name != "someone/tiny":
            raise httpx.ConnectError("the hub does not answer")
        return str(self.folder)


@pytest.mark.parametrize("state, asked", [("whole", 0), ("torn off", 1), ("absent", 1)])
def test_a_name_is_looked_for_in_the_hubs_cache_and_then_on_the_hub(folder, tmp_path, monkeypatch, state, asked):
    part = save(tmp_path / "part")
    (part / "model.safetensors").unlink()
    hub = Hub(folder, {"whole": folder, "torn off": part, "absent": None}[state])
    monkeypatch.setattr("store.retrieval.reranker.snapshot_download", hub)
    (score,) = CrossEncoderReranker("someone/tiny").score(QUESTION, PASSAGES[:1])
    assert score == pytest.approx(forward(folder, QUESTION, PASSAGES[0]), abs=REORDERED["atol"])
    assert hub.asked == asked


def test_a_name_that_the_hub_does_not_give_is_refused_in_a_sentence(folder, monkeypatch):
    monkeypatch.setattr("store.retrieval.reranker.snapshot_download", Hub(folder))
    with pytest.raises(RerankerUnusable, match=r"'someone/else' cannot be read \(the hub does not answer\)\."):
        CrossEncoderReranker("someone/else")


def emptied(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def removed(folder):
    shutil.rmtree(folder)


def torn(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


def pickled(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def of_another_shape(folder):
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"hidden_size": 16', '"hidden_size": 32'))


def without_tokenizer(folder):
    for file in folder.glob("token*"):
        file.unlink()


def without_head(folder):
    save(folder, build=BertModel)


def with_two_scores(folder):
    save(folder, labels=2)


@pytest.mark.parametrize(
    "broken, said",
    [
        (removed, "cannot be read"),
        (emptied, "cannot be read"),
        (torn, "cannot be read"),
        (pickled, "cannot be read"),
        (of_another_shape, "cannot be read"),
        (without_tokenizer, "its tokenizer is missing"),
        (without_head, "a BertModel is not a cross-encoder"),
        (with_two_scores, "it gives 2 scores per pair, not one"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_cannot_score_is_refused_by_name_with_what_to_do(folder, broken, said):
    broken(folder)
    with pytest.raises(RerankerUnusable) as caught:
        CrossEncoderReranker(str(folder))
    assert str(folder) in str(caught.value) and said in str(caught.value)
    assert str(caught.value).endswith("or to off.")


@pytest.mark.parametrize("name", ["no such model!", "", "~/no/such/folder"])
def test_a_name_that_can_be_no_model_is_refused_in_a_sentence(name):
    with pytest.raises(RerankerUnusable, match="cannot be read"):
        CrossEncoderReranker(name)
