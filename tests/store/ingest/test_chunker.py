"""Chunks are exact slices, short enough, and lose nothing but white space."""

import time
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semantic_text_splitter import TextSplitter
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from store.ingest.chunker import ChunkConfig, sections, split
from tests.support.fakes import word_tokenizer

CONFIG = ChunkConfig(tokens=8, overlap=3)
TEXTS = st.lists(
    st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=40),
        st.sampled_from(
            [
                "汉字测试。",
                "👩‍👩‍👧‍👦",
                "🇩🇪🇫🇷",
                "e\u0301",
                "\n\n",
                "\n",
                ". ",
                "word " * 20,
                "x" * 90,
                "\u3000",
            ]
        ),
    ),
    max_size=12,
).map("".join)


def byte_tokenizer():
    """A token per UTF-8 byte, so that one character may take four."""
    alphabet = {letter: number for number, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@pytest.mark.parametrize("tokenizer", [word_tokenizer(), byte_tokenizer()], ids=["words", "bytes"])
@settings(max_examples=60)
@given(text=TEXTS)
def test_only_white_space_lies_outside_of_ascending_chunks(tokenizer, text):
    text = "".join(letter for letter in text if not "\x1c" <= letter <= "\x1f")  # white space to Python only
    spans = split(text, tokenizer, CONFIG)
    covered = [False] * len(text)
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert text[start:end].strip()
        covered[start:end] = [True] * (end - start)
        if end - start > 1:
            assert len(tokenizer.encode(text[start:end], add_special_tokens=False).ids) <= CONFIG.tokens
    assert all(is_in or letter.isspace() for is_in, letter in zip(covered, text, strict=True))
    assert spans == sorted(spans) and len({start for start, _ in spans}) == len({end for _, end in spans}) == len(spans)


def test_sentences_stay_whole_where_they_fit():
    text = "One two three. Four five six. Seven eight nine. Ten."
    pieces = [text[start:end] for start, end in split(text, word_tokenizer(), ChunkConfig(tokens=7, overlap=0))]
    assert pieces == ["One two three. Four five six.", "Seven eight nine. Ten."]


def test_overlap_repeats_whole_sentences():
    text = "One two three. Four five six. Seven eight nine."
    pieces = [text[start:end] for start, end in split(text, word_tokenizer(), ChunkConfig(tokens=6, overlap=3))]
    assert pieces == ["One two three. Four five six.", "Four five six. Seven eight nine."]


def test_a_truncating_tokenizer_does_not_let_chunks_grow():
    tokenizer = word_tokenizer()
    tokenizer.enable_truncation(4)
    assert len(split("word " * 100, tokenizer, ChunkConfig(tokens=10, overlap=0))) == 10
    assert tokenizer.truncation["max_length"] == 4


def test_texts_share_a_splitter_that_later_truncation_does_not_reach(monkeypatch):
    made, make = [], TextSplitter.from_huggingface_tokenizer
    monkeypatch.setattr(
        "store.ingest.chunker.TextSplitter",
        SimpleNamespace(from_huggingface_tokenizer=lambda *a, **k: made.append(a) or make(*a, **k)),
    )
    tokenizer = word_tokenizer()
    before = split("word " * 20, tokenizer, CONFIG)
    tokenizer.enable_truncation(4)
    assert split("word " * 20, tokenizer, CONFIG) == before
    assert len(made) == 1


@given(st.text(alphabet="ab. \n", max_size=300), st.integers(2, 40))
def test_sections_cover_the_text_without_a_gap(text, most):
    spans = list(sections(text, most))
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(0 < end - start <= most for start, end in spans)


def test_sections_end_with_paragraphs():
    text = "a b c.\n\n" * 10
    assert {text[start:end][-2:] for start, end in sections(text, 30)} == {"\n\n"}


def test_a_million_characters_are_cut_to_the_last():
    text = "The cache keeps keys and values of passages. It forgets nothing.\n\n" * 15_000
    began = time.perf_counter()
    spans = split(text, word_tokenizer(), ChunkConfig())
    assert time.perf_counter() - began < 60  # two seconds; were it quadratic, many minutes
    assert spans[-1][1] == len(text.rstrip())


@pytest.mark.parametrize("tokens, overlap", [(0, 0), (10, 10), (10, -1)])
def test_impossible_sizes_are_refused(tokens, overlap):
    with pytest.raises(ValueError, match="got"):
        ChunkConfig(tokens=tokens, overlap=overlap)
