"""Chunks are exact slices of bounded length, and only white space lies outside of them."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from semantic_text_splitter import TextSplitter
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from store.ingest.chunker import MAX_SECTION_CHARS, ChunkConfig, sections, split
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
    """Return a tokenizer with a token per UTF-8 byte, so up to four per character."""
    alphabet = {letter: number for number, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@pytest.mark.parametrize("tokenizer", [word_tokenizer(), byte_tokenizer()], ids=["words", "bytes"])
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
    assert all(is_covered or letter.isspace() for is_covered, letter in zip(covered, text, strict=True))
    assert spans == sorted(spans) and len({start for start, _ in spans}) == len({end for _, end in spans}) == len(spans)


def test_sentences_stay_whole_where_they_fit():
    text = "One two three. Four five six. Seven eight nine. Ten."
    chunks = [text[start:end] for start, end in split(text, word_tokenizer(), ChunkConfig(tokens=7, overlap=0))]
    assert chunks == ["One two three. Four five six.", "Seven eight nine. Ten."]


def test_overlap_repeats_whole_sentences():
    text = "One two three. Four five six. Seven eight nine."
    chunks = [text[start:end] for start, end in split(text, word_tokenizer(), ChunkConfig(tokens=6, overlap=3))]
    assert chunks == ["One two three. Four five six.", "Four five six. Seven eight nine."]


def test_a_truncating_tokenizer_does_not_let_chunks_grow():
    tokenizer = word_tokenizer()
    tokenizer.enable_truncation(4)
    assert len(split("word " * 100, tokenizer, ChunkConfig(tokens=10, overlap=0))) == 10
    assert tokenizer.truncation["max_length"] == 4


def test_texts_share_a_splitter_that_later_truncation_does_not_reach(monkeypatch):
    built, build = [], TextSplitter.from_huggingface_tokenizer
    monkeypatch.setattr(
        "store.ingest.chunker.TextSplitter",
        SimpleNamespace(from_huggingface_tokenizer=lambda *a, **k: built.append(a) or build(*a, **k)),
    )
    tokenizer = word_tokenizer()
    before = split("word " * 20, tokenizer, CONFIG)
    tokenizer.enable_truncation(4)
    assert split("word " * 20, tokenizer, CONFIG) == before
    assert len(built) == 1


@given(st.text(alphabet="ab. \n", max_size=300), st.integers(2, 40))
def test_sections_cover_the_text_without_a_gap(text, max_chars):
    spans = list(sections(text, max_chars))
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(0 < end - start <= max_chars for start, end in spans)


def test_sections_end_with_paragraphs():
    text = "a b c.\n\n" * 10
    assert {text[start:end][-2:] for start, end in sections(text, 30)} == {"\n\n"}


def test_a_long_text_is_split_to_its_end_in_bounded_sections(monkeypatch):
    """The splitter's time may grow faster than linearly; only sections keep that of a book bounded."""
    lengths, build = [], TextSplitter.from_huggingface_tokenizer

    def recording_splitter(*args, **options):
        splitter = build(*args, **options)
        return SimpleNamespace(chunk_indices=lambda text: lengths.append(len(text)) or splitter.chunk_indices(text))

    monkeypatch.setattr(
        "store.ingest.chunker.TextSplitter", SimpleNamespace(from_huggingface_tokenizer=recording_splitter)
    )
    text = "The cache keeps keys and values of passages. It forgets nothing.\n\n" * 15_000
    spans = split(text, word_tokenizer(), ChunkConfig())
    assert spans[-1][1] == len(text.rstrip())
    assert sum(lengths) == len(text) and max(lengths) <= MAX_SECTION_CHARS


@pytest.mark.parametrize("tokens, overlap", [(0, 0), (10, 10), (10, -1)])
def test_impossible_sizes_are_rejected(tokens, overlap):
    with pytest.raises(ValueError, match="got"):
        ChunkConfig(tokens=tokens, overlap=overlap)
