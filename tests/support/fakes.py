"""Exact and fast fakes: a tokenizer of words, an embedder that counts words, a reranker by a function."""

import hashlib
import re

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit


def word_tokenizer():
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return tokenizer


class WordEmbedder:
    """Texts that share words are similar. A segment has 8 words."""

    name, is_english = "words", True
    num_parameters, max_tokens = 0, 8

    def __init__(self, fingerprint="words", width=256):
        self.fingerprint = fingerprint
        self.width = width
        self.num_embedded = 0

    def segments(self, text):
        words = text.split()
        return [" ".join(words[start : start + 8]) for start in range(0, len(words), 8)] or [text]

    def truncate_left(self, text):
        return text if len(text.split()) <= 8 else " ".join(text.split()[-8:])

    def embed(self, texts):
        self.num_embedded += len(texts)
        vectors = np.zeros((len(texts), self.width), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()) or [""]:
                row[int(hashlib.md5(word.encode()).hexdigest(), 16) % self.width] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def embed_question(self, question):
        return self.embed([question])[0]


class FakeReranker:
    """Scores each text by a function of it alone; records the calls."""

    def __init__(self, score):
        self.score_text = score
        self.calls = []

    def score(self, question, texts):
        self.calls.append((question, list(texts)))
        return [float(self.score_text(text)) for text in texts]
