"""Invariant 6: alignment covers every selected character, for any two tokenisers, any script."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from engine.model.tokenizer import TextTokenizer
from engine.scoring.auxiliary import align
from tests.support import tiny

WORDS = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
WORDS.pre_tokenizer = pre_tokenizers.Whitespace()
SMALL, LARGE = (TextTokenizer(tiny.tokenizer(words).backend_tokenizer) for words in (270, 400))
KINDS = {"small": SMALL, "large": LARGE, "words": TextTokenizer(WORDS)}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(
    ["鉴于图1所示5663623", "def f(x):\n    return x", "naïve café 🎉🎉", "   ", "مرحبا بالعالم"]
)


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", ["small", "large"])
@settings(deadline=None, max_examples=40)
@given(text=TEXTS, seed=st.integers(0, 9))
def test_every_selected_character_is_covered(source, target, text, seed):
    spans, onto = KINDS[source].encode(text).spans, KINDS[target].encode(text).spans
    is_selected = np.random.default_rng(seed).random(len(spans)) < 0.5
    carried = align(torch.from_numpy(is_selected).float(), spans, onto)
    selected = {at for (start, end), keep in zip(spans, is_selected, strict=True) if keep for at in range(start, end)}
    covered = {at for (start, end), score in zip(onto, carried, strict=True) if score for at in range(start, end)}
    readable = {at for start, end in onto for at in range(start, end)}
    assert selected & readable <= covered


def test_a_token_gets_the_best_overlapping_score_and_zero_without_overlap():
    spans, onto = [(0, 2), (2, 5), (5, 6)], [(0, 3), (3, 5), (6, 9)]
    assert align(torch.tensor([0.25, 0.75, 0.5]), spans, onto).tolist() == [0.75, 0.75, 0.0]


def test_the_same_tokens_keep_their_scores():
    spans = LARGE.encode("Tiny models with random weights").spans
    scores = torch.rand(len(spans), generator=torch.Generator().manual_seed(0))
    assert align(scores, spans, spans).tolist() == scores.tolist()
